//! The rate that a device can keep up with.

use pgcalm_report::predict::Observation;
use pgcalm_report::predict::Outlook;

use super::caps::Caps;
use super::caps::Demand;
use super::caps::Effort;

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
) -> Outlook {
    // Where nothing is committed, what is written stands for it.
    let (observed, highest) = if observation.tps > 0.0 {
        (observation.tps, observation.unhindered_tps)
    } else {
        (1.0, 1.0)
    };
    let needs = |tps: f64, effort: Effort| {
        let mut demand = demand(observation, caps, tps / observed, effort);
        if demand.work.operations > 0.0 {
            demand.work.operations += FILE_SYSTEM_OPERATIONS;
        }
        demand
    };
    let Demand { mut work, keeps_up } = needs(highest, Effort::Answer);
    let mut tps = highest;
    let mut bound_by = "server";
    if !keeps_up {
        bound_by = if work.operations / caps.write_iops >= work.bytes / caps.write_bytes {
            "operations"
        } else {
            "bandwidth"
        };
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
        work = needs(tps, Effort::Answer).work;
    }
    Outlook {
        sustainable_tps: if observation.tps > 0.0 { tps } else { 0.0 },
        device_operations_per_s: work.operations,
        device_mib_per_s: work.bytes / f64::from(1 << 20),
        bound_by: bound_by.to_string(),
    }
}
