//! The rate that a device can keep up with.

use pgcalm_report::predict::Observation;
use pgcalm_report::predict::Outlook;

use super::caps::Caps;
use super::caps::Work;

/// Operations per second besides those for data files, if there are any: the journal of the file system, its own blocks,
/// small files that the server syncs. What remained in runs of the lab whose data pages took few (docs/prediction.md).
const FILE_SYSTEM_OPERATIONS: f64 = 8.0;

/// Halvings in the search for it.
const HALVINGS: u32 = 14;

/// The highest rate, up to what the server reached when nothing held it up, at which `demand` takes no more than a second
/// of the device per second; and what is written then.
pub(super) fn outlook(
    observation: &Observation,
    caps: &Caps,
    demand: &dyn Fn(&Observation, &Caps, f64) -> Work,
) -> Outlook {
    // Where nothing is committed, what is written stands for it.
    let (observed, highest) = if observation.tps > 0.0 {
        (observation.tps, observation.unhindered_tps)
    } else {
        (1.0, 1.0)
    };
    let needs = |tps: f64| {
        let mut work = demand(observation, caps, tps / observed);
        if work.operations > 0.0 {
            work.operations += FILE_SYSTEM_OPERATIONS;
        }
        work
    };
    let mut work = needs(highest);
    let mut tps = highest;
    let mut bound_by = "server";
    if caps.seconds(work) > 1.0 {
        bound_by = if work.operations / caps.write_iops >= work.bytes / caps.write_bytes {
            "operations"
        } else {
            "bandwidth"
        };
        let (mut low, mut high) = (0.0, highest);
        for _ in 0..HALVINGS {
            tps = (low + high) / 2.0;
            if caps.seconds(needs(tps)) > 1.0 {
                high = tps;
            } else {
                low = tps;
            }
        }
        tps = low;
        work = needs(tps);
    }
    Outlook {
        sustainable_tps: if observation.tps > 0.0 { tps } else { 0.0 },
        device_operations_per_s: work.operations,
        device_mib_per_s: work.bytes / f64::from(1 << 20),
        bound_by: bound_by.to_string(),
    }
}
