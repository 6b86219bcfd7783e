//! What the tests of real lab runs have in common: a directory that leaves nothing, and the command on it.
// Each of the two test programs has its own copy, and one does not need all of it.
#![allow(dead_code)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::{HostRoot, block_device, mounts, process, vm_sysctl};
use pgcalm_testkit::need;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// How long to wait for another lab on this host.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(900);

pub(crate) fn host() -> HostRoot {
    HostRoot::default()
}

/// A directory for one test's lab, on a disk (direct I/O), with room in its path for a socket; and whether it shares tables.
pub(crate) struct Dir(pub PathBuf, Cell<bool>);

impl Dir {
    pub(crate) fn new(test: &str) -> Self {
        let path = PathBuf::from(format!("/var/tmp/pgcalm-test-{}-{test}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path, Cell::new(false))
    }

    /// With what tests before have loaded; those after it have what this one loads.
    pub(crate) fn with_tables(test: &str) -> Self {
        let dir = Self::new(test);
        dir.take_tables();
        dir
    }

    /// Takes what tests before have loaded.
    pub(crate) fn take_tables(&self) {
        let _ = fs::rename(TABLES.as_path(), self.tables());
        self.1.set(true);
    }

    fn tables(&self) -> PathBuf {
        self.0.join("pgcalm-templates")
    }
}

/// The loaded tables that no test uses now. Nobody drops a static: a shell removes them when this process ends, however it does.
static TABLES: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = PathBuf::from(format!("/var/tmp/pgcalm-test-{}-tables", std::process::id()));
    let mut shell = Command::new("sh");
    shell.args(["-c", "read -r end; rm -rf \"$0\""]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::null());
    // Its input ends with this process.
    std::mem::forget(shell.stderr(Stdio::null()).process_group(0).spawn().unwrap());
    path
});

impl Drop for Dir {
    fn drop(&mut self) {
        if self.1.get() && !thread::panicking() {
            let _ = fs::rename(self.tables(), TABLES.as_path());
        }
        // For the case that the test has failed half-way.
        let _ = lab(&["clean", "--templates"], &self.0).output();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `pgcalm lab ARGUMENTS --dir DIR`.
pub(crate) fn lab(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.arg("lab").args(arguments).arg("--dir").arg(dir);
    command
}

/// Arguments as on a command line; none of them holds a blank.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// Whether they can run here; if not, says why not.
pub(crate) fn can_run() -> bool {
    need::met("runs of the lab", &[need::ROOT, need::ANY_SERVER])
}

/// The host's writeback sysctls as they are while no lab is at work: another one, of another test run, changes them too.
pub(crate) fn sysctls() -> BTreeMap<String, String> {
    let lock = fs::File::create("/run/pgcalm-lab.lock").unwrap();
    let end = Instant::now() + BUSY_TIMEOUT;
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        assert_eq!(error, Errno::WOULDBLOCK, "/run/pgcalm-lab.lock");
        assert!(Instant::now() < end, "another lab does not end");
        thread::sleep(Duration::from_millis(50));
    }
    vm_sysctl::read_all(&host()).unwrap()
}

/// Runs it, again and again while another lab is at work on this host.
pub(crate) fn patiently(command: &mut Command) -> Output {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        let output = command.output().unwrap();
        let busy = String::from_utf8_lossy(&output.stderr).contains("another pgcalm lab");
        if !busy || Instant::now() > end {
            return output;
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Starts it, again and again while another lab is at work on this host, and waits until it is `ready`.
pub(crate) fn start_until(command: &mut Command, ready: impl Fn() -> bool) -> Child {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            if ready() {
                return child;
            }
            thread::sleep(Duration::from_millis(20));
        }
        // Another lab is at work: anything else is a failure.
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(Instant::now() < end, "another lab does not end");
        thread::sleep(Duration::from_secs(1));
    }
}

/// A started lab command, read line by line.
pub(crate) struct Running {
    pub child: Child,
    lines: std::sync::mpsc::Receiver<String>,
    pub seen: Vec<String>,
}

impl Running {
    /// Starts it, again and again while another lab is at work on this host.
    pub(crate) fn start(mut command: Command) -> Self {
        let end = Instant::now() + BUSY_TIMEOUT;
        loop {
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let stderr = child.stderr.take().unwrap();
            let (sender, lines) = std::sync::mpsc::channel();
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
            let mut running = Self { child, lines, seen: Vec::new() };
            let first = running.next_line();
            if !first.is_some_and(|line| line.contains("another pgcalm lab")) {
                return running;
            }
            running.child.wait().unwrap();
            assert!(Instant::now() < end, "another lab does not end");
            thread::sleep(Duration::from_secs(1));
        }
    }

    pub(crate) fn next_line(&mut self) -> Option<String> {
        let line = self.lines.recv_timeout(Duration::from_secs(120)).ok()?;
        self.seen.push(line.clone());
        Some(line)
    }

    pub(crate) fn wait_for(&mut self, text: &str) {
        if self.seen.iter().any(|line| line.contains(text)) {
            return;
        }
        while let Some(line) = self.next_line() {
            if line.contains(text) {
                return;
            }
        }
        panic!("no line with {text:?}: {:?}", self.seen);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; returns the status and what it said last.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        while self.next_line().is_some() {}
        let status = self.child.wait().unwrap();
        (status, self.seen.last().cloned().unwrap_or_default())
    }
}

/// The mounts, devices and processes on the host of what is at work in `dir`.
fn left_on_host(dir: &Path) -> Vec<String> {
    let root = host();
    let mut found = Vec::new();
    for mount in mounts::read(&root).unwrap() {
        if mount.target.starts_with(dir) {
            found.push(format!("mount {}", mount.target.display()));
        }
    }
    for device in block_device::loop_devices(&root).unwrap() {
        if device.backing_file.starts_with(dir) {
            found.push(format!("device {}", device.name));
        }
    }
    for process in process::table(&root).unwrap() {
        let cwd = process::working_directory(&root, process.pid);
        if cwd.is_some_and(|cwd| cwd.starts_with(dir)) {
            found.push(format!("process {}", process.pid));
        }
    }
    found
}

/// What of a lab in `dir` is on the host; templates stay.
pub(crate) fn leftovers(dir: &Path) -> Vec<String> {
    let mut found = left_on_host(dir);
    for name in ["pgcalm-lab.json", "pgcalm-data.img", "pgcalm-wal.img", "pgcalm-run"] {
        if dir.join(name).exists() {
            found.push(format!("file {name}"));
        }
    }
    found
}

/// The same with every file in `dir`, but for the lock of crash cycles and what the test itself has asked for: `report.*`.
pub(crate) fn all_leftovers(dir: &Path) -> Vec<String> {
    let mut found = left_on_host(dir);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "pgcalm-torture.lock" && !name.starts_with("report.") {
            found.push(format!("file {name}"));
        }
    }
    found
}
