//! Servers to look at, of which some can load pg_calm as it was built here, without being installed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::unistd::User;
use pgcalm_host::HostRoot;
use pgcalm_host::postgres;
use rustix::process::Pid;
use rustix::process::Signal;

/// The server's directories, if the tests can run here; if not, says why not.
pub fn installation() -> Option<Directories> {
    let directories = Directories::find();
    let lack = if !rustix::process::geteuid().is_root() {
        "needs root, to run servers as another user"
    } else if directories.is_none() {
        "needs PostgreSQL 15, or PG_CONFIG that names another"
    } else {
        return directories;
    };
    eprintln!("skipped: top on a real server: {lack}");
    None
}

/// Where the files of a server installation are.
#[derive(Debug, Clone)]
pub struct Directories {
    bin: PathBuf,
    pkglib: PathBuf,
    share: PathBuf,
}

impl Directories {
    fn find() -> Option<Self> {
        let pg_config = std::env::var_os("PG_CONFIG")
            .unwrap_or_else(|| "/usr/lib/postgresql/15/bin/pg_config".into());
        let directory = |option: &str| {
            let output = Command::new(&pg_config).arg(option).output().ok()?;
            Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
        };
        let directories = Self {
            bin: directory("--bindir")?,
            pkglib: directory("--pkglibdir")?,
            share: directory("--sharedir")?,
        };
        postgres::missing(&HostRoot::default(), &directories.bin)
            .is_empty()
            .then_some(directories)
    }

    /// A copy below `place` that has pg_calm: a server finds its files relative to its own program, links resolved.
    /// `None` if the module was not built.
    pub fn with_module(&self, place: &Path) -> Option<Self> {
        let extension = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../extension/pg_calm");
        if !extension.join("pg_calm.so").exists() {
            eprintln!("skipped: top with pg_calm: needs the module, make build");
            return None;
        }
        let inside = |path: &Path| place.join(path.strip_prefix("/").unwrap());
        let copy = Self {
            bin: inside(&self.bin),
            pkglib: inside(&self.pkglib),
            share: inside(&self.share),
        };
        fs::create_dir_all(&copy.bin).unwrap();
        for entry in fs::read_dir(&self.bin).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.bin.join(entry.file_name())).unwrap();
        }
        link_all(&self.pkglib, &copy.pkglib);
        link_all(&self.share, &copy.share);
        fs::remove_file(copy.share.join("extension")).unwrap();
        link_all(&self.share.join("extension"), &copy.share.join("extension"));
        for entry in fs::read_dir(&extension).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap();
            let target = match path.extension().and_then(OsStr::to_str) {
                Some("so") => copy.pkglib.join(name),
                Some("control" | "sql") => copy.share.join("extension").join(name),
                _ => continue,
            };
            // Not the installed one.
            let _ = fs::remove_file(&target);
            fs::copy(&path, &target).unwrap();
        }
        Some(copy)
    }
}

fn link_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        symlink(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A server of a test's own, on a Unix socket only.
pub struct Server {
    directories: Directories,
    child: Option<Child>,
    pub dir: tempfile::TempDir,
}

impl Server {
    pub fn start(directories: &Directories, with_module: bool) -> Option<Self> {
        let dir = tempfile::Builder::new()
            .prefix("pgcalm-top-test-")
            .tempdir_in("/var/tmp")
            .unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = User::from_name("postgres").unwrap().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .unwrap();
        let directories = match with_module {
            true => directories.with_module(&dir.path().join("installation"))?,
            false => directories.clone(),
        };
        let mut server = Self {
            directories,
            child: None,
            dir,
        };
        let output = server
            .program("initdb")
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(server.data())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut settings = fs::read_to_string(server.data().join("postgresql.conf")).unwrap();
        settings.push_str(&format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\ncluster_name = 'looked_at'\n\
             shared_buffers = 16MB\nfsync = off\n",
            server.dir.path().display()
        ));
        if with_module {
            settings.push_str("shared_preload_libraries = 'pg_calm'\n");
        }
        fs::write(server.data().join("postgresql.conf"), settings).unwrap();
        let log = fs::File::create(server.dir.path().join("log")).unwrap();
        let child = server
            .program("postgres")
            .arg("-D")
            .arg(server.data())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        server.child = Some(child.unwrap());
        wait_for("the server", || {
            server.psql("SELECT 1").output().unwrap().status.success()
        });
        if with_module {
            server.sql("CREATE EXTENSION pg_calm");
        }
        Some(server)
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// For --connect.
    pub fn conninfo(&self) -> String {
        format!("host={} user=postgres", self.dir.path().display())
    }

    pub fn sql(&self, sql: &str) {
        let output = self.psql(sql).output().unwrap();
        assert!(output.status.success(), "{sql}: {output:?}");
    }

    pub fn psql(&self, sql: &str) -> Command {
        let mut command = self.program("psql");
        command
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(self.dir.path())
            .args(["-c", sql]);
        command
    }

    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    /// Ends it as a crash of the postmaster's choice would: at once.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = rustix::process::kill_process(Pid::from_child(&child), Signal::QUIT);
            let _ = child.wait();
        }
    }

    fn program(&self, name: &str) -> Command {
        let user = User::from_name("postgres").unwrap().unwrap();
        let mut command = Command::new(self.directories.bin.join(name));
        command
            .uid(user.uid.as_raw())
            .gid(user.gid.as_raw())
            .current_dir(self.dir.path());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what} does not come");
        thread::sleep(Duration::from_millis(50));
    }
}
