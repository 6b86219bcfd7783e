//! Checkpoints: how often, how long, and what keeps their writes safe.

use crate::facts::Facts;
use crate::isolate::report::Place;
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::read;
use crate::{estimate, words};

/// The server's default since 14.
const COMPLETION_TARGET: f64 = 0.9;
/// The server's default, s.
const TIMEOUT: f64 = 300.0;
/// Fewer checkpoints than this say nothing about the usual one.
const ENOUGH_CHECKPOINTS: u64 = 10;
/// Room for WAL to grow over what a checkpoint interval makes on average.
const HEADROOM: f64 = 1.5;

/// Nothing that is written is durable.
pub(super) fn fsync_off(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    when(!read::is_on(server, "fsync")?, || Found::new("fsync = off").set(server, "fsync", "on").run("sync"))
}

/// Torn pages can't be repaired.
pub(super) fn full_page_writes_off(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if read::is_on(server, "full_page_writes")? {
        return Ok(None);
    }
    let places = &read::instance(facts)?.places;
    if !places.iter().any(|place| place.role == "data") {
        return Err("the file system of the data directory is not known".into());
    }
    // What does not write a page elsewhere can tear it: btrfs does not with nodatacow.
    let tears = |place: &&Place| {
        let in_place = place.mount_options.iter().any(|option| option == "nodatacow");
        matches!(place.role.as_str(), "data" | "tablespace")
            && (in_place || !matches!(place.fs.as_str(), "zfs" | "btrfs"))
    };
    let Some(place) = places.iter().find(tears) else { return Ok(None) };
    Ok(Some(Found::new(format!("full_page_writes = off, the server's {} is on {}", place.role, place.fs)).set(
        server,
        "full_page_writes",
        "on",
    )))
}

/// Less of the interval is used for writing than by default.
pub(super) fn completion_target(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let target = read::number(server, "checkpoint_completion_target")?;
    when(target < COMPLETION_TARGET, || {
        Found::new(format!("checkpoint_completion_target = {target}")).set(
            server,
            "checkpoint_completion_target",
            COMPLETION_TARGET.to_string(),
        )
    })
}

/// The sync phase takes more time than the completion target leaves for it.
pub(super) fn sync_beyond_target(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let checkpoints = &server.checkpoints;
    let count = checkpoints.timed + checkpoints.requested;
    if count < ENOUGH_CHECKPOINTS {
        return Err(too_few(count));
    }
    let timeout = read::seconds(server, "checkpoint_timeout")?;
    let target = read::number(server, "checkpoint_completion_target")?;
    let slack = (1.0 - target) * timeout;
    let sync = checkpoints.sync_time_ms / 1000.0 / count as f64;
    // No stall: the device is never behind in a drain. The server's count does not tell it from fsync calls.
    if sync > slack && read::pg_calm_is_on(facts) {
        return Err(Unknown::new(
            "the server's time of sync has pg_calm's drain in it; pg_calm_checkpoints.fsync_time has the fsync calls alone"
                .to_string(),
        ));
    }
    when(sync > slack, || {
        Found::new(format!(
            "the sync phase of {count} checkpoints took {} on average; checkpoint_completion_target = {target} leaves {} of \
             checkpoint_timeout",
            words::time(sync),
            words::time(slack)
        ))
    })
}

