//! How long a stop and a start take, and who waits for them.

use crate::facts::{Facts, Grace};
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::read;
use crate::{estimate, words};

/// So many files take seconds to open and sync one by one.
pub(crate) const MANY_FILES: u64 = 10_000;
/// Part of a group's memory limit from which it counts as full, and of that, page cache.
const FULL: f64 = 0.9;
const CACHE: f64 = 0.5;

/// A fast stop takes longer than whoever asks for it waits.
pub(crate) fn longer_than_grace(facts: &Facts) -> Answer {
    let grace = grace(facts)?;
    let Some(patience) = grace.stop_seconds else { return Ok(None) };
    let (seconds, basis) = estimate::stop(facts)?;
    when(seconds > patience, || {
        Found::new(format!(
            "a fast stop would take {} now ({}); the server is killed after {} ({})",
            words::time(seconds),
            basis.name(),
            words::time(patience),
            grace.source
        ))
        .run(format!("pgcalm ready-to-stop --within {}s", (patience / 2.0).floor().max(1.0)))
    })
}

/// Recovery takes longer than whoever starts the server waits.
pub(crate) fn recovery_longer_than_start(facts: &Facts) -> Answer {
    let grace = grace(facts)?;
    let Some(patience) = grace.start_seconds else { return Ok(None) };
    let server = read::server(facts)?;
    let max = read::bytes(server, "max_wal_size")?.unwrap_or(0);
    let [least, most] = estimate::recovery(facts, max);
    let known = least == most;
    when(least > patience, || {
        Found::new(format!(
            "recovery of max_wal_size of {} takes {}; the server is killed if it has not started after {} ({})",
            words::size(max),
            if known { words::time(most) } else { format!("{} to {}", words::time(least), words::time(most)) },
            words::time(patience),
            grace.source
        ))
    })
}

/// Before recovery every file is opened and synced, one after the other.
pub(crate) fn init_sync_method(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if read::text(server, "recovery_init_sync_method")? != "fsync" {
        return Ok(None);
    }
    let Some(files) = read::host(facts)?.data_files else {
        return Err("the server's files could not be counted: run it on the server's host, as root".into());
    };
    when(files > MANY_FILES, || {
        Found::new(format!("recovery_init_sync_method = fsync, and the databases have over {MANY_FILES} files")).set(
            server,
            "recovery_init_sync_method",
            "syncfs",
        )
    })
}

/// A group looks full that is not.
pub(crate) fn cache_counted(facts: &Facts) -> Answer {
    read::instance(facts)?;
    let host = read::host(facts)?;
    let Some(limit) = host.memory_limit.as_ref().map_err(Clone::clone)? else { return Ok(None) };
    let Some(used) = &host.memory_use else {
        return Err(Unknown::new(format!("what is used of {} could not be read", limit.file)));
    };
    let full = used.bytes as f64 >= limit.bytes as f64 * FULL;
    when(full && used.cache_bytes as f64 >= used.bytes as f64 * CACHE, || {
        Found::new(format!(
            "{} of {} are used ({}); {} of that are page cache, which the kernel gives up when memory is needed",
            words::size(used.bytes),
            words::size(limit.bytes),
            limit.file,
            words::size(used.cache_bytes)
        ))
    })
}

fn grace(facts: &Facts) -> Result<&Grace, Unknown> {
    read::instance(facts)?;
    let grace = read::host(facts)?.grace.as_ref();
    grace.ok_or_else(|| {
        "how long the server may take is told neither by a unit of systemd nor by Docker: compare it yourself".into()
    })
}
