//! Limits of volumes: more of them, and what the module is told.

use std::collections::BTreeMap;

use pgcalm_host::Failure;
use pgcalm_volume::Volume;
use pgcalm_volume::limits::{Allowance, Limits};

/// The volume with so many times its operations.
pub(super) fn with_operations(volume: &Volume, times: u32) -> Result<Volume, Failure> {
    let Allowance { shared, read, write } = volume.limits().operations;
    let mut text = volume.to_string();
    for (key, rate) in [("iops", shared), ("read_iops", read), ("write_iops", write)] {
        if let Some(rate) = rate {
            // What comes later holds.
            let separator = if text.contains(':') { ',' } else { ':' };
            let iops = rate.sustained * u64::from(times);
            text.push_str(&format!("{separator}{key}={iops}"));
        }
    }
    text.parse().map_err(|error| Failure::Usage(format!("--volume {text}: {error}")))
}

/// How a DBA tells the module the limits of a volume, which it can't find out by itself.
pub(super) fn module_caps(limits: &Limits) -> BTreeMap<String, String> {
    let of_writes = |allowance: Allowance| allowance.write.map(|rate| rate.sustained);
    let of_all = |allowance: Allowance| allowance.shared.map(|rate| rate.sustained);
    let number = |iops: u64| iops.to_string();
    let kib = |bytes: u64| format!("{}kB", bytes >> 10);
    [
        ("pg_calm.iops", of_all(limits.operations).map(number)),
        ("pg_calm.write_iops", of_writes(limits.operations).map(number)),
        ("pg_calm.bandwidth", of_all(limits.bytes).map(kib)),
        ("pg_calm.write_bandwidth", of_writes(limits.bytes).map(kib)),
        ("pg_calm.io_size", limits.io_size.map(kib)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_string(), value?)))
    .collect()
}