/// WAL makes checkpoints come before their time.
pub(super) fn max_wal_size(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if server.in_recovery {
        return Ok(None);
    }
    let timeout = read::seconds(server, "checkpoint_timeout")?;
    let target = read::number(server, "checkpoint_completion_target")?;
    let max = read::bytes(server, "max_wal_size")?.unwrap_or(0) as f64;
    let rate = read::wal_rate(facts, timeout)?;
    let checkpoints = &server.checkpoints;
    let count = checkpoints.timed + checkpoints.requested;
    // CalculateCheckpointSegments() in the server's xlog.c: WAL of one interval and of the next checkpoint's writing.
    let trigger = max / (1.0 + target);
    let by_rate = rate * timeout > trigger;
    let average = read::wal_average(server, timeout).filter(|average| average * timeout > trigger);
    // The server's count has commands and base backups in it; pg_calm's reports tell them apart.
    let reports = server.pg_calm.as_ref();
    let by_count = match reports.filter(|calm| calm.checkpoints >= ENOUGH_CHECKPOINTS) {
        Some(calm) => calm.checkpoints_by_wal * 2 > calm.checkpoints,
        None => count >= ENOUGH_CHECKPOINTS && checkpoints.requested * 2 > count,
    };
    let kept = read::bytes(server, "wal_keep_size")?.unwrap_or(0);
    when(by_rate || by_count, || {
        let mut found = Found::new(format!(
            "WAL of {} per second makes {} in checkpoint_timeout; max_wal_size of {} starts a checkpoint after {}",
            words::size(rate as u64),
            words::size((rate * timeout) as u64),
            words::size(max as u64),
            words::size(trigger as u64)
        ))
        .and(format!(
            "{} of {count} checkpoints were requested, not timed (by WAL, a command or a base backup)",
            checkpoints.requested
        ));
        if let Some(calm) = reports.filter(|calm| calm.checkpoints > 0) {
            found = found.and(format!(
                "pg_calm_checkpoints: WAL started {} of the last {}",
                calm.checkpoints_by_wal, calm.checkpoints
            ));
        }
        let wanted = (average.unwrap_or(rate) * timeout * (1.0 + target) * HEADROOM).max(max * 2.0) as u64;
        let recovery = estimate::recovery(facts, wanted)[0];
        let grace = facts.host.as_ref().and_then(|host| host.grace.as_ref()?.start_seconds);
        let killed_after = grace.filter(|patience| recovery > *patience);
        if let Some(patience) = killed_after {
            found = found.and(format!(
                "recovery of {} takes {} at least; the server is killed if it has not started after {}",
                words::size(wanted),
                words::time(recovery),
                words::time(patience)
            ));
        }
        match room(facts) {
            Some(room) if wanted + kept > room / 2 => {
                found = found.and(format!(
                    "pg_wal has room for {}: too little for the {} that it would take, with as much again to spare",
                    words::size(room),
                    words::size(wanted)
                ));
            }
            // The counts go on to tell of the time before it was raised: each run of doctor would double it. A sample may be of a burst.
            Some(_) if average.is_some() && killed_after.is_none() => {
                found = found.set(server, "max_wal_size", words::setting_size(wanted));
            }
            room => {
                let condition = match room {
                    None => "if the disk of pg_wal has twice that",
                    Some(_) if killed_after.is_some() => "once a start may take longer",
                    Some(_) if by_rate => "if WAL goes on at that rate",
                    Some(_) => "once",
                };
                let wanted = words::setting_size(wanted);
                found = found.run(format!("ALTER SYSTEM SET max_wal_size = '{wanted}'; -- {condition}"));
            }
        }
        found
    })
}

/// Checkpoints come more often than by default.
pub(super) fn timeout_short(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let timeout = read::seconds(server, "checkpoint_timeout")?;
    when(timeout < TIMEOUT, || {
        Found::new(format!("checkpoint_timeout = {}", words::time(timeout))).set(server, "checkpoint_timeout", "5min")
    })
}

/// Checkpoints leave no trace in the log.
pub(super) fn not_logged(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    when(!read::is_on(server, "log_checkpoints")?, || {
        Found::new("log_checkpoints = off").set(server, "log_checkpoints", "on")
    })
}

/// What pg_wal may grow to: what it has, and what is free.
pub(super) fn room(facts: &Facts) -> Option<u64> {
    let free = facts.host.as_ref()?.wal_file_system?.available_bytes;
    Some(free + facts.server.as_ref()?.wal.directory_bytes?)
}

fn too_few(count: u64) -> Unknown {
    Unknown::new(format!("checkpoints since the statistics were reset: {count}; {ENOUGH_CHECKPOINTS} are needed"))
}
