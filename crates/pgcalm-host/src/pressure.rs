//! How long tasks stood still for want of a processor, of memory or of I/O (PSI), of the host or of a control group, and how a
//! group's limits hold it back.

use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup::{Hierarchy, Version};
use crate::{HostRoot, Result};

/// Time since boot in which tasks waited, added up (Documentation/accounting/psi.rst of the kernel).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stalled {
    /// At least one task waited.
    pub some: Duration,
    /// All tasks that were not idle waited at once.
    pub full: Duration,
}

/// Of each kind; `None` where the kernel does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// For a processor.
    pub cpu: Option<Stalled>,
    /// For reads and writes.
    pub io: Option<Stalled>,
    /// For memory: reclaim, refaults, swapping.
    pub memory: Option<Stalled>,
}

/// How the limits of a group have held it back, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Time for which its quota of CPU was used up.
    pub throttled: Option<Duration>,
    /// How often its memory stood at the limit, so that an allocation had to wait for reclaim.
    pub memory_limit_hits: Option<u64>,
}

/// Of the host.
pub fn of_host(root: &HostRoot) -> Pressure {
    let read = |kind: &str| root.read(format!("proc/pressure/{kind}")).ok().and_then(|text| parse(&text));
    Pressure { cpu: read("cpu"), io: read("io"), memory: read("memory") }
}

/// The files of the control group that a process is in, where they can be seen from here; found once, since that takes a look
/// at all mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    cpu: Option<(Version, PathBuf)>,
    memory: Option<(Version, PathBuf)>,
}

impl Group {
    /// Of process `pid`.
    ///
    /// # Errors
    ///
    /// Those of reading mounts and the groups of the process.
    pub fn of_process(root: &HostRoot, pid: i32) -> Result<Self> {
        let directory = |hierarchy: Option<Hierarchy>, v1: &str| -> Result<Option<(Version, PathBuf)>> {
            let Some(hierarchy) = hierarchy else { return Ok(None) };
            // In the place of another container's group there is that of this one.
            let group = hierarchy.group_by(root, &pid.to_string(), v1)?.filter(|group| hierarchy.shows(group));
            Ok(group.map(|group| (hierarchy.version, hierarchy.directory(&group))))
        };
        Ok(Self {
            cpu: directory(Hierarchy::of_cpu(root)?, "cpu")?,
            memory: directory(Hierarchy::of_memory(root)?, "memory")?,
        })
    }

    /// How long its tasks waited; version 1 of control groups does not tell.
    pub fn pressure(&self, root: &HostRoot) -> Pressure {
        let read = |kind: &str| {
            let (_, directory) = self.cpu.as_ref().filter(|(version, _)| *version == Version::V2)?;
            parse(&root.read(directory.join(format!("{kind}.pressure"))).ok()?)
        };
        Pressure { cpu: read("cpu"), io: read("io"), memory: read("memory") }
    }

    /// What its limits did.
    pub fn held_back(&self, root: &HostRoot) -> HeldBack {
        let text = |directory: &PathBuf, name: &str| root.read(directory.join(name)).unwrap_or_default();
        let throttled = self.cpu.as_ref().and_then(|(version, directory)| {
            let text = text(directory, "cpu.stat");
            match version {
                Version::V1 => figure(&text, "throttled_time").map(Duration::from_nanos),
                Version::V2 => figure(&text, "throttled_usec").map(Duration::from_micros),
            }
        });
        let memory_limit_hits = self.memory.as_ref().and_then(|(version, directory)| match version {
            Version::V1 => text(directory, "memory.failcnt").trim().parse::<u64>().ok(),
            Version::V2 => {
                let text = text(directory, "memory.events");
                figure(&text, "max").map(|max| max + figure(&text, "high").unwrap_or(0))
            }
        });
        HeldBack { throttled, memory_limit_hits }
    }
}

/// The figure that stands behind a name.
fn figure(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn parse(text: &str) -> Option<Stalled> {
    let total = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
        Some(Duration::from_micros(total.parse().ok()?))
    };
    // Before Linux 5.13 there is no `full` of the CPU.
    Some(Stalled { some: total("some ")?, full: total("full ").unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn totals_are_read_and_what_an_old_kernel_leaves_out_is_zero() {
        let root = FakeHost::default();
        assert_eq!(of_host(&root), Pressure::default());
        root.put("proc/pressure/cpu", "some avg10=1.00 avg60=0.00 avg300=0.00 total=12\n");
        let io = "some avg10=0.00 avg60=0.00 avg300=0.00 total=50\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        root.put("proc/pressure/io", io);
        let pressure = of_host(&root);
        assert_eq!(pressure.cpu, Some(Stalled { some: Duration::from_micros(12), full: Duration::ZERO }));
        assert_eq!(pressure.io.unwrap().full, Duration::from_micros(7));
        assert_eq!(pressure.memory, None);
    }

    #[test]
    fn limits_of_both_versions_are_read() {
        let root = FakeHost::default();
        let mounts = "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu\n2 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n";
        root.put("proc/self/mountinfo", mounts);
        root.put("proc/7/cgroup", "2:cpu:/a\n3:memory:/a\n");
        let group = Group::of_process(&root, 7).unwrap();
        assert_eq!(group.held_back(&root), HeldBack::default());
        root.put("cg/cpu/a/cpu.stat", "nr_periods 5\nnr_throttled 2\nthrottled_time 3000000\n");
        root.put("cg/memory/a/memory.failcnt", "41\n");
        let held = group.held_back(&root);
        assert_eq!(held.throttled, Some(Duration::from_millis(3)));
        assert_eq!(held.memory_limit_hits, Some(41));
        assert_eq!(group.pressure(&root), Pressure::default());

        root.put("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 cgroup2 rw\n");
        root.put("cg/cgroup.controllers", "cpu memory\n");
        root.put("proc/7/cgroup", "0::/b\n");
        root.put("cg/b/cpu.stat", "usage_usec 5\nthrottled_usec 2000\n");
        root.put("cg/b/memory.events", "low 0\nhigh 2\nmax 3\noom 0\n");
        root.put("cg/b/io.pressure", "some avg10=0.00 total=5\nfull avg10=0.00 total=4\n");
        let group = Group::of_process(&root, 7).unwrap();
        let held = group.held_back(&root);
        assert_eq!((held.throttled, held.memory_limit_hits), (Some(Duration::from_millis(2)), Some(5)));
        assert_eq!(group.pressure(&root).io.unwrap().full, Duration::from_micros(4));

        // Version 1 in another container, whose group can't be seen; what is at the mountpoint is this one's.
        root.put("proc/self/mountinfo", "1 0 0:2 /docker/own /cg/memory rw - cgroup cgroup rw,memory\n");
        root.put("proc/7/cgroup", "3:memory:/docker/db\n");
        root.put("cg/memory/memory.failcnt", "41\n");
        let group = Group::of_process(&root, 7).unwrap();
        assert_eq!(group.held_back(&root), HeldBack::default());
    }
}
