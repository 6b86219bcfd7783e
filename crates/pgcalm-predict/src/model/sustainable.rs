//! The rate that a device can keep up with.

use super::caps::Caps;
use super::caps::Demand;
use super::caps::Effort;
use crate::report::Observation;
use crate::report::Outlook;
use crate::report::Possible;

/// Operations per second besides those for data files, if there are any: what the file system's journal commits each 5 s
/// (`JBD2_DEFAULT_MAX_COMMIT_AGE` in the kernel's include/linux/jbd2.h) and with each fsync. In seconds in which no data file
/// was written a device of the lab completed 0 to 2 of them.
const FILE_SYSTEM_OPERATIONS: f64 = 1.0;

/// Halvings in the search for it.
const HALVINGS: u32 = 10;

/// The highest rate, up to what the server reached when nothing held it up, at which the device keeps up with `demand`; and
/// what is written then.
pub(super) fn outlook(
    observation: &Observation,
    caps: &Caps,
    demand: &dyn Fn(&Observation, &Caps, f64, Effort) -> Demand,
) -> (Outlook, Demand) {
    // Where nothing is committed, what is written stands for it.
    let (observed, highest) =
        if observation.tps > 0.0 { (observation.tps, observation.unhindered_tps) } else { (1.0, 1.0) };
    let needs = |tps: f64, effort: Effort| {
        let mut demand = demand(observation, caps, tps / observed, effort);
        if demand.work.operations > 0.0 {
            demand.work.operations += FILE_SYSTEM_OPERATIONS;
        }
        demand
    };
    let mut demand = needs(highest, Effort::Answer);
    let mut tps = highest;
    let mut bound_by = "server";
    if !demand.keeps_up {
        let (operations, bytes) = caps.uses(demand.work, highest / observed);
        bound_by = if operations >= bytes { "operations" } else { "bandwidth" };
        let (mut low, mut high) = (0.0, highest);
        for _ in 0..HALVINGS {
            tps = (low + high) / 2.0;
            if needs(tps, Effort::Search).keeps_up {
                low = tps;
            } else {
                high = tps;
            }
        }
        tps = low;
        demand = needs(tps, Effort::Answer);
    }
    let outlook = Outlook {
        sustainable_tps: if observation.tps > 0.0 { tps } else { 0.0 },
        device_operations_per_s: demand.work.operations,
        device_mib_per_s: demand.work.bytes / f64::from(1 << 20),
        bound_by: bound_by.to_string(),
    };
    (outlook, demand)
}

/// What the volume sustains if all pages are written as densely as the worker writes those that it flushes itself, by what it takes
/// at the rate of `outlook`. None where there are no transactions, or nothing is written.
pub(super) fn possible(observation: &Observation, caps: &Caps, outlook: &Outlook, demand: &Demand) -> Option<Possible> {
    let (all, worker) = (demand.work, demand.worker);
    let tps = outlook.sustainable_tps;
    if tps <= 0.0 || all.pages <= 0.0 {
        return None;
    }
    let dense = if worker.pages > 0.0 { worker * (all.pages / worker.pages) } else { all };
    let (operations, bytes) = caps.uses(dense, tps / observation.tps);
    // What is sustained is possible.
    let volume = (tps / operations.max(bytes)).max(tps);
    Some(Possible {
        tps: volume.min(observation.unhindered_tps),
        volume_tps: volume.is_finite().then_some(volume),
        pages_per_operation: dense.pages / dense.operations,
        holds_writers: volume < observation.unhindered_tps,
    })
}
