//! Caps on devices: by the block I/O controller of the host, or the limits of volumes that have their own.
//!
//! With cgroup v1 the caps go into the root group: there they hold for everything that is in no child group, the
//! kernel's flusher included, as the cap of a cloud volume would. v2 has no limits in its root group; there the server
//! goes into a group of its own, which together with the memory controller also owns the writeback of its pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::process;
use pgcalm_host::throttle::Kind;
use pgcalm_volume::Volume;

use crate::device::Device;
use crate::journal::{Change, Journal, Undo};
use crate::volume_process::LimitsInForce;
use crate::{Limit, Size, tool};
use pgcalm_host::Failure;

/// The caps of one device.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caps {
    /// Write operations per second.
    pub write_iops: Option<u32>,
    /// Bytes written per second.
    pub write_bps: Option<u64>,
    /// Read operations per second.
    pub read_iops: Option<u32>,
}

impl Caps {
    /// Caps on writes as given on the command line.
    pub fn on_writes(iops: Limit<u32>, bps: Limit<Size>) -> Self {
        Self { write_iops: iops.0, write_bps: bps.0.map(Size::bytes), read_iops: None }
    }

    /// So many percent of each.
    pub fn scaled(self, percent: u32) -> Self {
        let scale = |value: u64| (value * u64::from(percent) / 100).max(1);
        let count = |value: Option<u32>| value.map(|value| scale(value.into()) as u32);
        Self {
            write_iops: count(self.write_iops),
            write_bps: self.write_bps.map(scale),
            read_iops: count(self.read_iops),
        }
    }

    /// Whether there is any.
    pub fn is_some(self) -> bool {
        self.pairs().next().is_some()
    }

    fn pairs(self) -> impl Iterator<Item = (Kind, u64)> {
        [
            (Kind::WriteIops, self.write_iops.map(u64::from)),
            (Kind::WriteBps, self.write_bps),
            (Kind::ReadIops, self.read_iops.map(u64::from)),
        ]
        .into_iter()
        .filter_map(|(kind, value)| Some((kind, value?)))
    }
}

/// A cap in force; dropping it lifts it.
#[derive(Debug)]
#[must_use = "dropping this lifts the cap at once"]
pub enum InForce {
    /// Of a control group.
    Group(Undo),
    /// The limits of a volume that has its own.
    Volume(LimitsInForce),
}

/// The way to cap devices.
#[derive(Debug)]
pub struct Capper {
    journal: Journal,
    /// Absent where the devices are volumes that have limits of their own.
    groups: Option<Groups>,
}

/// Caps by control groups.
#[derive(Debug)]
struct Groups {
    hierarchy: Hierarchy,
    /// The group that holds the limits: the root group of v1, a group of ours in v2.
    group: PathBuf,
    _undo: Vec<Undo>,
}

impl Capper {
    /// For devices that are volumes with limits of their own: nothing of the host is needed.
    pub fn of_volumes(journal: &Journal) -> Self {
        Self { journal: journal.clone(), groups: None }
    }

    /// For devices that are volumes if one is asked for, else by control groups.
    pub fn of(journal: &Journal, volume: Option<&Volume>) -> anyhow::Result<Self> {
        match volume {
            Some(_) => Ok(Self::of_volumes(journal)),
            None => Self::new(journal),
        }
    }

    /// Finds the way by control groups and prepares it.
    pub fn new(journal: &Journal) -> anyhow::Result<Self> {
        let root = journal.root();
        let hierarchy = Hierarchy::of_block_io(root)?.ok_or_else(|| {
            Failure::Host(
                "no block I/O controller found: mount cgroup v1 blkio, or boot with the io controller in cgroup v2"
                    .to_string(),
            )
        })?;
        match hierarchy.version {
            Version::V1 => Self::v1(journal, hierarchy),
            Version::V2 => Self::v2(journal, hierarchy),
        }
    }

    /// The way by limits of the root group, which touches nothing but the devices themselves and so needs no consent of
    /// other labs on the host; `None` where there is none.
    pub fn of_root_group(journal: &Journal) -> anyhow::Result<Option<Self>> {
        // What can't be seen can't be used.
        match Hierarchy::of_block_io(journal.root()) {
            Ok(Some(hierarchy)) if hierarchy.version == Version::V1 => {
                // A lack that would keep a contest from measuring anything is no lack here.
                Ok(Self::v1(journal, hierarchy).ok())
            }
            _ => Ok(None),
        }
    }

