//! What a drain costs: counters before and after.

use std::collections::HashMap;
use std::path::Path;

use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::{HostRoot, journal_commits, process};

use crate::archive::report::Drain;

/// Devices whose counters are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices<'a> {
    /// That of pg_wal, e.g. `loop1`.
    pub wal: &'a str,
    /// That of the archive.
    pub archive: &'a str,
}

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters {
    wal: DeviceStat,
    archive: DeviceStat,
    /// Of both journals; `None` if there is none that tells.
    commits: Option<u64>,
    cpu_ticks: u64,
}

impl Counters {
    /// Reads them; `detached` are programs that no process of the server is the parent of.
    pub(super) fn read(
        root: &HostRoot,
        devices: Devices<'_>,
        postmaster: i32,
        detached: &Detached,
    ) -> anyhow::Result<Self> {
        let wal_commits = journal_commits::read(root, devices.wal)?;
        let archive_commits = journal_commits::read(root, devices.archive)?;
        Ok(Self {
            wal: DeviceStat::read(root, devices.wal)?,
            archive: DeviceStat::read(root, devices.archive)?,
            commits: wal_commits.zip(archive_commits).map(|(a, b)| a + b),
            cpu_ticks: cpu_ticks(root, postmaster)? + detached.ticks(),
        })
    }

    /// The cost of draining `files` since `before`.
    pub(super) fn since(&self, before: &Self, files: u64, mib: f64, duration_s: f64) -> Drain {
        let per_file = |count: u64| count as f64 / files as f64;
        Drain {
            files,
            mib,
            duration_s,
            wal_writes_per_file: self.wal_writes_per_file(before, files),
            archive_writes_per_file: per_file(self.archive.write_ops - before.archive.write_ops),
            journal_commits_per_file: self.commits.zip(before.commits).map(|(now, then)| per_file(now - then)),
            cpu_s: self.cpu_ticks.saturating_sub(before.cpu_ticks) as f64
                / rustix::param::clock_ticks_per_second() as f64,
        }
    }

    /// Writes to the device of pg_wal since `before`.
    pub(super) fn wal_writes_per_file(&self, before: &Self, files: u64) -> f64 {
        (self.wal.write_ops - before.wal.write_ops) as f64 / files as f64
    }
}

/// CPU time of the server with all that it has waited for, and of the programs that this process has: a child's time
/// moves on to its parent when it ends, so that none is lost.
fn cpu_ticks(root: &HostRoot, postmaster: i32) -> anyhow::Result<u64> {
    let table = process::table(root)?;
    let server: u64 =
        process::family(&table, postmaster).iter().map(|process| process.cpu_ticks + process.children_cpu_ticks).sum();
    let own = std::process::id() as i32;
    let ours = table.iter().find(|process| process.pid == own).map_or(0, |process| process.children_cpu_ticks);
    Ok(server + ours)
}

/// Programs that were started for the archiver and then left it, as pgBackRest's asynchronous part does. What they have
/// used is known as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct Detached {
    seen: HashMap<(i32, u64), u64>,
}

impl Detached {
    /// Looks at all that have `mark` in their command line, and init for a parent.
    pub(super) fn look(&mut self, root: &HostRoot, mark: &Path) -> anyhow::Result<()> {
        for process in find(root, mark)? {
            let ticks = process.cpu_ticks + process.children_cpu_ticks;
            self.seen.insert((process.pid, process.start_ticks), ticks);
        }
        Ok(())
    }

    fn ticks(&self) -> u64 {
        self.seen.values().sum()
    }
}

/// Processes with `mark` in their command line that have left their parent.
pub(super) fn find(root: &HostRoot, mark: &Path) -> anyhow::Result<Vec<process::Process>> {
    let mark = mark.display().to_string();
    let mut found = process::table(root)?;
    found.retain(|process| {
        process.parent == 1 && process::command_line(root, process.pid).is_ok_and(|line| line.contains(&mark))
    });
    Ok(found)
}
