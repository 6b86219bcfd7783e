//! Limits on a real server, with cgroup v1, on a real device. Needs root; says so and passes otherwise.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use pgcalm_host::HostRoot;
use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::cgroup::Version;
use pgcalm_host::postgres;
use pgcalm_host::process;
use pgcalm_lab::Size;
use pgcalm_lab::device::Device;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_report::isolate::Report;
use rustix::mount::MountFlags;
use rustix::mount::UnmountFlags;
use rustix::process::Pid;
use rustix::process::Signal;

/// Write operations per second of the limited instance.
const LIMIT: u32 = 60;

fn host() -> HostRoot {
    HostRoot::default()
}

/// The hierarchy, if the tests can run here; if not, says why not.
fn hierarchy() -> Option<Hierarchy> {
    let lack = if !rustix::process::geteuid().is_root() {
        "needs root for loop devices and control groups"
    } else if postgres::bindirs(&host()).is_empty() {
        "needs an installed PostgreSQL server"
    } else {
        match Hierarchy::of_block_io(&host()).unwrap() {
            Some(hierarchy) if hierarchy.version == Version::V1 => return Some(hierarchy),
            _ => "needs cgroup v1 blkio",
        }
    };
    eprintln!("skipped: isolate on a real server: {lack}");
    None
}

/// A directory on a disk (direct I/O), open to the servers' user.
struct Place {
    directory: PathBuf,
    // Detached after the file system is unmounted.
    _device: Device,
    device: String,
}

