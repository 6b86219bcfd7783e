//! Whether pg_calm is worth loading, in words.

use super::caps::Caps;
use super::caps::Work;
use crate::checkpoint;
use crate::report::Observation;
use crate::report::Outlook;

/// Use of a budget below which nothing waits for the device.
const IDLE: f64 = 0.5;

/// By how much a figure has to be better to count.
const GAIN: f64 = 1.1;

/// Whether it helps, and why.
pub(super) fn verdict(observation: &Observation, caps: &Caps, stock: &Outlook, pg_calm: &Outlook) -> (bool, String) {
    let work = Work {
        operations: stock.device_operations_per_s,
        bytes: stock.device_mib_per_s * f64::from(1 << 20),
        pages: 0.0,
    };
    let (use_of_operations, use_of_bytes) = caps.uses(work, stock.sustainable_tps / observation.tps.max(1.0));
    if caps.write_iops.is_infinite() && caps.write_bytes.is_infinite() {
        return (
            false,
            "nothing caps the device, as far as can be seen; if it is a cloud volume, give --iops and --bandwidth"
                .to_string(),
        );
    }
    if caps.write_iops.is_infinite() {
        return (false, "the device's operations are not capped, and pg_calm saves nothing else".to_string());
    }
    if observation.regions.is_empty() {
        return (false, "hardly any page of a data file was written while the server was looked at".to_string());
    }
    if pg_calm.sustainable_tps >= stock.sustainable_tps * GAIN {
        return (
            true,
            format!(
                "the device keeps up with {:.0} transactions per second instead of {:.0}, with {:.0} operations per second of \
                 its {:.0}",
                pg_calm.sustainable_tps, stock.sustainable_tps, pg_calm.device_operations_per_s, caps.write_iops
            ),
        );
    }
    if use_of_operations.max(use_of_bytes) < IDLE {
        return (
            false,
            format!(
                "the device is far from its caps: stock needs {:.0} of its {:.0} operations per second",
                stock.device_operations_per_s, caps.write_iops
            ),
        );
    }
    if pg_calm.device_operations_per_s * GAIN < stock.device_operations_per_s {
        return (
            true,
            format!(
                "the same rate takes {:.0} operations per second instead of {:.0}, of {:.0} that the device takes",
                pg_calm.device_operations_per_s, stock.device_operations_per_s, caps.write_iops
            ),
        );
    }
    if !observation.settings.full_page_writes || !observation.settings.bridge {
        return (false, "with full_page_writes or pg_calm.bridge off no gaps are bridged".to_string());
    }
    (
        false,
        format!(
            "dirty pages lie too far apart to be merged: gaps of up to {} pages are worth writing along with these caps",
            caps.longest_gap()
        ),
    )
}

/// What makes the figures less certain.
pub(super) fn cautions(observation: &Observation) -> Vec<String> {
    let mut cautions = Vec::new();
    if observation.source == "cachestat" {
        cautions.push(
            "the density of dirty pages is taken from the kernel's count of the page cache, which large folios inflate and the \
             server's flush hints empty; load the module with pg_calm.mode = shadow for its own count"
                .to_string(),
        );
    }
    let interval = checkpoint::interval(&observation.settings, observation.wal_bytes_per_s);
    if observation.seconds < interval {
        cautions.push(format!(
            "the server was looked at for {:.0} s, less than the {interval:.0} s between its checkpoints; use --duration {:.0}",
            observation.seconds,
            interval.ceil()
        ));
    }
    if observation.device.name.is_empty() {
        cautions.push(
            "the device of the data directory can't be seen from here, so what else is read from it and written to it is not known"
                .to_string(),
        );
    }
    cautions
}
