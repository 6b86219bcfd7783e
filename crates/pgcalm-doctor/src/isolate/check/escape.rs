use super::{described, is_on_writes};
use crate::isolate::report::{Hazard, Instance, Limit};

/// Limits that don't limit what they seem to.
pub(super) fn find(instances: &[Instance], cgroup_version: Option<&str>) -> Vec<Hazard> {
    let mut hazards = Vec::new();
    for instance in instances {
        let limits: Vec<&Limit> =
            instance.limits.iter().filter(|limit| limit.in_force && is_on_writes(limit)).collect();
        let mut evidence: Vec<String> = limits.iter().map(|limit| described(limit)).collect();
        if let (Some(group), false) = (instance.group.there(), limits.is_empty()) {
            if cgroup_version == Some("v1") && group != "/" {
                hazards.push(Hazard {
                    name: "writeback-escapes-limit".to_string(),
                    instances: vec![instance.data_directory.clone()],
                    evidence: evidence.clone(),
                    cure: "cgroup v1 has no owner for dirty pages: the kernel's flusher writes them in the root group. Boot \
                           with cgroup v2, or set checkpoint_flush_after, backend_flush_after and bgwriter_flush_after so \
                           that the server submits its writes itself"
                        .to_string(),
                });
            }
            if instance.memory_controller == Some(false) {
                evidence.push("cgroup.controllers of the root group has no memory".to_string());
                hazards.push(Hazard {
                    name: "no-memory-controller".to_string(),
                    instances: vec![instance.data_directory.clone()],
                    evidence: evidence.clone(),
                    cure: "without the memory controller the kernel does not know whose pages its flusher writes: boot without \
                           cgroup_disable=memory"
                        .to_string(),
                });
            }
        }
        let ignored: Vec<String> = instance.limits.iter().filter(|limit| !limit.in_force).map(described).collect();
        if !ignored.is_empty() {
            hazards.push(Hazard {
                name: "limit-not-passed-down".to_string(),
                instances: vec![instance.data_directory.clone()],
                evidence: ignored,
                cure: "on cgroup v1 a limit holds for the processes of its own group only, not for groups below: set it on \
                       the group of the instance (pgcalm isolate set)"
                    .to_string(),
            });
        }
        if let (Some(group), false) = (instance.group.there(), instance.other_groups.is_empty()) {
            hazards.push(Hazard {
                name: "split-instance".to_string(),
                instances: vec![instance.data_directory.clone()],
                evidence: vec![format!(
                    "the postmaster is in {group}, other processes in {}",
                    instance.other_groups.join(", ")
                )],
                cure: "pgcalm isolate set moves all of them; or restart the server in its group".to_string(),
            });
        }
    }
    hazards
}
