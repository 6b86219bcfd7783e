//! How long a fast stop and recovery would take, by facts.

use pgcalm_host::Unknown;
use pgcalm_postgres::estimate::{Basis, Pending};

use crate::collect::Options;
use crate::facts::{Cap, Facts};
use crate::rules::read;
use crate::words;

/// What a fast stop would have to write, and the caps for that. Nobody reads then, so writes have all of a cap that they share.
pub fn pending(facts: &Facts) -> Result<Pending, Unknown> {
    let server = read::server(facts)?;
    let disk = read::data_disk(facts).ok();
    let calm = server.pg_calm.as_ref();
    let least = |caps: [Option<&Option<Cap>>; 2]| caps.into_iter().flatten().flatten().map(|cap| cap.value).min();
    let block_bytes = read::number(server, "block_size")?.max(1.0) as u64;
    Ok(Pending {
        told_seconds: calm.and_then(|calm| calm.stop_seconds),
        dirty_buffers: server.dirty_buffers,
        shared_buffers: read::bytes(server, "shared_buffers")?.unwrap_or(0) / block_bytes,
        block_bytes,
        unflushed_bytes: facts.host.as_ref().and_then(|host| host.unflushed_bytes).unwrap_or(0),
        write_iops: least([disk.map(|disk| &disk.write_iops), disk.map(|disk| &disk.all_iops)]),
        write_bandwidth: least([disk.map(|disk| &disk.write_bandwidth), disk.map(|disk| &disk.all_bandwidth)]),
    })
}

/// With the caps that the caller knows: the disk may not be seen, as by another user than root, and they count all the same.
pub(crate) fn pending_with(facts: &Facts, options: &Options) -> Result<Pending, Unknown> {
    let asked = |option: Option<Option<u64>>, known: Option<u64>| option.map_or(known, |option| option);
    let pending = pending(facts)?;
    Ok(Pending {
        write_iops: asked(options.write_iops, pending.write_iops),
        write_bandwidth: asked(options.write_bandwidth, pending.write_bandwidth),
        ..pending
    })
}

/// Seconds of a fast stop.
pub fn stop(facts: &Facts) -> Result<(f64, Basis), Unknown> {
    pending(facts)?.stop().ok_or_else(read::no_cap)
}

/// Seconds of recovery after a crash with so much WAL since the redo point, at least and at most. The
/// checkpoint at its end has what is dirty now, also where that WAL is more than there is now.
pub fn recovery(facts: &Facts, wal_bytes: u64) -> [f64; 2] {
    let standby = facts.server.as_ref().is_some_and(|server| server.in_recovery);
    pending(facts).unwrap_or_default().recovery(wal_bytes, replay_rate(facts), standby)
}

/// How fast the last recovery replayed WAL.
pub(crate) fn replay_rate(facts: &Facts) -> Option<f64> {
    let of_module = facts.server.as_ref().and_then(|server| server.pg_calm.as_ref()?.replay_bytes_per_second);
    of_module.or_else(|| facts.host.as_ref()?.replay_bytes_per_second).filter(|rate| *rate > 0.0)
}

/// Both, as far as they are known.
pub fn sentence(facts: &Facts) -> Option<String> {
    let wal = facts.server.as_ref()?.wal_since_redo_bytes;
    let stop =
        stop(facts).ok().map(|(seconds, basis)| format!("a fast stop {} ({})", words::time(seconds), basis.name()));
    let recovery = wal.map(|wal| match recovery(facts, wal) {
        [least, most] if least == most => format!("recovery after a crash {}", words::time(most)),
        [least, most] => format!("recovery after a crash {} to {}", words::time(least), words::time(most)),
    });
    let told: Vec<String> = stop.into_iter().chain(recovery).collect();
    (!told.is_empty()).then(|| format!("Would take now: {}.", told.join(", ")))
}
