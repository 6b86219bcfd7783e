//! What it takes to put an instance under limits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context;
use pgcalm_host::block_device::Disk;
use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::instance::Instance;
use pgcalm_host::{HostRoot, cgroup, process, throttle};

use crate::isolate::inventory::{GROUP_PREFIX, Inventory};
use crate::isolate::plan::Step;
use crate::isolate::state::{Holder, State};
use crate::isolate::{Setting, inventory, state, systemd};
use pgcalm_host::Failure;

/// What is to be done, and the note of it.
pub(super) struct Plan {
    /// Before any process moves.
    pub before: Vec<Step>,
    /// After all have.
    pub after: Vec<Step>,
    pub state: State,
    pub notes: Vec<String>,
}

impl Plan {
    /// Notes that the limits end with this process.
    pub(super) fn hold(&mut self, root: &HostRoot) -> anyhow::Result<()> {
        if self.state.complete {
            anyhow::bail!(Failure::Usage(format!(
                "--hold: limits on {} are set already, and would end with this command; clear them first, or change them \
                 without --hold",
                self.state.data_directory.display()
            )));
        }
        self.state.holder = Some(Holder::this(root)?);
        Ok(())
    }
}

/// Plans it without changing anything.
pub(super) fn plan(
    inventory: &Inventory,
    hierarchy: &Hierarchy,
    instance: &Instance,
    disk: &Disk,
    settings: &[Setting],
) -> anyhow::Result<Plan> {
    let root = &inventory.root;
    let postmaster = &instance.postmaster;
    let group = inventory::group_of(root, hierarchy, postmaster.pid)?
        .with_context(|| format!("instance {} has just ended", postmaster.pid))?;
    let directory = hierarchy.directory(&group);
    let states = state::read_all(root)?;
    let (name, is_same) = (format!("{GROUP_PREFIX}{}", postmaster.pid), |state: &State| {
        (state.pid, state.start_ticks) == (postmaster.pid, postmaster.start_ticks)
    });
    let earlier = states.into_iter().find(|state| is_same(state) || state.group.file_name() == Some(OsStr::new(&name)));
    let limits = limits(hierarchy.version, disk, settings);
    if let Some(mut state) = earlier {
        if !is_same(&state) {
            anyhow::bail!(Failure::Usage(format!(
                "--instance {}: {} is left of an instance that had the same process id; run pgcalm isolate clear \
                 --instance {} first",
                instance.data_directory.display(),
                state.group.display(),
                postmaster.pid
            )));
        }
        if !state.complete {
            anyhow::bail!(Failure::Usage(format!(
                "--instance {}: an earlier pgcalm isolate set was killed half-way; run pgcalm isolate clear --instance {} first",
                instance.data_directory.display(),
                postmaster.pid
            )));
        }
        if state.group != directory {
            anyhow::bail!(Failure::Usage(format!(
                "--instance {}: its postmaster was moved from {} to {} by someone else; run pgcalm isolate clear --instance {} first",
                instance.data_directory.display(),
                state.group.display(),
                directory.display(),
                postmaster.pid
            )));
        }
        state.ask(disk, settings);
        return Ok(Plan { before: Vec::new(), after: writes(&state.group, limits), state, notes: Vec::new() });
    }
    let group = directory.join(name);
    if root.path(&group).exists() {
        anyhow::bail!(Failure::Host(format!(
            "control group {} is there, and not noted under /run/pgcalm: remove it (rmdir) once it holds no processes",
            group.display()
        )));
    }
    let mut state = State {
        group,
        former: directory,
        data_directory: instance.data_directory.clone(),
        pid: postmaster.pid,
        start_ticks: postmaster.start_ticks,
        moved: Vec::new(),
        controllers: Vec::new(),
        limits: Vec::new(),
        complete: false,
        holder: None,
    };
    state.ask(disk, settings);
    match hierarchy.version {
        Version::V1 => plan_v1(root, state, disk, settings, limits),
        Version::V2 => {
            if let Some(unit) = systemd::undivided(root, &state.former) {
                let cure = if systemd::is_looked_through(root, disk) {
                    format!(
                        "give it that (systemctl edit '{unit}') and restart it: systemd itself would limit the disk below {}",
                        disk.name
                    )
                } else {
                    format!("let systemd set it: {}", systemd::set_property(&unit, disk, settings))
                };
                anyhow::bail!(Failure::Host(format!(
                    "{unit} is systemd's and has no Delegate=yes: a group inside it makes its reload and stop commands fail, \
                     and systemd may lift the limit; {cure}"
                )));
            }
            plan_v2(inventory, hierarchy, state, limits)
        }
    }
}

