//! A server with TLS, and certificates made for it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::unistd::User;
use pgcalm_host::HostRoot;
use pgcalm_host::postgres;
use rustix::process::Pid;
use rustix::process::Signal;

/// For the server to come up on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// Who may connect how, over TCP but for the first two.
const RULES: &str = "\
local     all tester               trust
local     all all                  peer
hostnossl all plain   127.0.0.1/32 trust
hostssl   all secured 127.0.0.1/32 trust
hostssl   all holder  127.0.0.1/32 cert
host      all monitor 127.0.0.1/32 scram-sha-256
";

/// `user:password` of a role that has one.
pub const PASSWORD: &str = r"p:w\d se'cret";

/// A running server; ended without mercy when dropped.
pub struct Server {
    bindir: PathBuf,
    pub directory: tempfile::TempDir,
    child: Child,
    pub port: u16,
}

/// The server programs; says so if there are none.
pub fn bindir() -> Option<PathBuf> {
    let pg_config = std::env::var_os("PG_CONFIG")
        .unwrap_or_else(|| "/usr/lib/postgresql/15/bin/pg_config".into());
    let output = Command::new(pg_config).arg("--bindir").output().ok()?;
    let bindir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let is_there = postgres::missing(&HostRoot::default(), &bindir).is_empty();
    if !is_there {
        eprintln!("skipped: connect: needs PostgreSQL 15, or PG_CONFIG that names another");
    }
    is_there.then_some(bindir)
}

/// A command as the server's user, who is not root.
fn as_server(program: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        let user = User::from_name("postgres").unwrap().unwrap();
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command.current_dir(directory);
    command
}

fn run(mut command: Command, arguments: &[&str]) {
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl Server {
    pub fn start(bindir: PathBuf) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("pgcalm-connect")
            .tempdir()
            .unwrap();
        let path = directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            let user = User::from_name("postgres").unwrap().unwrap();
            let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
        }
        make_certificates(path);
        let data = path.join("data");
        let initdb = as_server(bindir.join("initdb"), path);
        run(
            initdb,
            &["-N", "-U", "tester", "-D", data.to_str().unwrap()],
        );
        fs::write(data.join("pg_hba.conf"), RULES).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut settings = fs::read_to_string(data.join("postgresql.conf")).unwrap();
        settings.push_str(&format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{0}'\nfsync = off\n\
             shared_buffers = 16MB\nautovacuum = off\nssl = on\nssl_cert_file = '{0}/server.crt'\n\
             ssl_key_file = '{0}/server.key'\nssl_ca_file = '{0}/ca.crt'\nlog_connections = on\n\
             log_statement = all\nlc_messages = C\n",
            path.display()
        ));
        fs::write(data.join("postgresql.conf"), settings).unwrap();
        let log = fs::File::create(path.join("log")).unwrap();
        let child = as_server(bindir.join("postgres"), path)
            .arg("-D")
            .arg(&data)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self {
            bindir,
            directory,
            child,
            port,
        };
        let end = Instant::now() + PATIENCE;
        while !server.psql("SELECT 1").status.success() {
            assert!(Instant::now() < end, "{}", server.log());
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub fn psql(&self, sql: &str) -> Output {
        Command::new(self.bindir.join("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "tester"])
            .args(["-d", "postgres", "-p", &self.port.to_string(), "-h"])
            .arg(self.path())
            .args(["-c", sql])
            .output()
            .unwrap()
    }

    pub fn sql(&self, sql: &str) {
        let output = self.psql(sql);
        assert!(output.status.success(), "{sql}: {output:?}");
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A file beside the data.
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}

/// An authority, the server's certificate for `localhost`, that of the role `holder`, and another authority.
fn make_certificates(directory: &Path) {
    let openssl = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        run(as_server("openssl", directory), &arguments);
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc";
    for name in ["ca", "other"] {
        openssl(&format!(
            "req -x509 {key} -keyout {name}.key -out {name}.crt -days 2 -subj /CN={name}"
        ));
    }
    for (name, subject) in [
        ("server", "/CN=unused -addext subjectAltName=DNS:localhost"),
        ("holder", "/CN=holder"),
    ] {
        openssl(&format!(
            "req {key} -keyout {name}.key -out {name}.csr -subj {subject}"
        ));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -copy_extensions copy -out {name}.crt -days 2"
        ));
    }
}
