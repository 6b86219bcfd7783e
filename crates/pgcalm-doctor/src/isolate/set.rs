//! Putting an instance under limits.

mod applying;
mod planning;

use std::collections::BTreeSet;
use std::path::PathBuf;

use pgcalm_host::HostRoot;
use pgcalm_host::block_device::Disk;
use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::instance::Instance;
use pgcalm_host::throttle::Kind;

use crate::isolate::inventory::Inventory;
use crate::isolate::plan::Step;
use crate::isolate::report::Report;
use crate::isolate::select::Target;
use crate::isolate::{Setting, inventory, select, state, systemd};
use pgcalm_host::Failure;

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Data directory, port or process id.
    pub instance: String,
    /// Node of a disk, or of a partition of the one that is meant.
    pub device: PathBuf,
    /// At least one.
    pub settings: Vec<Setting>,
    /// Only say what would be done.
    pub plan: bool,
    /// The limits are to end with this process; the caller waits and lifts them ([`crate::isolate::hold`]). It is noted with them,
    /// so that they can be told from others if it is killed.
    pub hold: bool,
}

/// Sets the limits on the instance, in a group that is made for it unless it has one.
///
/// Once `interrupted` says so, what was done is undone and the error is [`Failure::Interrupted`]; a change of limits
/// that were there before takes a moment only and is not interrupted. A process that is killed leaves a note of what it
/// had begun, by which `show` names it and `clear` undoes it.
pub fn set(root: &HostRoot, options: &Options, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Report> {
    if options.settings.is_empty() {
        anyhow::bail!(Failure::Usage(
            "no limit given: give --write-iops, --write-bandwidth, --read-iops or --read-bandwidth".to_string(),
        ));
    }
    let Target { disk, node, partition } = select::device(root, &options.device)?;
    let _lock = if options.plan { None } else { Some(state::lock_to_change(root, interrupted)?) };
    let inventory = Inventory::take(root)?;
    let instance = select::instance(&inventory, &options.instance)?;
    let hierarchy = usable(&inventory)?;
    let mut plan = planning::plan(&inventory, hierarchy, instance, &disk, &options.settings)?;
    if options.hold {
        plan.hold(root)?;
    }

    let mut report = if options.plan {
        let mut steps = plan.before.clone();
        steps.extend(applying::moves(root, hierarchy, &plan.state, &BTreeSet::new())?);
        steps.extend(plan.after.clone());
        let mut report = inventory.report("set", &[instance]);
        report.steps = steps.iter().map(Step::described).collect();
        report
    } else {
        let steps = applying::apply(root, hierarchy, &plan, interrupted)?;
        let now = Inventory::take(root)?;
        let pid = instance.postmaster.pid;
        let instance: Vec<&Instance> =
            now.found.instances.iter().filter(|instance| instance.postmaster.pid == pid).collect();
        let mut report = now.report("set", &instance);
        report.steps = steps.iter().map(Step::described).collect();
        report.applied = true;
        report
    };
    report.notes = plan.notes;
    if let Some(partition) = partition {
        report.notes.push(format!(
            "{partition} is a partition, and the kernel takes limits on whole disks only: this one is on {}, and counts what \
             the instance does on all partitions of it.",
            disk.name
        ));
    }
    report.notes.extend(reach(instance, &disk));
    if options.hold {
        report
            .notes
            .push("Held until this command is interrupted (Ctrl-C, SIGTERM, SIGHUP) or the instance ends.".to_string());
    }
    report.permanent = systemd::permanent(
        root,
        hierarchy.version,
        instance.postmaster.pid,
        &instance.data_directory,
        (&disk, node.as_path()),
        &options.settings,
    );
    Ok(report)
}

/// What a limit on `disk` doesn't reach.
fn reach(instance: &Instance, disk: &Disk) -> Option<String> {
    let mut holders = inventory::devices(instance).filter(|device| device.disks().contains(&disk));
    let first = holders.next();
    if first.into_iter().chain(holders).any(|device| device.disk == *disk) {
        return None;
    }
    Some(match first {
        None => format!("Nothing of this instance is on {}: the limit has no effect on its files.", disk.name),
        Some(device) => format!(
            "{} lies below {}, which files of this instance are on. What reaches it keeps its control group only if the drivers \
             in between hand it on; a limit on {} is felt in any case.",
            disk.name, device.disk.name, device.disk.name
        ),
    })
}

/// The hierarchy, if limits can be set there.
fn usable(inventory: &Inventory) -> Result<&Hierarchy, Failure> {
    let hierarchy = match inventory.hierarchy.as_ref() {
        Ok(Some(hierarchy)) => hierarchy,
        Ok(None) => {
            return Err(Failure::Host(
                "no block I/O controller found: mount cgroup v1 blkio, or boot with the io controller in cgroup v2"
                    .to_string(),
            ));
        }
        Err(why) => return Err(Failure::Host(why.to_string())),
    };
    let file = hierarchy.mountpoint.join(Kind::WriteIops.v1_file());
    if hierarchy.version == Version::V1 && !inventory.root.path(&file).exists() {
        return Err(Failure::Host(format!("{} not found: the kernel needs CONFIG_BLK_DEV_THROTTLING", file.display())));
    }
    Ok(hierarchy)
}