impl Place {
    fn new(test: &str) -> Self {
        let directory = PathBuf::from(format!(
            "/var/tmp/pgcalm-isolate-{}-{test}",
            std::process::id()
        ));
        fs::create_dir(&directory).unwrap();
        let journal = Journal::open(host(), &directory.join("journal.json")).unwrap();
        let image = directory.join("pgcalm.img");
        let device = Device::create(
            &journal,
            &image,
            Size(400 << 20),
            None,
            &Interrupt::default(),
        )
        .unwrap();
        let mkfs = Command::new("mkfs.ext4")
            .args([
                "-q",
                "-F",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            ])
            .arg(device.node())
            .status();
        assert!(mkfs.unwrap().success());
        fs::create_dir(directory.join("mnt")).unwrap();
        rustix::mount::mount(
            device.node(),
            directory.join("mnt"),
            "ext4",
            MountFlags::empty(),
            None,
        )
        .unwrap();
        Self {
            directory,
            device: device.name.clone(),
            _device: device,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mountpoint = self.directory.join("mnt");
        for _ in 0..100 {
            if rustix::mount::unmount(&mountpoint, UnmountFlags::empty()).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = fs::remove_dir(&mountpoint);
        // The device removes its image after this; a directory that isn't empty yet stays for that.
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.path().extension().is_some_and(|e| e == "log") {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

struct Server {
    child: Child,
    data: PathBuf,
}

impl Server {
    fn start(place: &Place, name: &str) -> Self {
        let data = place.directory.join("mnt").join(name);
        fs::create_dir(&data).unwrap();
        let uid = owner();
        std::os::unix::fs::chown(&data, Some(uid.0), Some(uid.1)).unwrap();
        let output = program("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let log = fs::File::create(place.directory.join(format!("{name}.log"))).unwrap();
        let child = program("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "port=5432", "-k"])
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { child, data };
        let end = Instant::now() + Duration::from_secs(60);
        while !server.sql("select 1").status.success() {
            assert!(Instant::now() < end, "{name} does not start");
            thread::sleep(Duration::from_millis(100));
        }
        server
    }

    fn sql(&self, sql: &str) -> std::process::Output {
        program("psql")
            .args(["-XAtq", "-U", "postgres", "-h"])
            .arg(&self.data)
            .args(["-c", sql, "postgres"])
            .output()
            .unwrap()
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Commits for two seconds, each of which is at least one write of WAL; returns how many there were per second.
    fn commits(&self) -> f64 {
        let output = program("pgbench")
            .args(["-n", "-c", "1", "-T", "2", "-U", "postgres", "-h"])
            .arg(&self.data)
            .args(["-f", "/dev/stdin", "postgres"])
            .stdin(script(&self.data))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let tps = text
            .lines()
            .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        tps.unwrap_or_else(|| panic!("{text} {:?}", String::from_utf8(output.stderr)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid()) {
            let _ = rustix::process::kill_process(pid, Signal::QUIT);
        }
        let _ = self.child.wait();
    }
}

fn script(data: &Path) -> fs::File {
    let file = data.with_extension("sql.log");
    fs::write(&file, "insert into t values (1);\n").unwrap();
    fs::File::open(file).unwrap()
}

fn owner() -> (u32, u32) {
    let ids = |option: &str| -> u32 {
        let output = Command::new("id")
            .args([option, "postgres"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    (ids("-u"), ids("-g"))
}

fn program(name: &str) -> Command {
    let bindir = postgres::bindirs(&host()).swap_remove(0);
    let (uid, gid) = owner();
    let mut command = Command::new(bindir.join(name));
    command
        .uid(uid)
        .gid(gid)
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

fn isolate(arguments: &[&str]) -> Report {
    let output = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
        .arg("isolate")
        .args(arguments)
        .arg("--json")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The groups of all processes of a server.
fn groups(hierarchy: &Hierarchy, server: &Server) -> Vec<PathBuf> {
    let table = process::table(&host()).unwrap();
    let mut groups: Vec<PathBuf> = process::family(&table, server.pid())
        .iter()
        .filter_map(|process| {
            hierarchy
                .group_of(&host(), &process.pid.to_string())
                .ok()
                .flatten()
        })
        .collect();
    groups.sort();
    groups.dedup();
    groups
}

#[test]
fn a_limit_holds_for_one_instance_until_it_is_cleared() {
    let Some(hierarchy) = hierarchy() else {
        return;
    };
    let place = Place::new("limit");
    let (one, two) = (Server::start(&place, "one"), Server::start(&place, "two"));
    for server in [&one, &two] {
        assert!(server.sql("create table t (a int)").status.success());
    }
    let former = groups(&hierarchy, &two);
    assert_eq!(groups(&hierarchy, &one), former);

    // Both have the same port: only the directory tells them apart.
    let data = one.data.to_str().unwrap();
    let node = format!("/dev/{}", place.device);
    let limit = LIMIT.to_string();
    let arguments = [
        "set",
        "--instance",
        data,
        "--device",
        &node,
        "--write-iops",
        &limit,
    ];
    let plan = isolate(&[&arguments[..], &["--plan"]].concat());
    assert!(!plan.applied);
    assert_eq!(groups(&hierarchy, &one), former);
    let set = isolate(&arguments);
    assert!(set.applied);
    assert!(set.instances[0].isolated);
    assert_eq!(set.instances[0].other_groups, [""; 0]);
    assert_eq!(
        set.instances[0].limits.last().unwrap().value,
        u64::from(LIMIT)
    );
    // The steps of the plan are made, and maybe moves of processes that have come since.
    for step in &plan.steps {
        let made = set.steps.contains(step) || step.action == "move";
        assert!(made, "{step:?}");
    }

    let before = DeviceStat::read(&host(), &place.device).unwrap();
    let started = Instant::now();
    let limited = one.commits();
    let seconds = started.elapsed().as_secs_f64();
    let after = DeviceStat::read(&host(), &place.device).unwrap();
    let writes = (after.write_ops - before.write_ops) as f64 / seconds;
    let free = two.commits();
    assert!(limited < f64::from(LIMIT) * 1.15, "{limited}");
    assert!(writes > f64::from(LIMIT) * 0.5, "{writes}");
    assert!(free > limited * 3.0, "{free} against {limited}");
    // A backend that has come since is in the group, and none of the other instance.
    assert_eq!(groups(&hierarchy, &two), former);
    assert_eq!(groups(&hierarchy, &one).len(), 1);
    assert_ne!(groups(&hierarchy, &one), former);

    let names: Vec<String> = isolate(&["check"])
        .hazards
        .into_iter()
        .filter(|hazard| hazard.instances.iter().any(|name| name == data))
        .map(|hazard| hazard.name)
        .collect();
    assert_eq!(
        names,
        [
            "shared-journal",
            "wal-on-capped-device",
            "writeback-escapes-limit"
        ]
    );

    let group = hierarchy.directory(&groups(&hierarchy, &one)[0]);
    let cleared = isolate(&["clear", "--instance", data]);
    assert!(cleared.applied);
    assert!(!group.exists());
    assert_eq!(groups(&hierarchy, &one), former);
    let again = one.commits();
    assert!(again > limited * 3.0, "{again} against {limited}");
    drop((one, two));
    let directory = place.directory.clone();
    drop(place);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    fs::remove_dir(directory).unwrap();
}

#[test]
fn a_group_whose_instance_has_ended_is_cleared() {
    let Some(hierarchy) = hierarchy() else {
        return;
    };
    let place = Place::new("ended");
    let server = Server::start(&place, "one");
    let data = server.data.to_str().unwrap().to_string();
    let node = format!("/dev/{}", place.device);
    let set = isolate(&[
        "set",
        "--instance",
        &data,
        "--device",
        &node,
        "--read-bps",
        "100MB",
    ]);
    let group = hierarchy.directory(Path::new(set.instances[0].group.as_ref().unwrap()));
    drop(server);
    let noted = isolate(&["show"]).notes;
    assert!(noted.iter().any(|note| note.contains(&data)), "{noted:?}");
    assert!(group.exists());
    isolate(&["clear", "--instance", &data]);
    assert!(!group.exists());
    let directory = place.directory.clone();
    drop(place);
    fs::remove_dir(directory).unwrap();
}