    /// The way by a group of its own for some of the processes, which limits what they submit themselves, as a tenant's
    /// quota does; [`admit`](Self::admit) puts them there. `part` tells it from others of this lab.
    pub fn of_own_group(journal: &Journal, part: &str) -> anyhow::Result<Self> {
        let mut capper = Self::new(journal)?;
        if let Some(groups) = &mut capper.groups
            && groups.hierarchy.version == Version::V1
        {
            let (group, undo) = make_group(journal, &groups.hierarchy, part)?;
            groups.group = group;
            groups._undo.push(undo);
        }
        Ok(capper)
    }

    fn v1(journal: &Journal, hierarchy: Hierarchy) -> anyhow::Result<Self> {
        let root = journal.root();
        let file = hierarchy.mountpoint.join(Kind::WriteIops.v1_file());
        if !root.path(&file).exists() {
            anyhow::bail!(Failure::Host(format!(
                "{} not found: the kernel needs CONFIG_BLK_DEV_THROTTLING",
                file.display()
            )));
        }
        let own = hierarchy.group_of(root, "self")?.unwrap_or_default();
        if own != Path::new("/") {
            anyhow::bail!(Failure::Host(format!(
                "this process is in blkio group {}, which limits of the root group do not reach: start it from there \
                 (echo $$ > {}/cgroup.procs)",
                own.display(),
                hierarchy.mountpoint.display()
            )));
        }
        Ok(Self {
            journal: journal.clone(),
            groups: Some(Groups { group: hierarchy.mountpoint.clone(), hierarchy, _undo: Vec::new() }),
        })
    }

    fn v2(journal: &Journal, hierarchy: Hierarchy) -> anyhow::Result<Self> {
        let root = journal.root();
        let mut undo = Vec::new();
        let control = hierarchy.mountpoint.join("cgroup.subtree_control");
        let enabled = root.read(&control)?;
        for controller in ["io", "memory"] {
            if !enabled.split_whitespace().any(|name| name == controller) {
                undo.push(journal.note(Change::Setting { file: control.clone(), former: format!("-{controller}") })?);
                root.write(&control, &format!("+{controller}"))?;
            }
        }
        let (group, group_undo) = make_group(journal, &hierarchy, "")?;
        undo.push(group_undo);
        // The group goes before the controllers that were enabled for it.
        undo.reverse();
        Ok(Self { journal: journal.clone(), groups: Some(Groups { hierarchy, group, _undo: undo }) })
    }

    /// v2: the group that was made for the capped processes. They can be in one group only, so that other limits go there, too.
    pub fn group_of_v2(&self) -> Option<&Path> {
        self.groups
            .as_ref()
            .filter(|groups| groups.hierarchy.version == Version::V2)
            .map(|groups| groups.group.as_path())
    }

