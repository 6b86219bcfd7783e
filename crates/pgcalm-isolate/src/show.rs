//! The instances and what they are under.

use pgcalm_host::HostRoot;
use pgcalm_report::isolate::Report;

use crate::inventory::Inventory;
use crate::state;

/// Describes all instances.
pub fn show(root: &HostRoot) -> anyhow::Result<Report> {
    let inventory = Inventory::take(root)?;
    let all: Vec<_> = inventory.found.instances.iter().collect();
    let mut report = inventory.report("show", &all)?;
    // Unreadable without root, and then there is nothing to say.
    for state in state::read_all(root).unwrap_or_default() {
        let runs = all.iter().any(|instance| {
            (instance.postmaster.pid, instance.postmaster.start_ticks)
                == (state.pid, state.start_ticks)
        });
        if !runs {
            report.notes.push(format!(
                "Group {} of {} is left although that instance has ended: pgcalm isolate clear --instance {} removes it.",
                state.group.display(),
                state.data_directory.display(),
                state.data_directory.display()
            ));
        }
    }
    Ok(report)
}
