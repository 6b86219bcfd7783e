//! Streaming to standbys: whether WAL waits for them, and whether a capped disk looks like a dead server to them.

use std::path::Path;

use crate::facts::{Cap, Disk, Facts, Server, Standby, StandbyLag};
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::read;
use crate::words;

/// What one operation carries of WAL that a receiver syncs, bytes: 62 MiB/s at 200 per second were
/// measured, rounded down.
const SYNC_OPERATION: u64 = 256 << 10;

/// A standby has neither slot nor wal_keep_size, and nothing else that keeps WAL or brings it.
pub(super) fn standby_without_slot(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let bare: Vec<&Standby> = standbys(server)?.iter().filter(|standby| standby.slot.is_none()).collect();
    if bare.is_empty() || read::text(server, "archive_mode")? != "off" || is_guarded(server) {
        return Ok(None);
    }
    let max = read::bytes(server, "max_wal_size")?.unwrap_or(0);
    let kept = read::bytes(server, "wal_keep_size")?.unwrap_or(0);
    when(kept < max, || {
        let names: Vec<&str> = bare.iter().map(|standby| standby.application_name.as_str()).collect();
        Found::new(format!(
            "no slot for {}; wal_keep_size = {}, max_wal_size = {}, archive_mode = off",
            names.join(", "),
            words::size(kept),
            words::size(max)
        ))
        .run("SELECT pg_create_physical_replication_slot('…', true); -- then primary_slot_name on the standby")
    })
}

/// Age at which a failover manager takes a standby, or its primary, for lost, s: Patroni's default ttl.
const PATIENCE: f64 = 30.0;

/// A standby lacks all WAL of the sample, and more with each second.
pub(super) fn standby_falls_behind(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if standbys(server)?.is_empty() {
        return Ok(None);
    }
    let sample = facts.sample.as_ref();
    let rate = sample.and_then(|sample| sample.wal_bytes_per_second);
    let (Some(sample), Some(rate)) = (sample, rate) else {
        return Err("rates were not measured: give --duration".into());
    };
    let made = rate * sample.seconds;
    let falls = |lag: &&StandbyLag| lag.after_bytes > lag.before_bytes && lag.after_bytes as f64 > made && made > 0.0;
    let mut found: Option<Found> = None;
    for lag in sample.standbys.iter().filter(falls) {
        let growth = (lag.after_bytes - lag.before_bytes) as f64 / sample.seconds;
        let left = (PATIENCE * rate - lag.after_bytes as f64) / growth;
        let evidence = format!(
            "{} is {} behind, {} before it was {}; {} of WAL are made per second: {}",
            lag.application_name,
            words::size(lag.after_bytes),
            words::time(sample.seconds),
            words::size(lag.before_bytes),
            words::size(rate as u64),
            if left > 0.0 {
                format!("what it shows is {} old in {}", words::time(PATIENCE), words::time(left))
            } else {
                format!("what it shows is older than {}", words::time(PATIENCE))
            }
        );
        found = Some(match found {
            Some(found) => found.and(evidence),
            None => Found::new(evidence),
        });
    }
    Ok(found.map(|found| found.run("pgcalm lag --connect '…' # where it is held up, and how long its WAL is kept")))
}

/// At the cap of its disk, a server is silent for longer than the other end of a replication connection waits.
pub(super) fn timeout_under_cap(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if !server.in_recovery && standbys(server)?.is_empty() {
        return Ok(None);
    }
    // Either end asks for a sign of life at half of its timeout: WalSndKeepaliveIfNecessary, WalReceiverMain. 0: never.
    let timeouts: Vec<(&str, f64)> = ["wal_sender_timeout", "wal_receiver_timeout"]
        .into_iter()
        .map(|name| Ok((name, read::seconds(server, name)?)))
        .collect::<Result<_, Unknown>>()?;
    let Some((name, timeout)) =
        timeouts.into_iter().filter(|(_, timeout)| *timeout > 0.0).min_by(|(_, a), (_, b)| a.total_cmp(b))
    else {
        return Ok(None);
    };
    let disk = read::disk_of(facts, "wal")?;
    let disk = disk.ok_or_else(|| Unknown::from("pg_wal is on no block device"))?;
    let Queue { bytes, what, time } = queue(facts, server, disk)?;
    when(time > timeout / 2.0, || {
        Found::new(format!(
            "a sync of WAL can wait for {} of {what} on {}: {} at its cap",
            words::size(bytes),
            disk.disk.name,
            words::time(time)
        ))
        .and(format!(
            "{name} = {}, half of it is {}; a failover manager that waits no longer than the sync gives the server up, too",
            words::time(timeout),
            words::time(timeout / 2.0)
        ))
    })
}

/// What a sync of WAL may have to wait for.
struct Queue {
    bytes: u64,
    what: &'static str,
    /// Seconds at the cap.
    time: f64,
}

/// A segment, which a receiver syncs at its end before it replies; and where data is on the same disk, the dirty pages that
/// the kernel may have given to a control group's queue before: that has no end, a disk's own is done within a second.
fn queue(facts: &Facts, server: &Server, disk: &Disk) -> Result<Queue, Unknown> {
    let iops = read::write_iops(facts, disk);
    let bandwidth = read::write_bandwidth(facts, disk);
    if let (Err(unknown), None) = (&iops, &bandwidth) {
        return Err(unknown.clone());
    }
    let time = |bytes: u64, operation: f64| {
        let by_operations = iops.as_ref().map_or(0.0, |cap| bytes as f64 / operation / cap.value as f64);
        let by_bytes = bandwidth.as_ref().map_or(0.0, |cap| bytes as f64 / cap.value as f64);
        by_operations.max(by_bytes)
    };
    let segment = read::bytes(server, "wal_segment_size")?.unwrap_or(0);
    let of_segment = Queue { bytes: segment, what: "a WAL segment", time: time(segment, SYNC_OPERATION as f64) };
    let shared = disk.roles.iter().any(|role| role == "data" || role == "tablespace");
    let of_group = |cap: &Cap| Path::new(&cap.source).is_absolute();
    let in_group = iops.as_ref().is_ok_and(of_group) || bandwidth.as_ref().is_some_and(of_group);
    if !shared || !in_group || read::pg_calm_is_on(facts) {
        return Ok(of_segment);
    }
    let dirty = read::dirty_limit(facts)?;
    let of_pages =
        Queue { bytes: dirty, what: "scattered dirty pages", time: time(dirty, read::number(server, "block_size")?) };
    Ok(if of_pages.time > of_segment.time { of_pages } else { of_segment })
}

fn standbys(server: &Server) -> Result<&[Standby], Unknown> {
    let standbys = server.standbys.as_deref();
    standbys.ok_or_else(|| "standbys may not be seen: GRANT pg_monitor".into())
}

/// Whether pg_calm_guard holds writers before a standby is lost.
fn is_guarded(server: &Server) -> bool {
    read::guard_is_on(server) && read::text(server, "pg_calm_guard.max_lag").is_ok_and(|limit| !limit.is_empty())
}