    /// As the report names it.
    pub fn mechanism(&self) -> &'static str {
        match &self.groups {
            None => "volume",
            Some(groups) => match groups.hierarchy.version {
                Version::V1 if groups.is_own() => "cgroup-v1",
                Version::V1 => "cgroup-v1-root",
                Version::V2 => "cgroup-v2",
            },
        }
    }

    /// Makes sure that the caps hold for process `pid` and all below it.
    pub fn admit(&self, pid: i32) -> anyhow::Result<()> {
        let Some(groups) = self.groups.as_ref().filter(|groups| groups.is_own()) else { return Ok(()) };
        let root = self.journal.root();
        let procs = groups.group.join("cgroup.procs");
        for member in process::family(&process::table(root)?, pid) {
            match root.write(&procs, &member.pid.to_string()) {
                Ok(()) => {}
                // A short-lived child that has ended.
                Err(_) if member.pid != pid => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A command for a program beside the server, of which it is no child: it begins under the caps, as limits of the root group of
    /// v1 hold for it, too. Whatever it writes before would be written back without them.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let Some(group) = self.group_of_v2() else { return tool::command(program) };
        let mut command = tool::command("sh");
        command.args(["-c", r#"echo $$ >"$0" && exec "$@""#]);
        command.arg(self.journal.root().path(group.join("cgroup.procs"))).arg(program.as_ref());
        command
    }

    /// Caps `device` until the result is dropped. A volume has the limits that it was made with, whatever `caps` says.
    pub fn apply(&self, device: &Device, caps: Caps) -> anyhow::Result<Vec<InForce>> {
        match device.volume() {
            Some(volume) => Ok(vec![InForce::Volume(volume.limit()?)]),
            None => self.apply_to(&device.number, caps),
        }
    }

    /// Caps the device of this number, of which no limits of its own are known.
    pub fn apply_to(&self, number: &str, caps: Caps) -> anyhow::Result<Vec<InForce>> {
        self.change(number, caps, Caps::default())
    }

    /// Whether it is by control groups.
    pub fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Puts `caps` in the place of `former` until the result is dropped; the latter are as they were made known, so that
    /// a kind that it does not have is lifted then.
    pub fn change(&self, number: &str, caps: Caps, former: Caps) -> anyhow::Result<Vec<InForce>> {
        let root = self.journal.root();
        let mut in_force = Vec::new();
        let Some(Groups { hierarchy, group, .. }) = &self.groups else { return Ok(in_force) };
        for (kind, value) in caps.pairs() {
            let before = former.pairs().find(|(of, _)| *of == kind).map(|(_, value)| value);
            let (file, line, former) = match hierarchy.version {
                Version::V1 => (
                    group.join(kind.v1_file()),
                    format!("{number} {value}"),
                    format!("{number} {}", before.unwrap_or(0)),
                ),
                Version::V2 => {
                    let before = before.map_or("max".to_string(), |value| value.to_string());
                    (
                        group.join("io.max"),
                        format!("{number} {}={value}", kind.v2_key()),
                        format!("{number} {}={before}", kind.v2_key()),
                    )
                }
            };
            in_force.push(InForce::Group(self.journal.note(Change::Setting { file: file.clone(), former })?));
            root.write(&file, &line)?;
        }
        Ok(in_force)
    }
}

impl Groups {
    /// Whether the group was made for some processes, and is not the root group.
    fn is_own(&self) -> bool {
        self.group != self.hierarchy.mountpoint
    }
}

/// Makes a control group below the root group.
fn make_group(journal: &Journal, hierarchy: &Hierarchy, part: &str) -> anyhow::Result<(PathBuf, Undo)> {
    let group = hierarchy.mountpoint.join(format!("pgcalm-lab-{}{part}", std::process::id()));
    let undo = journal.note(Change::Cgroup { path: group.clone() })?;
    let directory = journal.root().path(&group);
    fs::create_dir(&directory).with_context(|| format!("create control group {}", directory.display()))?;
    Ok((group, undo))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    fn host(mountinfo: &str, membership: &str) -> (FakeHost, Journal) {
        let root = FakeHost::with(&[("proc/self/mountinfo", mountinfo), ("proc/self/cgroup", membership)]);
        root.make("sys/fs/cgroup");
        let journal = Journal::open(root.clone(), &root.path("journal.json")).unwrap();
        (root, journal)
    }

    const V1: &str = "38 31 0:35 / /sys/fs/cgroup rw - cgroup cgroup rw,blkio\n";
    const V2: &str = "38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const CAPS: Caps = Caps { write_iops: Some(800), write_bps: Some(131_072_000), read_iops: None };

    #[test]
    fn on_v1_the_root_group_is_written_and_the_undo_writes_zero() {
        let (root, journal) = host(V1, "7:blkio:/\n0::/user.slice\n");
        let iops = Path::new("/sys/fs/cgroup").join(Kind::WriteIops.v1_file());
        root.put(&iops, "");
        let capper = Capper::new(&journal).unwrap();
        assert_eq!(capper.mechanism(), "cgroup-v1-root");
        let caps = capper.apply_to("7:0", CAPS).unwrap();
        assert_eq!(root.read(&iops).unwrap(), "7:0 800");
        drop(caps);
        assert_eq!(root.read(&iops).unwrap(), "7:0 0");
    }

    #[test]
    fn caps_that_change_in_between_come_back_and_go_with_the_first() {
        let (root, journal) = host(V1, "7:blkio:/\n0::/user.slice\n");
        let iops = Path::new("/sys/fs/cgroup").join(Kind::WriteIops.v1_file());
        root.put(&iops, "");
        let capper = Capper::new(&journal).unwrap();
        let caps = capper.apply_to("7:0", CAPS).unwrap();
        let half = capper.change("7:0", CAPS.scaled(50), CAPS).unwrap();
        assert_eq!(root.read(&iops).unwrap(), "7:0 400");
        drop(half);
        assert_eq!(root.read(&iops).unwrap(), "7:0 800");
        drop(caps);
        assert_eq!(root.read(&iops).unwrap(), "7:0 0");
    }

    #[test]
    fn on_v1_a_process_outside_the_root_group_is_told_where_to_start() {
        let (root, journal) = host(V1, "7:blkio:/tenant\n");
        root.put(Path::new("/sys/fs/cgroup").join(Kind::WriteIops.v1_file()), "");
        let error = Capper::new(&journal).unwrap_err().to_string();
        assert!(error.contains("/tenant"), "{error}");
        assert!(error.contains("cgroup.procs"), "{error}");
    }

    #[test]
    fn on_v1_a_group_of_its_own_takes_processes_and_limits_and_leaves_the_root_group_alone() {
        let (root, journal) = host(V1, "7:blkio:/\n0::/\n");
        let iops = Path::new("/sys/fs/cgroup").join(Kind::WriteIops.v1_file());
        root.put(&iops, "");
        root.put("proc/70/stat", "70 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n");
        let capper = Capper::of_own_group(&journal, "-3").unwrap();
        assert_eq!(capper.mechanism(), "cgroup-v1");
        capper.admit(70).unwrap();
        let group = root.path(&capper.groups.as_ref().unwrap().group);
        assert!(group.to_str().unwrap().ends_with("-3"));
        assert_eq!(fs::read_to_string(group.join("cgroup.procs")).unwrap(), "70");
        let caps = capper.apply_to("7:0", CAPS).unwrap();
        let own = group.join(Kind::WriteIops.v1_file());
        assert_eq!(fs::read_to_string(&own).unwrap(), "7:0 800");
        drop(caps);
        assert_eq!(fs::read_to_string(&own).unwrap(), "7:0 0");
        assert_eq!(root.read(&iops).unwrap(), "");
        // In a control group files don't keep the directory from being removed.
        fs::remove_dir_all(&group).unwrap();
        fs::create_dir(&group).unwrap();
        drop(capper);
        assert!(!group.exists());
    }

    #[test]
    fn on_v2_a_group_is_made_with_its_controllers_and_both_are_taken_back() {
        let (root, journal) = host(V2, "0::/user.slice\n");
        let control = root.path("sys/fs/cgroup/cgroup.subtree_control");
        root.put("sys/fs/cgroup/cgroup.controllers", "io memory");
        fs::write(&control, "memory\n").unwrap();
        let capper = Capper::new(&journal).unwrap();
        assert_eq!(capper.mechanism(), "cgroup-v2");
        assert_eq!(fs::read_to_string(&control).unwrap(), "+io");
        let group = root.path(&capper.groups.as_ref().unwrap().group);
        assert!(group.is_dir());
        let caps = capper.apply_to("7:0", CAPS).unwrap();
        // A plain file keeps the last write only; the kernel merges keys.
        assert_eq!(fs::read_to_string(group.join("io.max")).unwrap(), "7:0 wbps=131072000");
        drop(caps);
        assert_eq!(fs::read_to_string(group.join("io.max")).unwrap(), "7:0 wbps=max");
        // In a control group files don't keep the directory from being removed.
        fs::remove_file(group.join("io.max")).unwrap();
        drop(capper);
        assert!(!group.exists());
        assert_eq!(fs::read_to_string(&control).unwrap(), "-io");
    }

    #[test]
    fn on_v2_a_program_beside_the_server_begins_in_the_group() {
        let (root, journal) = host(V2, "0::/user.slice\n");
        root.put("sys/fs/cgroup/cgroup.controllers", "io memory");
        root.put("sys/fs/cgroup/cgroup.subtree_control", "io memory\n");
        let capper = Capper::new(&journal).unwrap();
        let mut child = capper.command("test").args(["a b", "=", "a b"]).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        let procs = root.path(&capper.groups.as_ref().unwrap().group).join("cgroup.procs");
        assert_eq!(fs::read_to_string(&procs).unwrap().trim(), child.id().to_string());
        fs::remove_file(procs).unwrap();
        // Elsewhere it is under the caps wherever it is.
        assert_eq!(Capper::of_volumes(&journal).command("dd").get_program(), "dd");
    }

    #[test]
    fn a_host_without_the_controller_is_told_so() {
        let (_dir, journal) = host("", "0::/\n");
        let error = Capper::new(&journal).unwrap_err();
        // It may be there where this process can't see it.
        assert!(matches!(error.downcast_ref::<pgcalm_host::Error>(), Some(pgcalm_host::Error::Unknown(_))));
    }
}
