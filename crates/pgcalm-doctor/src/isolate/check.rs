//! What is dangerous about how the instances share the host.

mod capped;
mod escape;
mod shared_journal;

use pgcalm_host::HostRoot;

use crate::isolate::inventory::Inventory;
use crate::isolate::report::{Disk, Hazard, Instance, Limit, Report};

/// Describes all instances and the hazards.
pub fn check(root: &HostRoot) -> anyhow::Result<Report> {
    let inventory = Inventory::take(root)?;
    let all: Vec<_> = inventory.found.instances.iter().collect();
    let mut report = inventory.report("check", &all);
    let root_group = inventory.hierarchy.there().map(|hierarchy| hierarchy.mountpoint.display().to_string());
    report.hazards =
        hazards(&report.instances, report.cgroup_version.there().map(String::as_str), root_group.as_deref());
    Ok(report)
}

/// All hazards, worst first. `root_group` is the directory of the root group.
fn hazards(instances: &[Instance], cgroup_version: Option<&str>, root_group: Option<&str>) -> Vec<Hazard> {
    let mut hazards = shared_journal::find(instances);
    hazards.extend(capped::journals(instances, root_group));
    hazards.extend(capped::wal(instances));
    hazards.extend(capped::logs(instances));
    hazards.extend(escape::find(instances, cgroup_version));
    hazards
}

/// The limits on writes to `disk` that `instance` feels.
fn write_limits<'a>(instance: &'a Instance, disk: &'a Disk) -> impl Iterator<Item = &'a Limit> {
    instance.limits.iter().filter(move |limit| limit.in_force && limit.disk == *disk && is_on_writes(limit))
}

fn is_on_writes(limit: &Limit) -> bool {
    limit.kind.starts_with("write-")
}

/// A limit in the words of evidence.
fn described(limit: &Limit) -> String {
    format!("{} {} on {} in {}", limit.kind, limit.value, limit.disk.name, limit.file)
}

#[cfg(test)]
mod tests;
