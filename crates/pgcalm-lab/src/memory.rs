//! A control group with as much memory as a smaller host has.
//!
//! What its processes allocate, and what of files they bring into the page cache, counts against the limit; a table larger
//! than that is really read from its volume. Shared buffers count, too, since its processes touch them first. What stays
//! the host's are the kernel's limits for dirty pages, which cgroup v1 does not have by group: they come by sysctl
//! (`contest::Options::sysctl`).

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::cgroup::Version;
use pgcalm_host::meminfo;
use pgcalm_host::process;

use crate::LabError;
use crate::Size;
use crate::journal::Change;
use crate::journal::Journal;
use crate::journal::Undo;

/// What the rest of the host needs beside the group: the lab, the load, the volume's process.
const REST_OF_HOST: u64 = 1 << 30;

/// The group; it goes when this is dropped, which takes that its processes have ended.
#[derive(Debug)]
pub struct MemoryGroup {
    journal: Journal,
    directory: PathBuf,
    // Undone in this order; none of the group is ours where it is the one that has the caps.
    _group: Option<Undo>,
    _controller: Option<Undo>,
}

impl MemoryGroup {
    /// Makes a group that holds `size`. With cgroup v2 a process is in one group for all controllers: `existing` is the one
    /// that it is in already, if there is one.
    pub fn create(journal: &Journal, size: Size, existing: Option<&Path>) -> anyhow::Result<Self> {
        let root = journal.root();
        need(root, size)?;
        let hierarchy = Hierarchy::of_memory(root)?.ok_or_else(|| {
            LabError::Host(
                "--memory: no memory controller found: mount cgroup v1 memory, or boot with cgroup v2; or leave it out"
                    .to_string(),
            )
        })?;
        let controller = match hierarchy.version {
            Version::V1 => None,
            Version::V2 => enable(journal, &hierarchy)?,
        };
        let (directory, group) = match (hierarchy.version, existing) {
            (Version::V2, Some(existing)) => (existing.to_path_buf(), None),
            _ => {
                let (directory, undo) = make(journal, &hierarchy)?;
                (directory, Some(undo))
            }
        };
        let limit = match hierarchy.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        root.write(directory.join(limit), &size.bytes().to_string())?;
        Ok(Self {
            journal: journal.clone(),
            directory,
            _group: group,
            _controller: controller,
        })
    }

    /// Takes process `pid` and all below it into the group. What they had touched before stays where it was charged.
    pub fn admit(&self, pid: i32) -> anyhow::Result<()> {
        let root = self.journal.root();
        for member in process::family(&process::table(root)?, pid) {
            match root.write(self.members(), &member.pid.to_string()) {
                Ok(()) => {}
                // A short-lived child that has ended.
                Err(_) if member.pid != pid => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The file that takes the process ids of members.
    pub fn members(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

/// Fails unless the host has `size` to give.
pub fn need(root: &HostRoot, size: Size) -> anyhow::Result<()> {
    let available = meminfo::available_kib(root)? << 10;
    if size.bytes() + REST_OF_HOST <= available {
        return Ok(());
    }
    Err(LabError::Host(format!(
        "--memory {size}: this host has {} MiB available, of which the lab needs {} MiB itself: give less",
        available >> 20,
        REST_OF_HOST >> 20
    ))
    .into())
}

fn make(journal: &Journal, hierarchy: &Hierarchy) -> anyhow::Result<(PathBuf, Undo)> {
    let directory = hierarchy
        .mountpoint
        .join(format!("pgcalm-lab-memory-{}", std::process::id()));
    let undo = journal.note(Change::Cgroup {
        path: directory.clone(),
    })?;
    fs::create_dir(journal.root().path(&directory))
        .with_context(|| format!("create control group {}", directory.display()))?;
    Ok((directory, undo))
}

/// v2: groups below the root have the controller only where the root passes it on.
fn enable(journal: &Journal, hierarchy: &Hierarchy) -> anyhow::Result<Option<Undo>> {
    let root = journal.root();
    let control = hierarchy.mountpoint.join("cgroup.subtree_control");
    if root
        .read(&control)?
        .split_whitespace()
        .any(|name| name == "memory")
    {
        return Ok(None);
    }
    let undo = journal.note(Change::Setting {
        file: control.clone(),
        former: "-memory".to_string(),
    })?;
    root.write(&control, "+memory")?;
    Ok(Some(undo))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(mountinfo: &str) -> (tempfile::TempDir, Journal) {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        for (path, text) in [
            ("proc/self/mountinfo", mountinfo),
            (
                "proc/meminfo",
                "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n",
            ),
            ("sys/fs/cgroup/cgroup.controllers", "io memory"),
            ("sys/fs/cgroup/cgroup.subtree_control", "io"),
        ] {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let journal = Journal::open(root, &dir.path().join("journal.json")).unwrap();
        (dir, journal)
    }

    /// In a control group files don't keep the directory from being removed.
    fn empty(group: &MemoryGroup) {
        let directory = group.journal.root().path(&group.directory);
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
    }

    #[test]
    fn on_v1_the_limit_is_set_in_a_group_that_goes_again() {
        let (_dir, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n");
        let group = MemoryGroup::create(&journal, Size(4 << 30), None).unwrap();
        let root = journal.root().clone();
        let limit = root.read(group.directory.join("memory.limit_in_bytes"));
        assert_eq!(limit.unwrap(), "4294967296");
        empty(&group);
        let directory = root.path(&group.directory);
        drop(group);
        assert!(!directory.exists());
    }

    #[test]
    fn on_v2_the_controller_is_passed_on_and_taken_back() {
        let (_dir, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let root = journal.root().clone();
        let control = Path::new("/sys/fs/cgroup/cgroup.subtree_control");
        let group = MemoryGroup::create(&journal, Size(4 << 30), None).unwrap();
        assert_eq!(root.read(control).unwrap(), "+memory");
        let limit = root.read(group.directory.join("memory.max"));
        assert_eq!(limit.unwrap(), "4294967296");
        empty(&group);
        drop(group);
        assert_eq!(root.read(control).unwrap(), "-memory");
    }

    #[test]
    fn on_v2_the_group_that_has_the_caps_gets_the_memory_and_stays() {
        let (_dir, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let root = journal.root().clone();
        let caps = Path::new("/sys/fs/cgroup/pgcalm-lab-1");
        fs::create_dir(root.path(caps)).unwrap();
        let group = MemoryGroup::create(&journal, Size(4 << 30), Some(caps)).unwrap();
        assert_eq!(root.read(caps.join("memory.max")).unwrap(), "4294967296");
        drop(group);
        assert!(root.path(caps).exists());
    }

    #[test]
    fn memory_that_the_host_does_not_have_is_refused() {
        let (_dir, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n");
        let error = MemoryGroup::create(&journal, Size(6 << 30), None).unwrap_err();
        assert!(
            error.to_string().contains("6144 MiB available"),
            "{error:#}"
        );
        let (_dir, journal) = host("");
        fs::remove_file(journal.root().path("/sys/fs/cgroup/cgroup.controllers")).unwrap();
        let error = MemoryGroup::create(&journal, Size(1 << 30), None).unwrap_err();
        assert!(
            error.to_string().contains("no memory controller"),
            "{error:#}"
        );
    }
}
