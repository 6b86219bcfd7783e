//! pg_calm itself, where it is loaded.

use crate::facts::{Facts, PgCalm};
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::read;
use crate::words;

pub(super) fn degraded(facts: &Facts) -> Answer {
    let Some(calm) = with_views(facts)? else { return Ok(None) };
    Ok(calm.degraded.as_ref().map(|why| {
        STATES
            .iter()
            .filter(|(words, _)| why.contains(words))
            .fold(Found::new(format!("pg_calm_status: mode {}, degraded: {why}", calm.mode)), |found, (_, cure)| {
                found.and(*cure)
            })
            .run("SELECT mode, degraded, caps_source FROM pg_calm_status;")
    }))
}

/// The module's words for a state, and the way out of it.
const STATES: [(&str, &str); 8] = [
    (
        "no cap of the data directory's device is known",
        "set pg_calm.write_iops and pg_calm.write_bandwidth to what the volume allows, or iops and bandwidth if it counts \
         reads as well; without a cap stock flushes as well as pg_calm could",
    ),
    (
        "files on other devices than the data directory's",
        "nothing is wrong with them: only files on the data directory's device are cared for",
    ),
    (
        "the writeback worker does not respond",
        "see what it hangs in: cat /proc/PID/status /proc/PID/stack, PID from pg_calm_status.worker_pid; until it goes on the \
         server flushes as without pg_calm",
    ),
    (
        "the writeback worker is not running",
        "the server's log says why it ended; it is started again after 5 s, if max_worker_processes has a place for it",
    ),
    ("pg_calm.page_map_memory is too small", "double pg_calm.page_map_memory (restart)"),
    (
        "the device gives less than pg_calm.iops and pg_calm.bandwidth say",
        "set them to what the volume allows now: pg_calm keeps to what it sees, but has to try again and again whether there is more",
    ),
    (
        "circuit breaker: ",
        "pg_calm found that what it does makes commits slower or has far more written, and lets go of it; it tries again less and \
         less often. Compare pg_calm.iops, bandwidth and io_size with what the volume allows, and see who else writes to it",
    ),
    (
        "the device's budget is not shared",
        "each instance takes the volume for its own until that is mended: pg_calm_share.directory",
    ),
];

pub(super) fn map_full(facts: &Facts) -> Answer {
    let Some(calm) = with_views(facts)? else { return Ok(None) };
    let server = read::server(facts)?;
    let memory = read::bytes(server, "pg_calm.page_map_memory")?.unwrap_or(0);
    when(calm.map_full > 0, || {
        Found::new(format!(
            "writes that found no room in the map since the server started: {}; pg_calm.page_map_memory is {}",
            calm.map_full,
            words::size(memory)
        ))
        .set(server, "pg_calm.page_map_memory", words::setting_size(memory * 2))
    })
}

fn with_views(facts: &Facts) -> Result<Option<&PgCalm>, Unknown> {
    match &read::server(facts)?.pg_calm {
        Some(calm) if !calm.has_views => {
            Err("pg_calm's views are not in the database of the connection: CREATE EXTENSION pg_calm".into())
        }
        calm => Ok(calm.as_ref()),
    }
}