/// Lines by file name, in the order in which files are written.
type Lines = BTreeMap<&'static str, Vec<String>>;

fn limits(version: Version, disk: &Disk, settings: &[Setting]) -> Lines {
    let mut lines = Lines::new();
    let number = &disk.number;
    match version {
        Version::V1 => {
            for setting in settings {
                // 0 lifts a limit (tg_set_conf in the kernel's block/blk-throttle.c).
                let value = setting.value.unwrap_or(0);
                lines.entry(setting.kind.v1_file()).or_default().push(format!("{number} {value}"));
            }
        }
        Version::V2 => {
            let pairs: Vec<String> = settings
                .iter()
                .map(|setting| {
                    let value = setting.value.map_or("max".to_string(), |v| v.to_string());
                    format!("{}={value}", setting.kind.v2_key())
                })
                .collect();
            lines.insert("io.max", vec![format!("{number} {}", pairs.join(" "))]);
        }
    }
    lines
}

fn writes(group: &Path, lines: Lines) -> Vec<Step> {
    lines
        .into_iter()
        .flat_map(|(name, lines)| lines.into_iter().map(move |line| (name, line)))
        .map(|(name, value)| Step::Write { file: group.join(name), value })
        .collect()
}

/// On v1 a group has its own limits only, so those of the former group are lost unless they are taken along.
fn plan_v1(
    root: &HostRoot,
    state: State,
    disk: &Disk,
    settings: &[Setting],
    mut limits: Lines,
) -> anyhow::Result<Plan> {
    let mut notes = Vec::new();
    for (number, limit) in throttle::of_group(root, Version::V1, &state.former)? {
        let overridden = number == disk.number && settings.iter().any(|s| s.kind == limit.kind);
        if !overridden {
            limits.entry(limit.kind.v1_file()).or_default().push(format!("{number} {}", limit.value));
            notes.push(format!(
                "Taken along from {}: {} {} on device {number}; from now on it counts for this instance alone.",
                state.former.display(),
                limit.kind.name(),
                limit.value
            ));
        }
    }
    notes.push(
        "On cgroup v1 the limit holds for what the server's own processes submit: fsync, direct I/O, reads. What \
         the kernel's flusher writes for them is not limited."
            .to_string(),
    );
    let mut before = vec![Step::MakeGroup(state.group.clone())];
    before.extend(writes(&state.group, limits));
    Ok(Plan { before, after: Vec::new(), state, notes })
}

/// On v2 the group is made inside the former one, so that all limits of that one hold on. A group with controllers for
/// groups below may hold no processes itself, unless it is the root: so controllers come after the processes have gone,
/// and nobody else's processes may be there.
fn plan_v2(inventory: &Inventory, hierarchy: &Hierarchy, mut state: State, limits: Lines) -> anyhow::Result<Plan> {
    let root = &inventory.root;
    if state.former != hierarchy.mountpoint {
        let family: BTreeSet<i32> =
            process::family(&inventory.table, state.pid).iter().map(|process| process.pid).collect();
        let others: Vec<i32> =
            cgroup::members(root, &state.former)?.into_iter().filter(|pid| !family.contains(pid)).collect();
        if let Some(first) = others.first() {
            anyhow::bail!(Failure::Usage(format!(
                "group {} holds {} processes that are not the instance's, such as {first}: on cgroup v2 it can't be \
                 divided without moving those; start the instance as a service of its own",
                state.former.display(),
                others.len()
            )));
        }
    }
    if !cgroup::has_controller(root, &state.former, "io")? {
        anyhow::bail!(Failure::Host(format!(
            "the io controller does not reach {}: enable it above, e.g. with IOAccounting=yes in the unit, or echo +io \
             > cgroup.subtree_control of the group above",
            state.former.display()
        )));
    }
    let control = state.former.join("cgroup.subtree_control");
    let enabled = root.read(&control)?;
    let mut notes = Vec::new();
    let mut after = Vec::new();
    // It brings the memory controller with it (cgroup::owns_writeback).
    if !enabled.split_whitespace().any(|name| name == "io") {
        state.controllers.push("io".to_string());
        after.push(Step::Write { file: control, value: "+io".to_string() });
    }
    if cgroup::owns_writeback(root, hierarchy)? == Some(false) {
        notes.push(
            "This host has no memory controller: what the kernel's flusher writes will not be limited.".to_string(),
        );
    }
    notes.push(
        "Pages that are in the page cache already stay with the former group, and the writeback of a file is charged to the \
         group that most of its pages belong to: for such files this limit holds only once they have been evicted."
            .to_string(),
    );
    after.extend(writes(&state.group, limits));
    Ok(Plan { before: vec![Step::MakeGroup(state.group.clone())], after, state, notes })
}
