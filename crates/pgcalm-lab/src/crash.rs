//! The end of a server without any last words.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::bail;
use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, process};
use rustix::process::{Pid, Signal};

use crate::interrupt::Interrupt;
use crate::tool;

/// How long processes may stay in the kernel after SIGKILL: I/O under way has to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the postmaster may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends `postmaster` and everything below it by SIGKILL. It is stopped first, so that it can neither start another
/// process nor notice that one has died.
pub(crate) fn kill_family(root: &HostRoot, postmaster: i32) -> anyhow::Result<SharedMemory> {
    signal(postmaster, Signal::STOP);
    let end = Instant::now() + STOP_TIMEOUT;
    while Process::read(root, postmaster).is_ok_and(|process| !has_stopped(&process)) {
        if Instant::now() > end {
            bail!("the postmaster does not stop");
        }
        thread::yield_now();
    }
    let family = process::family(&process::table(root)?, postmaster);
    let memory = SharedMemory::of(root, &family);
    for process in &family {
        signal(process.pid, Signal::KILL);
    }
    let end = Instant::now() + PATIENCE;
    while family.iter().any(|process| is_alive(root, process)) {
        if Instant::now() > end {
            bail!("processes of the server do not end {} s after SIGKILL", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(memory)
}

fn has_stopped(process: &Process) -> bool {
    process.state == 'T' || process.is_zombie()
}

/// Whether it is still the same process, and not only an entry in the table.
fn is_alive(root: &HostRoot, process: &Process) -> bool {
    Process::read(root, process.pid).is_ok_and(|now| now.start_ticks == process.start_ticks && !now.is_zombie())
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Shared memory of a killed server. The next server on the same data directory frees it; dropping this does so too, for
/// the case that there is none, or that a crash of the whole machine is played.
#[derive(Debug, Default, PartialEq)]
pub struct SharedMemory {
    /// Ids of System V segments.
    segments: Vec<u64>,
    /// POSIX segments.
    files: Vec<PathBuf>,
}

impl SharedMemory {
    /// That of a running server.
    pub fn of_server(root: &HostRoot, postmaster: i32) -> anyhow::Result<Self> {
        let family = process::family(&process::table(root)?, postmaster);
        Ok(Self::of(root, &family))
    }

    fn of(root: &HostRoot, processes: &[Process]) -> Self {
        let mut memory = Self::default();
        for process in processes {
            // It may have ended meanwhile.
            if let Ok(maps) = root.read(format!("proc/{}/maps", process.pid)) {
                memory.add(&maps);
            }
        }
        memory
    }

    /// Adds what a /proc/PID/maps shows.
    fn add(&mut self, maps: &str) {
        for line in maps.lines() {
            // 7f0e6a2d6000-7f0e6a2d7000 rw-s 00000000 00:01 32769    /SYSV00501b7e (deleted)
            let mut fields = line.split_whitespace().skip(4);
            let (Some(inode), Some(path)) = (fields.next(), fields.next()) else { continue };
            if path.starts_with("/SYSV") {
                self.segments.extend(inode.parse::<u64>());
            } else if path.starts_with("/dev/shm/PostgreSQL.") {
                self.files.push(path.into());
            }
        }
        self.segments.sort_unstable();
        self.segments.dedup();
        self.files.sort_unstable();
        self.files.dedup();
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        for segment in &self.segments {
            // Mostly it is gone already.
            let _ = tool::run(tool::command("ipcrm").args(["--shmem-id", &segment.to_string()]), &Interrupt::default());
        }
        for file in &self.files {
            // So are files.
            let _ = fs::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn shared_memory_is_found_in_maps() {
        let mut memory = SharedMemory::default();
        for _ in 0..2 {
            memory.add(
                "55d0-55d1 r--p 00000000 fe:00 131 /usr/lib/postgresql/15/bin/postgres\n\
                 7f0e-7f0f rw-s 00000000 00:01 32769    /SYSV00501b7e (deleted)\n\
                 7f1e-7f1f rw-s 00000000 00:1a 4 /dev/shm/PostgreSQL.999999999999\n\
                 7f2e-7f2f rw-p 00000000 00:00 0\n",
            );
        }
        assert_eq!(memory.segments, [32769]);
        assert_eq!(memory.files, [PathBuf::from("/dev/shm/PostgreSQL.999999999999")]);
        // Another's, perhaps.
        memory.segments.clear();
        memory.files.clear();
    }

    #[test]
    fn a_family_is_killed_whole() {
        let root = HostRoot::default();
        let mut shell =
            tool::command("/bin/sh").args(["-c", "sleep 60 & sleep 60 & wait"]).stdout(Stdio::null()).spawn().unwrap();
        let pid = shell.id() as i32;
        let family = || process::family(&process::table(&root).unwrap(), pid);
        while family().len() < 3 {
            thread::sleep(Duration::from_millis(5));
        }
        let family = family();
        kill_family(&root, pid).unwrap();
        shell.wait().unwrap();
        assert!(!family.iter().any(|process| is_alive(&root, process)));
    }
}
