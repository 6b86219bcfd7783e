//! PostgreSQL's programs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nix::unistd::User;
use pgcalm_host::{HostRoot, postgres};
use rustix::process::{Pid, Signal};

/// Directory of the programs that tests run: PostgreSQL 15's, or those of `PG_CONFIG`.
pub fn bindir() -> Option<PathBuf> {
    let pg_config = std::env::var_os("PG_CONFIG").unwrap_or_else(|| "/usr/lib/postgresql/15/bin/pg_config".into());
    let output = Command::new(pg_config).arg("--bindir").output().ok()?;
    let bindir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    postgres::missing(&HostRoot::default(), &bindir).is_empty().then_some(bindir)
}

/// User and group that servers run as, if this is root, as whom they refuse to.
pub fn server_user() -> Option<(u32, u32)> {
    rustix::process::geteuid().is_root().then(|| {
        let user = User::from_name("postgres").unwrap().unwrap();
        (user.uid.as_raw(), user.gid.as_raw())
    })
}

/// Gives a file or directory to that user.
pub fn give_to_server(path: &Path) {
    if let Some((uid, gid)) = server_user() {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// A directory that is removed with what is in it, on a disk: memory file systems have no dirty pages. It is that user's, and
/// all can read it.
pub fn directory(prefix: &str) -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    give_to_server(directory.path());
    directory
}

/// Makes a data directory by `command`, which is initdb as it is to be run. Whoever reaches it is trusted; `more` comes later, and
/// so may say otherwise.
pub fn initdb(mut command: Command, data: &Path, more: &[&str]) {
    let output = command
        .args(["--no-sync", "--auth=trust", "--username=postgres"])
        .args(more)
        .arg("-D")
        .arg(data)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The only line that it says on standard error when it is refused with this exit code.
#[track_caller]
pub fn refused(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{command:?}: {said}");
    said
}

/// A program that ends with the test.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts it; nobody hears it.
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Gives it something to read.
    pub fn say(&mut self, text: &str) {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Programs of one installation, run as the server's user in one directory.
#[derive(Debug, Clone)]
pub struct Programs {
    bindir: PathBuf,
    directory: PathBuf,
    _own: Option<Arc<tempfile::TempDir>>,
}

impl Programs {
    /// Those in `bindir`, run in `directory`, which has to be there.
    pub fn new(bindir: &Path, directory: &Path) -> Self {
        Self { bindir: bindir.to_path_buf(), directory: directory.to_path_buf(), _own: None }
    }

    /// Those in `bindir`, run in a [`directory`] of their own, which goes with them and the servers started of them.
    pub fn in_directory(bindir: &Path, prefix: &str) -> Self {
        Self::owning(bindir, directory(prefix))
    }

    /// The same with one that is there.
    pub fn owning(bindir: &Path, directory: tempfile::TempDir) -> Self {
        Self {
            directory: directory.path().to_path_buf(),
            _own: Some(Arc::new(directory)),
            ..Self::new(bindir, Path::new(""))
        }
    }

    /// In which they run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// One of them, or another program by its whole path.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bindir.join(program));
        if let Some((uid, gid)) = server_user() {
            command.uid(uid).gid(gid);
        }
        command.current_dir(&self.directory);
        command
    }

    /// Runs one that has to succeed; what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a data directory: [`initdb`].
    pub fn initdb(&self, data: &Path, more: &[&str]) {
        initdb(self.command("initdb"), data, more);
    }
}
