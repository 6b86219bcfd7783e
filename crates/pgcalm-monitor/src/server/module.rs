//! What pg_calm reports of itself: status, share.

use postgres::Error;

use crate::model::{Module, ShareMember, Unflushed};
use crate::server::facts::Facts;
use crate::server::session::{Columns, Session};

/// The schema of the module's views, or why there are none and what to do about it.
pub(super) fn schema(facts: &Facts) -> Result<&str, (&'static str, &'static str)> {
    match (&facts.module_schema, facts.module_loaded) {
        (Some(schema), true) => Ok(schema),
        (None, true) => Err((
            "pg_calm is loaded, but the database connected to has no views of it",
            "CREATE EXTENSION pg_calm in that database",
        )),
        (_, false) => Err((
            "pg_calm is not loaded",
            "shared_preload_libraries = 'pg_calm' and a restart; pg_calm.mode = shadow to look first",
        )),
    }
}

/// What pg_calm_status tells.
pub(super) struct Status {
    /// Most of it.
    pub module: Module,
    /// Pages written and not flushed.
    pub unflushed: Unflushed,
    /// Dirty shared buffers.
    pub dirty_buffers: u64,
}

/// pg_calm_status.
pub(super) fn ask_status(session: &mut Session, schema: &str, facts: &Facts) -> Result<Option<Status>, Error> {
    let sql = format!(
        "SELECT *, io_size::int8 AS io_bytes, nullif(current_setting('pg_calm.iops', true)::int8, 0) AS iops \
         FROM {schema}.pg_calm_status"
    );
    let Some(row) = session.row(&sql)? else { return Ok(None) };
    let count = |name| row.count(name).map(Option::unwrap_or_default);
    let module = Module {
        mode: row.text("mode")?.unwrap_or_default(),
        degraded: row.text("degraded")?,
        worker_running: row.try_get::<_, Option<i32>>("worker_pid")?.is_some(),
        write_operations_cap: row.count("write_iops")?,
        write_bytes_cap: row.count("write_bandwidth")?,
        operations_cap: row.count("iops")?,
        caps_source: row.text("caps_source")?,
        io_size_bytes: row.count("io_bytes")?,
        flushed_pages: count("flushed_pages")?,
        fsynced_pages: count("fsynced_pages")?,
        kernel_flushed_pages: count("kernel_flushed_pages")?,
        bridged_pages: count("bridged_pages")?,
        device_operations: count("device_operations")?,
        written_bytes: count("written_bytes")?,
        suppressed_hints: count("suppressed_hints")?,
        wal_flushes: count("wal_flushes")?,
        wal_flush_seconds: row.number("wal_flush_time")?.unwrap_or_default() / 1000.0,
        map_full: count("map_full")?,
        errors: count("errors")?,
        stop_seconds: row.number("stop_seconds")?,
        recovery_seconds: row.number("recovery_seconds")?,
        target_checkpoints: count("target_checkpoints")?,
        rates: None,
    };
    let unflushed = Unflushed {
        pages: count("unflushed_pages")?,
        in_flight_pages: count("in_flight_pages")?,
        page_bytes: facts.block_bytes,
    };
    Ok(Some(Status { module, unflushed, dirty_buffers: count("dirty_buffers")? }))
}

/// pg_calm_share.
pub(super) fn ask_share(session: &mut Session, schema: &str) -> Result<Vec<ShareMember>, Error> {
    let sql = format!("SELECT *, weight::int8 AS share FROM {schema}.pg_calm_share ORDER BY slot");
    session
        .rows(&sql)?
        .iter()
        .map(|row| {
            Ok(ShareMember {
                device: row.text("device")?.unwrap_or_default(),
                name: row.text("name")?.unwrap_or_default(),
                own: row.flag("own")?,
                weight: row.count("share")?.unwrap_or_default() as u32,
                wants: row.flag("wants")?,
                write_operations_per_second: row.count("write_iops")?,
                write_bytes_per_second: row.count("write_bandwidth")?,
                heartbeat_seconds: row.number("heartbeat_age")?.unwrap_or_default(),
            })
        })
        .collect()
}
