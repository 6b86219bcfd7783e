//! A control group of the lab's, in the hierarchy of one controller, with a limit.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::{fs, thread};

use anyhow::Context;
use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::process;

use crate::journal::{Change, Journal, Undo};
use pgcalm_host::Failure;

/// What of its processes a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    /// Memory that they allocate and page cache that they fill.
    Memory,
    /// Time of processors that they use.
    Cpu,
}

pgcalm_host::names! { fn name(Controller): Memory "memory", Cpu "cpu" }

impl Controller {
    fn hierarchy(self, journal: &Journal, option: &str) -> anyhow::Result<Hierarchy> {
        let root = journal.root();
        let found = match self {
            Self::Memory => Hierarchy::of_memory(root)?,
            Self::Cpu => Hierarchy::of_cpu(root)?,
        };
        found.ok_or_else(|| {
            let name = self.name();
            Failure::Host(format!(
                "--{option}: no {name} controller found: mount cgroup v1 {name}, or boot with cgroup v2; or leave it out"
            ))
            .into()
        })
    }
}

/// The group; it goes when this is dropped, which takes that its processes have ended.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    journal: Journal,
    version: Version,
    directory: PathBuf,
    // Undone in this order; none of the group is ours where it is somebody else's in which its processes are already.
    _group: Option<Undo>,
    _controller: Option<Undo>,
}

impl ControlGroup {
    /// Makes a group for what `option` asks for; `part` tells it from others of this lab. With cgroup v2 a process is in one group
    /// for all controllers: `existing` is the one that it is in already, if there is one.
    pub(crate) fn create(
        journal: &Journal,
        controller: Controller,
        option: &str,
        part: &str,
        existing: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let hierarchy = controller.hierarchy(journal, option)?;
        let undo = match hierarchy.version {
            Version::V1 => None,
            Version::V2 => pass_on(journal, &hierarchy, controller)?,
        };
        let (directory, group) = match (hierarchy.version, existing) {
            (Version::V2, Some(existing)) => (existing.to_path_buf(), None),
            _ => {
                let name = format!("pgcalm-lab-{}-{}{part}", controller.name(), std::process::id());
                let (directory, undo) = make(journal, hierarchy.mountpoint.join(name))?;
                (directory, Some(undo))
            }
        };
        Ok(Self { journal: journal.clone(), version: hierarchy.version, directory, _group: group, _controller: undo })
    }

    /// Of which version it is.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Writes `value` to its file `name`.
    pub(crate) fn set(&self, name: &str, value: &str) -> anyhow::Result<()> {
        Ok(self.journal.root().write(self.directory.join(name), value)?)
    }

