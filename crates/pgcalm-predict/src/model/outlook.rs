//! The rate that a device can keep up with.

use super::use_of::{Use, Used};
use crate::report::{Observation, Outlook};

/// Part of a cap from which on the device is what limits, so that what the server could make is not known.
const AT_CAP: f64 = 0.9;

/// What comes of `data` for data files, with which `used` of the caps is used, at the observed rate; `now` is used by stock.
pub(super) fn outlook(observation: &Observation, data: Use, used: Used, now: Used) -> Outlook {
    let server = if now.most() < AT_CAP { observation.unhindered_tps } else { f64::INFINITY };
    let volume = if observation.tps > 0.0 { observation.tps / used.most() } else { f64::INFINITY };
    let bound_by = if server.min(f64::MAX) <= volume {
        "server"
    } else if used.operations >= used.bytes {
        "operations"
    } else {
        "bandwidth"
    };
    let tps = server.min(volume);
    Outlook {
        device_operations_per_s: data.operations,
        device_mib_per_s: data.bytes / f64::from(1 << 20),
        sustainable_tps: if tps.is_finite() { tps } else { observation.unhindered_tps },
        bound_by: bound_by.to_string(),
    }
}
