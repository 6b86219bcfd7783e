//! WAL: room for it, its volume, and how it leaves the buffers.

use crate::facts::Facts;
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::{checkpoint, disk, read};
use crate::words;

/// The server's default, in bytes.
const WRITER_FLUSH_AFTER: u64 = 1 << 20;
/// A WAL segment of the usual size.
const WRITER_FLUSH_AFTER_LARGE: u64 = 16 << 20;
/// Commits per flush of WAL: fewer, and nobody is there to be waited for; more, and flushes are full.
const COMMITS_PER_FLUSH: std::ops::Range<f64> = 1.2..8.0;
/// Part of the disk's operations that flushes use up from which on fewer of them are worth a wait.
const FLUSH_SHARE: f64 = 0.5;
/// WAL less than this tells nothing about its composition.
const ENOUGH_WAL: u64 = 1 << 30;
/// An average over less time may be of one burst.
const ENOUGH_SECONDS: f64 = 300.0;
/// What the server takes of commit_delay, microseconds.
const MOST_COMMIT_DELAY: f64 = 100_000.0;
/// Times per second that backends have to write WAL to get room in wal_buffers.
const BUFFERS_FULL: f64 = 1.0;

/// max_wal_size is more than its disk has.
pub(super) fn disk_small(facts: &Facts) -> Answer {
    read::instance(facts)?;
    let server = read::server(facts)?;
    let Some(room) = checkpoint::room(facts) else {
        return Err("the size of pg_wal or the room on its disk could not be read (pg_monitor)".into());
    };
    let max = read::bytes(server, "max_wal_size")?.unwrap_or(0);
    let kept = read::bytes(server, "wal_keep_size")?.unwrap_or(0);
    // The server does not start with less than two segments (`ReadControlFile`).
    let least = 2 * read::bytes(server, "wal_segment_size")?.unwrap_or(0);
    when(max + kept > room, || {
        let found = Found::new(format!(
            "max_wal_size is {}, wal_keep_size {}; pg_wal can grow to {}",
            words::size(max),
            words::size(kept),
            words::size(room)
        ));
        match (room.saturating_sub(kept) / 2).max(least) {
            to if to < max && kept < room / 2 => found.set(server, "max_wal_size", words::setting_size(to)),
            _ => found.run("ALTER SYSTEM SET wal_keep_size = '…'; -- or a larger disk"),
        }
    })
}

/// Much of WAL is full-page images that are not compressed.
pub(super) fn compression(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let wal = &server.wal;
    if !matches!(read::text(server, "wal_compression")?, "off") {
        return Ok(None);
    }
    if wal.bytes < ENOUGH_WAL {
        return Err(Unknown::new(format!(
            "WAL since its statistics were reset: {}; {} are needed",
            words::size(wal.bytes),
            words::size(ENOUGH_WAL)
        )));
    }
    let images = wal.full_page_images as f64 * read::number(server, "block_size")?;
    let bytes = wal.bytes as f64;
    when(images > bytes / 2.0, || {
        let method = server.settings.get("wal_compression");
        let has_lz4 = method.is_some_and(|s| s.values.iter().any(|value| value == "lz4"));
        Found::new(format!(
            "{} full-page images are up to {} of {} of WAL; wal_compression = off",
            wal.full_page_images,
            words::percent(images.min(bytes), bytes),
            words::size(wal.bytes)
        ))
        .set(server, "wal_compression", if has_lz4 { "lz4" } else { "on" })
    })
}

/// The WAL writer flushes at each turn, on a disk with few operations.
pub(super) fn writer_flushes_often(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let after = read::bytes(server, "wal_writer_flush_after")?;
    if after != Some(0) {
        return Ok(None);
    }
    let cap = disk::wal_iops(facts)?;
    Ok(Some(
        Found::new(format!(
            "wal_writer_flush_after = 0; the disk of pg_wal takes {} write operations per second ({})",
            cap.value, cap.source
        ))
        .set(server, "wal_writer_flush_after", words::setting_size(WRITER_FLUSH_AFTER)),
    ))
}

/// Commits flush WAL nearly one by one, and use up the disk's operations.
pub(super) fn commit_delay(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if read::number(server, "commit_delay")? != 0.0 {
        return Ok(None);
    }
    let rates = facts.sample.as_ref().and_then(|sample| sample.commits_per_second.zip(sample.wal_flushes_per_second));
    let (commits, flushes) = rates.ok_or_else(|| Unknown::from("commits and flushes of WAL were not counted"))?;
    if !COMMITS_PER_FLUSH.contains(&(commits / flushes)) {
        return Ok(None);
    }
    let cap = disk::wal_iops(facts)?;
    when(flushes >= FLUSH_SHARE * cap.value as f64, || {
        let found = Found::new(format!(
            "{commits:.0} commits and {flushes:.0} flushes of WAL per second; the disk of pg_wal takes {} write operations ({})",
            cap.value, cap.source
        ));
        match server.pg_calm.as_ref().and_then(|calm| calm.wal_flush_seconds) {
            Some(seconds) => found
                .and(format!("pg_calm_status: a flush takes {} on average", words::time(seconds)))
                .set(server, "commit_delay", format!("{:.0}", (seconds / 2.0 * 1e6).clamp(1.0, MOST_COMMIT_DELAY))),
            None => found.and("half of the time that a flush takes is the documentation's advice").run("pg_test_fsync"),
        }
    })
}

/// The WAL writer lets much gather, or sleeps long.
pub(super) fn writer_bursts(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let after = read::bytes(server, "wal_writer_flush_after")?.unwrap_or(0);
    let delay = read::seconds(server, "wal_writer_delay")?;
    let large = after > WRITER_FLUSH_AFTER_LARGE;
    // The default is 200 ms, the most that can be set 10 s.
    let long = delay > 1.0;
    when(large || long, || {
        let mut found = Found::new(format!(
            "wal_writer_flush_after = {}, wal_writer_delay = {}",
            words::size(after),
            words::time(delay)
        ));
        if large {
            let after = words::setting_size(WRITER_FLUSH_AFTER);
            found = found.set(server, "wal_writer_flush_after", after);
        }
        if long {
            found = found.set(server, "wal_writer_delay", "200");
        }
        found
    })
}

/// Backends write WAL because the buffers for it are full.
pub(super) fn buffers_full(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let seconds = server.wal.seconds.unwrap_or(0.0);
    if seconds < ENOUGH_SECONDS {
        return Err(Unknown::new(format!(
            "time since the statistics of WAL were reset: {}; {} are needed",
            words::time(seconds),
            words::time(ENOUGH_SECONDS)
        )));
    }
    let rate = server.wal.buffers_full as f64 / seconds;
    let buffers = read::bytes(server, "wal_buffers")?.unwrap_or(0);
    when(rate > BUFFERS_FULL, || {
        Found::new(format!(
            "wal_buffers of {} were full {} times, {rate:.1} per second",
            words::size(buffers),
            server.wal.buffers_full
        ))
        .set(server, "wal_buffers", words::setting_size(buffers * 4))
    })
}
