//! What the module in shadow mode tells.

use anyhow::Context;
use pgcalm_report::predict::Shadow;
use postgres::Client;

use crate::PredictError;
use crate::observe::growth::Growth;

/// Blocks of a region.
const REGION_BLOCKS: i32 = 1024;

/// The caps that the module has found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModuleCaps {
    pub write_iops: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    pub operation_bytes: Option<u64>,
    pub source: String,
}

/// The module's caps, if it is loaded and tracks pages; an error if it is at work already.
pub(super) fn is_there(client: &mut Client) -> anyhow::Result<Option<ModuleCaps>> {
    let mode: Option<String> = client
        .query_one("select current_setting('pg_calm.mode', true)", &[])
        .context("read pg_calm.mode")?
        .get(0);
    // A setting of that name can be made up in a session; what it stands for here is that of the server's start.
    let loaded: bool = client
        .query_one(
            "select exists (select from pg_settings where name = 'pg_calm.mode')",
            &[],
        )?
        .get(0);
    match mode.as_deref().filter(|_| loaded) {
        None | Some("off" | "") => return Ok(None),
        Some("on") => {
            return Err(PredictError::Host(
                "pg_calm.mode is on, so there is nothing to predict: pg_calm_status tells what it does; set it to shadow to \
                 see what stock does"
                    .to_string(),
            )
            .into());
        }
        Some(_) => {}
    }
    let schema = schema(client)?;
    let row = client
        .query_one(
            &format!(
                "select write_iops::float8, write_bandwidth::float8, io_size::int8, caps_source, worker_pid is null
                 from {schema}.pg_calm_status"
            ),
            &[],
        )
        .context("read pg_calm_status")?;
    if row.get(4) {
        return Err(PredictError::Host(
            "pg_calm's writeback worker is not running, so pages are not tracked as they would be: see the server's log"
                .to_string(),
        )
        .into());
    }
    Ok(Some(ModuleCaps {
        write_iops: row.get(0),
        write_bytes_per_s: row.get(1),
        operation_bytes: row
            .get::<_, Option<i64>>(2)
            .and_then(|bytes| u64::try_from(bytes).ok()),
        source: row.get::<_, Option<String>>(3).unwrap_or_default(),
    }))
}

/// Where the module's views are, ready for SQL: the sessions look for names in pg_catalog only.
fn schema(client: &mut Client) -> anyhow::Result<String> {
    let row = client
        .query_opt(
            "select quote_ident(nspname) from pg_extension join pg_namespace n on n.oid = extnamespace
             where extname = 'pg_calm'",
            &[],
        )
        .context("look for the extension pg_calm")?;
    row.map(|row| row.get(0)).ok_or_else(|| {
        PredictError::Host(
            "pg_calm is loaded, but its views are not in this database: run CREATE EXTENSION pg_calm, or name the database \
             where it is in --connect"
                .to_string(),
        )
        .into()
    })
}

/// Looks at all regions.
pub(super) fn sample(client: &mut Client, growth: &mut Growth) -> anyhow::Result<()> {
    let schema = schema(client)?;
    let rows = client
        .query(
            &format!(
                "select path, first_block, unflushed_pages_old + unflushed_pages_new, coalesce(age_seconds, 0)
                 from {schema}.pg_calm_regions where not whole"
            ),
            &[],
        )
        .context("read pg_calm_regions")?;
    for row in rows {
        let first_block: i32 = row.get(1);
        let pages: i32 = row.get(2);
        growth.look(
            row.get(0),
            u64::from((first_block / REGION_BLOCKS).unsigned_abs()),
            f64::from(pages),
            row.get(3),
        );
    }
    Ok(())
}

/// Checkpoints whose pages are averaged.
const CHECKPOINTS: i64 = 5;

/// Pages that a checkpoint writes: in the mean of the last ones that nobody asked for, or if there was none, what the one
/// under way has to write. None if there was none at all.
pub(super) fn checkpoint_pages(client: &mut Client, loaded: bool) -> anyhow::Result<Option<f64>> {
    if !loaded {
        return Ok(None);
    }
    let schema = schema(client)?;
    let row = client
        .query_one(
            &format!(
                "select coalesce(
                   (select avg(buffers_written) from
                     (select buffers_written from {schema}.pg_calm_checkpoints
                      where status = 'complete' and reason in ('time', 'wal')
                      order by id desc limit $1) last),
                   (select max(buffers_dirty) from {schema}.pg_calm_checkpoints where status = 'running'))::float8"
            ),
            &[&CHECKPOINTS],
        )
        .context("read pg_calm_checkpoints")?;
    Ok(row.get(0))
}

/// Counters of what would have been written, since the server started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShadowCounters {
    device_operations: f64,
    written_bytes: f64,
    flushed_pages: f64,
}

/// Reads them, if the module is there.
pub(super) fn counters(
    client: &mut Client,
    loaded: bool,
) -> anyhow::Result<Option<ShadowCounters>> {
    if !loaded {
        return Ok(None);
    }
    let schema = schema(client)?;
    let row = client
        .query_one(
            &format!(
                "select device_operations::float8, written_bytes::float8,
                        (flushed_pages + fsynced_pages + handed_pages)::float8
                 from {schema}.pg_calm_status"
            ),
            &[],
        )
        .context("read pg_calm_status")?;
    Ok(Some(ShadowCounters {
        device_operations: row.get(0),
        written_bytes: row.get(1),
        flushed_pages: row.get(2),
    }))
}

impl ShadowCounters {
    pub fn since(&self, earlier: &Self, seconds: f64) -> Shadow {
        Shadow {
            device_operations_per_s: (self.device_operations - earlier.device_operations) / seconds,
            mib_per_s: (self.written_bytes - earlier.written_bytes) / f64::from(1 << 20) / seconds,
            flushed_pages_per_s: (self.flushed_pages - earlier.flushed_pages) / seconds,
        }
    }
}
