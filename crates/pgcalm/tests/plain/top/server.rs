//! Servers to look at, of which some can load pg_calm as it was built here, without being installed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use pgcalm_testkit::programs::Programs;
use pgcalm_testkit::server::Server;
use pgcalm_testkit::{module_directory, need, programs};

/// The server's directories, if the tests can run here; if not, says why not.
pub(super) fn installation() -> Option<Directories> {
    need::met("top on a real server", &[need::ROOT, need::SERVER]).then(Directories::find).flatten()
}

/// Where the files of a server installation are.
#[derive(Debug, Clone)]
pub(super) struct Directories {
    bin: PathBuf,
    pkglib: PathBuf,
    share: PathBuf,
}

impl Directories {
    fn find() -> Option<Self> {
        let pg_config = std::env::var_os("PG_CONFIG").unwrap_or_else(|| "/usr/lib/postgresql/15/bin/pg_config".into());
        let directory = |option: &str| {
            let output = Command::new(&pg_config).arg(option).output().ok()?;
            Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
        };
        Some(Self { bin: directory("--bindir")?, pkglib: directory("--pkglibdir")?, share: directory("--sharedir")? })
    }

    /// A copy below `place` that has pg_calm: a server finds its files relative to its own program, links resolved.
    /// `None` if the module was not built.
    pub(super) fn with_module(&self, place: &Path) -> Option<Self> {
        if !need::met("top with pg_calm", &[need::MODULE]) {
            return None;
        }
        let inside = |path: &Path| place.join(path.strip_prefix("/").unwrap());
        let copy = Self { bin: inside(&self.bin), pkglib: inside(&self.pkglib), share: inside(&self.share) };
        fs::create_dir_all(&copy.bin).unwrap();
        for entry in fs::read_dir(&self.bin).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.bin.join(entry.file_name())).unwrap();
        }
        link_all(&self.pkglib, &copy.pkglib);
        link_all(&self.share, &copy.share);
        fs::remove_file(copy.share.join("extension")).unwrap();
        link_all(&self.share.join("extension"), &copy.share.join("extension"));
        for entry in fs::read_dir(module_directory()).unwrap() {
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
pub(super) fn start(directories: &Directories, with_module: bool) -> Option<Server> {
    let dir = programs::directory("pgcalm-top-test-");
    let directories = match with_module {
        true => directories.with_module(&dir.path().join("installation"))?,
        false => directories.clone(),
    };
    let mut settings = "cluster_name = 'looked_at'\nshared_buffers = 16MB\nfsync = off\n".to_string();
    if with_module {
        settings.push_str("shared_preload_libraries = 'pg_calm'\n");
    }
    let server = Server::create(&Programs::owning(&directories.bin, dir), &settings);
    if with_module {
        server.sql("CREATE EXTENSION pg_calm");
    }
    Some(server)
}
