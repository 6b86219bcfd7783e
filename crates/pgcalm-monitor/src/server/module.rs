//! What pg_calm reports of itself: status, histograms, share of the device, flushes of WAL.

use postgres::Error;

use crate::model::IoBucket;
use crate::model::IoHistogram;
use crate::model::Module;
use crate::model::ShareMember;
use crate::model::Unflushed;
use crate::model::WalFlushes;
use crate::server::facts::Facts;
use crate::server::session::Columns;
use crate::server::session::Session;

/// The schema of the module's views, or why there are none and what to do about it.
pub fn schema(facts: &Facts) -> Result<&str, (&'static str, &'static str)> {
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

/// pg_calm_status.
pub fn ask_status(session: &mut Session, schema: &str, facts: &Facts) -> Result<Option<(Module, Unflushed)>, Error> {
    let sql = format!("SELECT *, io_size::int8 AS io_bytes FROM {schema}.pg_calm_status");
    let Some(row) = session.row(&sql)? else {
        return Ok(None);
    };
    let count = |name| row.count(name).map(Option::unwrap_or_default);
    let module = Module {
        mode: row.text("mode")?.unwrap_or_default(),
        degraded: row.text("degraded")?,
        worker_running: row.try_get::<_, Option<i32>>("worker_pid")?.is_some(),
        write_operations_cap: row.count("write_iops")?,
        write_bytes_cap: row.count("write_bandwidth")?,
        caps_source: row.text("caps_source")?,
        io_size_bytes: row.count("io_bytes")?,
        flushed_pages: count("flushed_pages")?,
        fsynced_pages: count("fsynced_pages")?,
        handed_pages: count("handed_pages")?,
        kernel_flushed_pages: count("kernel_flushed_pages")?,
        bridged_pages: count("bridged_pages")?,
        device_operations: count("device_operations")?,
        written_bytes: count("written_bytes")?,
        suppressed_hints: count("suppressed_hints")?,
        full_regions: count("full_regions")?,
        full_files: count("full_files")?,
        errors: count("errors")?,
        rates: None,
    };
    let unflushed = Unflushed {
        old_pages: count("unflushed_pages_old")?,
        new_pages: count("unflushed_pages_new")?,
        in_flight_pages: count("in_flight_pages")?,
        page_bytes: facts.block_bytes,
    };
    Ok(Some((module, unflushed)))
}

/// pg_calm_io_histogram since the server started.
pub fn ask_io(session: &mut Session, schema: &str) -> Result<Vec<IoHistogram>, Error> {
    let sql = format!(
        "SELECT operation, backend_type, sampled_every::int8 AS sampled_every, \
         upper_bound::float8 / 1e6 AS upper_bound, count FROM {schema}.pg_calm_io_histogram \
         WHERE scope = 'server' ORDER BY operation, backend_type, lower_bound"
    );
    let mut histograms: Vec<IoHistogram> = Vec::new();
    for row in session.rows(&sql)? {
        let operation = row.text("operation")?.unwrap_or_default();
        let backend_type = row.text("backend_type")?.unwrap_or_default();
        let bucket = IoBucket {
            upper_bound_seconds: row.number("upper_bound")?,
            count: row.count("count")?.unwrap_or_default(),
        };
        match histograms.last_mut() {
            Some(last) if last.operation == operation && last.backend_type == backend_type => {
                last.buckets.push(bucket);
            }
            _ => histograms.push(IoHistogram {
                operation,
                backend_type,
                sampled_every: row.count("sampled_every")?.unwrap_or(1) as u32,
                buckets: vec![bucket],
            }),
        }
    }
    Ok(histograms)
}

/// pg_calm_share.
pub fn ask_share(session: &mut Session, schema: &str) -> Result<Vec<ShareMember>, Error> {
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

/// pg_calm_wal.
pub fn ask_wal(session: &mut Session, schema: &str) -> Result<Option<WalFlushes>, Error> {
    let sql = format!(
        "SELECT *, delay::float8 / 1e6 AS delay_seconds, proposed_delay::float8 / 1e6 AS proposed_seconds, \
         wait_time / 1e3 AS wait_seconds FROM {schema}.pg_calm_wal"
    );
    let Some(row) = session.row(&sql)? else {
        return Ok(None);
    };
    let count = |name| row.count(name).map(Option::unwrap_or_default);
    Ok(Some(WalFlushes {
        state: row.text("state")?.unwrap_or_default(),
        delay_seconds: row.number("delay_seconds")?.unwrap_or_default(),
        proposed_delay_seconds: row.number("proposed_seconds")?,
        commits_per_flush: row.number("commits_per_flush")?,
        flushes_per_second: row.number("flushes_per_second")?,
        flushes: count("flushes")?,
        waits: count("waits")?,
        wait_seconds: row.number("wait_seconds")?.unwrap_or_default(),
        saved: count("operations_saved")?,
    }))
}
