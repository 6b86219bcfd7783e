//! What the tests of real lab runs have in common: a directory that leaves nothing, and the command on it.
// Each test program has its own copy, and none needs all of it.
#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::time::Duration;

use pgcalm_host::HostRoot;
use rustix::process::Pid;
use rustix::process::Signal;

/// How long to wait for another lab on this host.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(900);

pub fn host() -> HostRoot {
    HostRoot::default()
}

/// A directory for one test's lab, on a disk (direct I/O), with room in its path for a socket.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(test: &str) -> Self {
        let path = PathBuf::from(format!(
            "/var/tmp/pgcalm-test-{}-{test}",
            std::process::id()
        ));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // For the case that the test has failed half-way.
        let _ = lab(&["clean", "--templates"], &self.0).output();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `pgcalm lab ARGUMENTS --dir DIR`.
pub fn lab(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.arg("lab").args(arguments).arg("--dir").arg(dir);
    command
}

pub fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}
