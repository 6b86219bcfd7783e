//! Which server is asked and changed: the one that is meant, and no other, whatever lies at its paths. Needs root, and says so.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pgcalm_testkit::programs::{Programs, Running};
use pgcalm_testkit::server::{Launch, Server};
use pgcalm_testkit::{need, programs, wait_for};

use super::command;

/// Where Debian's servers have their sockets: below a link of the host's root directory.
const USUAL: &str = "/var/run/postgresql";

/// Nobody else's user, who may look at no server's processes.
const NOBODY: u32 = 65534;

fn can_be_tested() -> bool {
    let needs = [need::ROOT, need::SERVER];
    need::met("which server is asked", &needs) && Path::new(USUAL).is_dir()
}

/// A port that no other run of these tests has at the same time.
fn port(number: u32) -> u16 {
    20_000 + (std::process::id() % 4000 * 8 + number) as u16
}

struct Place {
    directory: tempfile::TempDir,
    programs: Programs,
}

impl Place {
    fn new() -> Self {
        let directory = programs::directory("pgcalm-proof-");
        let programs = Programs::new(&programs::bindir().unwrap(), directory.path());
        Self { directory, programs }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn launch(&self, name: &str, port: u16, settings: &str) -> Launch {
        let data = self.path(name);
        self.programs.initdb(&data, &[]);
        let mut launch = Launch::new(&self.programs, &data);
        launch.port = port;
        launch.settings = format!("cluster_name = '{name}'\nlog_connections = on\n{settings}");
        launch
    }

    /// A server as packages have it.
    fn server(&self, port: u16, settings: &str) -> Server {
        let directory = self.directory.path().display();
        let sockets = format!("unix_socket_directories = '{USUAL}, {directory}'\n{settings}");
        self.launch("outer", port, &sockets).start()
    }

    /// The program where any user may run it.
    fn program(&self) -> PathBuf {
        let program = self.path("pgcalm");
        fs::copy(env!("CARGO_BIN_EXE_pgcalm"), &program).unwrap();
        program
    }
}

fn pgcalm(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Wrapped up to be in a mount namespace of its own, where the sockets' directory is another one.
fn in_container(postgres: Command) -> Command {
    let (uid, gid) = programs::server_user().unwrap();
    let script = format!(
        "mount -t tmpfs -o mode=1777 none /run/postgresql && \
         exec setpriv --reuid={uid} --regid={gid} --clear-groups \"$@\""
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(postgres.get_program())
        .args(postgres.get_args())
        .current_dir(postgres.get_current_dir().unwrap());
    command
}

#[test]
fn a_containers_server_is_the_one_that_is_asked_and_changed() {
    let Some((outer_place, inner_place)) = can_be_tested().then(|| (Place::new(), Place::new())) else { return };
    let port = port(0);
    let outer = outer_place.server(port, "fsync = off");
    let sockets =
        format!("unix_socket_directories = '{USUAL}, {}'\nfsync = off", inner_place.directory.path().display());
    let inner = inner_place.launch("inner", port, &sockets);
    let inner = inner.start_wrapped(in_container);
    assert!(Path::new(USUAL).join(format!(".s.PGSQL.{port}")).exists());
    let pid = inner.pid().to_string();

    let lag = pgcalm(&["lag", "--instance", &pid, "--count", "1", "--interval", "0.1", "--json"]);
    assert!(text(&lag.stdout).contains("\"inner\""), "{lag:?}");
    // Of a server that is traced no other one is asked, wherever --connect leads.
    let other = format!("{} user=postgres", outer.conninfo());
    let trace = pgcalm(&["trace", "locks", "--duration=1s", "--instance", &pid, "--connect", &other]);
    assert_eq!(trace.status.code(), Some(4), "{trace:?}");
    assert!(text(&trace.stderr).contains("another server answers"), "{trace:?}");
    let state = inner_place.path("state");
    let change = |more: &[&str]| {
        let mut arguments = vec!["doctor", "--instance", &pid, "--duration", "0", "--apply", "--yes"];
        arguments.extend(["--state-dir", state.to_str().unwrap()]);
        arguments.extend(more);
        pgcalm(&arguments)
    };
    let set = |server: &Server| {
        let file = server.data().join("postgresql.auto.conf");
        fs::read_to_string(file).unwrap().contains("fsync")
    };
    let output = change(&["--only", "fsync-off"]);
    assert_eq!((set(&outer), set(&inner)), (false, true), "{output:?}");
    assert!(output.status.success(), "{output:?}");
    // Said before it is done.
    let written = format!("written to {}/postgresql.auto.conf", inner.data().display());
    assert!(text(&output.stderr).contains(&written), "{output:?}");
    let output = change(&["--undo"]);
    assert_eq!((set(&outer), set(&inner)), (false, false), "{output:?}");
    assert!(text(&output.stderr).contains(&written), "{output:?}");

    // A change is taken back in the server that it was made in, though another has the same identifier and path.
    change(&["--only", "fsync-off"]);
    let file = state.join("state.json");
    let noted = fs::read_to_string(&file).unwrap();
    let inode = noted.lines().find(|line| line.contains("\"inode\"")).unwrap();
    fs::write(&file, noted.replace(inode, "\"inode\": 1,")).unwrap();
    let output = change(&["--undo"]);
    assert!(set(&inner), "{output:?}");
    assert!(text(&output.stdout).contains("not connected to it"), "{output:?}");
}

/// A process of another user's that says of itself that it is a server.
struct Claim {
    program: Running,
    data: PathBuf,
}

impl Claim {
    fn new(place: &Place, name: &str) -> Self {
        let data = place.path(name);
        fs::create_dir(&data).unwrap();
        std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::copy("/bin/sleep", data.join("postgres")).unwrap();
        let child =
            Command::new(data.join("postgres")).arg("1000").current_dir(&data).uid(NOBODY).gid(NOBODY).spawn().unwrap();
        fs::write(data.join("PG_VERSION"), "15\n").unwrap();
        Self { program: Running(child), data }
    }

    fn listens(&self, directory: &str, port: u16) {
        let (pid, data) = (self.program.0.id(), self.data.display());
        let text = format!("{pid}\n{data}\n1700000000\n{port}\n{directory}\n*\n");
        fs::write(self.data.join("postmaster.pid"), text).unwrap();
    }
}

#[test]
fn a_process_that_claims_another_servers_place_leads_nobody_there() {
    let Some(place) = can_be_tested().then(Place::new) else { return };
    let port = port(1);
    let tcp = "fsync = off\nlisten_addresses = 'localhost'";
    let server = place.server(port, tcp);
    let claim = Claim::new(&place, "claim");
    let pid = claim.program.0.id().to_string();
    let links = claim.data.join("links");
    fs::create_dir(&links).unwrap();
    let socket = format!(".s.PGSQL.{port}");
    symlink(Path::new(USUAL).join(&socket), links.join(&socket)).unwrap();
    symlink(USUAL, claim.data.join("link")).unwrap();
    let before = server.log();
    for directory in [USUAL, claim.data.join("link").to_str().unwrap(), links.to_str().unwrap(), ""] {
        claim.listens(directory, port);
        let state = place.path("state");
        let output = pgcalm(&[
            "doctor",
            "--instance",
            &pid,
            "--duration=0",
            "--apply",
            "--yes",
            "--only=fsync-off",
            "--state-dir",
            state.to_str().unwrap(),
        ]);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{directory}: {output:?}");
        assert_eq!(complaint.lines().count(), 1, "{directory}: {complaint}");
        assert!(!state.exists(), "{directory}: something was changed");
        let lag = pgcalm(&["lag", "--instance", &pid, "--count=1", "--interval=0.1"]);
        assert_eq!(lag.status.code(), Some(4), "{directory}: {lag:?}");
        assert!(lag.stdout.is_empty(), "{directory}: {lag:?}");
        if directory != links.to_str().unwrap() {
            let complaint = text(&lag.stderr);
            let why = format!("this is not the server with pid {pid}");
            assert!(complaint.contains(&why), "{directory}: {complaint}");
        }
    }
    let log = server.log().split_off(before.len());
    assert!(!log.contains("connection authorized"), "{log}");
    // The same server by TCP, for itself, with no socket to be found by.
    let directory = format!("{USUAL}/no-such");
    let pid_file = server.data().join("postmaster.pid");
    let lines = fs::read_to_string(&pid_file).unwrap();
    fs::write(&pid_file, lines.replace(&format!("\n{USUAL}\n"), "\n\n")).unwrap();
    let pid = server.pid().to_string();
    let lag = pgcalm(&["lag", "--instance", &pid, "--count=1", "--interval=0.1"]);
    assert!(lag.status.success(), "{directory}: {lag:?}");
    fs::write(&pid_file, lines).unwrap();
}

#[test]
fn servers_that_may_not_be_looked_at_are_not_servers_that_are_not_there() {
    let Some(place) = can_be_tested().then(Place::new) else { return };
    let port = port(2);
    let launch = place.launch("data", port, "");
    // As the official image starts it.
    let server = launch.start_wrapped(|postgres| {
        let mut command = place.programs.command("postgres");
        let data = postgres.get_args().nth(1).unwrap();
        command.env("PGDATA", data);
        command
    });
    let program = place.program();
    let nobody = format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups");
    let hide = format!("mount -t proc -o hidepid=2 proc /proc && exec {nobody} \"$@\"");
    let noaccess = hide.replace("hidepid=2", "hidepid=1");
    for way in [hide, noaccess, format!("exec {nobody} \"$@\"")] {
        let run = |arguments: &[&str]| {
            Command::new("unshare")
                .args(["--mount", "sh", "-c", &way, "sh"])
                .arg(&program)
                .args(arguments)
                .current_dir("/")
                .output()
                .unwrap()
        };
        let check = run(&["isolate", "check", "--fail-on", "slow"]);
        assert_eq!(check.status.code(), Some(3), "{way}: {check:?}");
        let port = server.port().to_string();
        let pid = server.pid().to_string();
        for name in [&port, &pid] {
            let doctor = run(&["doctor", "--duration=0", "--instance", name]);
            assert_eq!(doctor.status.code(), Some(3), "{way}: {doctor:?}");
            assert!(text(&doctor.stdout).contains("not judged."), "{doctor:?}");
        }
    }
}

#[test]
fn a_number_of_no_server_has_one_exit_code_and_the_host_is_judged_all_the_same() {
    let Some(place) = can_be_tested().then(Place::new) else { return };
    let server = place.launch("data", port(3), "").start();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid()));
    let backend = children.unwrap().split(' ').next().unwrap().to_string();
    let own = std::process::id().to_string();
    for name in [&backend, &own, "1", "2", "4194300"] {
        for arguments in [
            &["doctor", "--duration=0", "--instance"][..],
            &["lag", "--count=1", "--instance"],
            &["trace", "io", "--duration=1s", "--instance"],
        ] {
            let mut command = command();
            let output = command.args(arguments).arg(name).output().unwrap();
            assert_eq!(output.status.code(), Some(4), "{arguments:?} {name}: {output:?}");
        }
    }
    for connect in ["host=/nowhere", "host=127.0.0.1 port=1 user=x"] {
        let output = pgcalm(&["doctor", "--duration=0", "--connect", connect]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(text(&output.stdout).contains("not judged."), "{output:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
    }
}

#[test]
fn a_server_that_ends_while_rates_are_measured_is_no_server() {
    let Some(place) = can_be_tested().then(Place::new) else { return };
    let mut server = place.launch("data", port(4), "").start();
    let child = command()
        .args(["doctor", "--duration=3s", "--connect", &server.conninfo()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the session", || {
        let count = "SELECT count(*) FROM pg_stat_activity \
                     WHERE application_name = 'pgcalm doctor' AND query LIKE '%xact_commit%' AND state = 'idle'";
        server.sql(count) == "1"
    });
    server.stop();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(text(&output.stdout).contains("not judged."), "{output:?}");
}