    /// Reads its file `name`.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<String> {
        Ok(self.journal.root().read(self.directory.join(name))?)
    }

    /// Takes process `pid` and all below it back to the group that the group is in, so that it can go before they end.
    pub(crate) fn release(&self, pid: i32) -> anyhow::Result<()> {
        let Some(parent) = self.directory.parent().filter(|_| self._group.is_some()) else { return Ok(()) };
        self.move_family(pid, &parent.join("cgroup.procs"))
    }

    /// Writes `value` to its file `name` in a thread of its own: the kernel may take its time.
    pub(crate) fn set_in_background(&self, name: &str, value: &str) -> JoinHandle<anyhow::Result<()>> {
        let root = self.journal.root().clone();
        let file = self.directory.join(name);
        let value = value.to_string();
        thread::spawn(move || Ok(root.write(file, &value)?))
    }

    /// With v2, where what limits something else of the same processes has to go, too.
    pub(crate) fn of_v2(&self) -> Option<&Path> {
        (self.version == Version::V2).then_some(self.directory.as_path())
    }

    /// Takes process `pid` and all below it into the group. What they had touched before stays where it was charged.
    pub(crate) fn admit(&self, pid: i32) -> anyhow::Result<()> {
        self.move_family(pid, &self.members())
    }

    fn move_family(&self, pid: i32, procs: &Path) -> anyhow::Result<()> {
        let root = self.journal.root();
        for member in process::family(&process::table(root)?, pid) {
            match root.write(procs, &member.pid.to_string()) {
                Ok(()) => {}
                // A short-lived child that has ended.
                Err(_) if member.pid != pid => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The file that takes the process ids of members.
    pub(crate) fn members(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

fn make(journal: &Journal, directory: PathBuf) -> anyhow::Result<(PathBuf, Undo)> {
    let undo = journal.note(Change::Cgroup { path: directory.clone() })?;
    fs::create_dir(journal.root().path(&directory))
        .with_context(|| format!("create control group {}", directory.display()))?;
    Ok((directory, undo))
}

/// v2: groups below the root have the controller only where the root passes it on.
fn pass_on(journal: &Journal, hierarchy: &Hierarchy, controller: Controller) -> anyhow::Result<Option<Undo>> {
    let root = journal.root();
    let control = hierarchy.mountpoint.join("cgroup.subtree_control");
    if root.read(&control)?.split_whitespace().any(|name| name == controller.name()) {
        return Ok(None);
    }
    let undo = journal.note(Change::Setting { file: control.clone(), former: format!("-{}", controller.name()) })?;
    root.write(&control, &format!("+{}", controller.name()))?;
    Ok(Some(undo))
}

#[cfg(test)]
mod tests {
    use pgcalm_host::fake::FakeHost;

    use super::*;

    fn host(mountinfo: &str) -> (FakeHost, Journal) {
        let root = FakeHost::with(&[
            ("proc/self/mountinfo", mountinfo),
            ("sys/fs/cgroup/cgroup.controllers", "io memory cpu"),
            ("sys/fs/cgroup/cgroup.subtree_control", "io"),
        ]);
        let journal = Journal::open(root.clone(), &root.path("journal.json")).unwrap();
        (root, journal)
    }

    /// In a control group files don't keep the directory from being removed.
    fn empty(group: &ControlGroup) {
        let directory = group.journal.root().path(&group.directory);
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
    }

    #[test]
    fn on_v1_the_limit_is_set_in_a_group_that_goes_again() {
        let (root, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu,cpuacct\n");
        let group = ControlGroup::create(&journal, Controller::Cpu, "cpus", "-7", None).unwrap();
        group.set("cpu.cfs_quota_us", "50000").unwrap();
        let limit = root.read(group.directory.join("cpu.cfs_quota_us"));
        assert_eq!(limit.unwrap(), "50000");
        assert_eq!(group.of_v2(), None);
        empty(&group);
        let directory = root.path(&group.directory);
        drop(group);
        assert!(!directory.exists());
    }

    #[test]
    fn on_v2_the_controller_is_passed_on_and_taken_back() {
        let (root, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let control = Path::new("/sys/fs/cgroup/cgroup.subtree_control");
        let group = ControlGroup::create(&journal, Controller::Memory, "memory", "", None).unwrap();
        assert_eq!(root.read(control).unwrap(), "+memory");
        assert_eq!(group.of_v2(), Some(group.directory.as_path()));
        empty(&group);
        drop(group);
        assert_eq!(root.read(control).unwrap(), "-memory");
    }

    #[test]
    fn on_v2_the_group_that_a_process_is_in_gets_the_limit_and_stays() {
        let (root, journal) = host("38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let caps = Path::new("/sys/fs/cgroup/pgcalm-lab-1");
        fs::create_dir(root.path(caps)).unwrap();
        let group = ControlGroup::create(&journal, Controller::Memory, "memory", "", Some(caps)).unwrap();
        group.set("memory.max", "4294967296").unwrap();
        assert_eq!(root.read(caps.join("memory.max")).unwrap(), "4294967296");
        drop(group);
        assert!(root.path(caps).exists());
    }

    #[test]
    fn a_controller_that_the_host_does_not_have_is_named() {
        let (root, journal) = host("");
        fs::remove_file(root.path("/sys/fs/cgroup/cgroup.controllers")).unwrap();
        let error = ControlGroup::create(&journal, Controller::Cpu, "instance-cpus", "", None).unwrap_err();
        assert!(error.to_string().starts_with("--instance-cpus: no cpu controller"), "{error:#}");
    }
}
