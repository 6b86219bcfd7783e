//! The instances and what they are under.

use pgcalm_host::HostRoot;

use crate::isolate::inventory::Inventory;
use crate::isolate::report::Report;
use crate::isolate::{inventory, state};

/// Describes all instances.
pub fn show(root: &HostRoot) -> anyhow::Result<Report> {
    let inventory = Inventory::take(root)?;
    let all: Vec<_> = inventory.found.instances.iter().collect();
    let mut report = inventory.report("show", &all);
    // Unreadable without root, and then there is nothing to say.
    for state in state::read_all(root).unwrap_or_default() {
        let runs = all.iter().any(|instance| {
            (instance.postmaster.pid, instance.postmaster.start_ticks) == (state.pid, state.start_ticks)
        });
        let data = state.data_directory.display();
        // Servers in containers may have the same path, and another may be at that of one that has ended.
        let clear = format!("pgcalm isolate clear --instance {}", state.pid);
        if runs && !state.complete {
            report.notes.push(format!(
                "Setting limits on {data} has begun and not ended: it is under way, or was killed half-way, and then {clear} \
                 puts back what it did."
            ));
        } else if runs && let Some(holder) = state.holder.filter(|holder| !holder.runs(root)) {
            report.notes.push(format!(
                "The limits on {data} were to end with process {}, which was killed: {clear} lifts them.",
                holder.pid
            ));
        }
        if let Ok(Some(hierarchy)) = inventory.hierarchy.as_ref()
            && runs
            && state.complete
        {
            let group = inventory::group_of(root, hierarchy, state.pid).ok().flatten();
            if let Some(directory) = group.map(|group| hierarchy.directory(&group)).filter(|at| *at != state.group) {
                report.notes.push(format!(
                    "The limits on {data} do not hold: something else has moved its postmaster from {} to {}; run {clear}, then \
                     set them again.",
                    state.group.display(),
                    directory.display()
                ));
                continue;
            }
            for lost in state.lost(root, hierarchy.version).unwrap_or_default() {
                report.notes.push(format!(
                    "Limit {} {} on {} of {data} is not in force any more: something else, such as systemd, has changed {}; \
                     set it again.",
                    lost.kind,
                    lost.value,
                    lost.device,
                    state.group.display()
                ));
            }
        }
        if !runs {
            report.notes.push(format!(
                "Group {} of {data} is left although that instance has ended: {clear} removes it.",
                state.group.display()
            ));
        }
    }
    Ok(report)
}
