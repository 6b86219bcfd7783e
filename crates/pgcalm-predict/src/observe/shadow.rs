//! What the module in shadow mode tells.

use anyhow::Context;
use pgcalm_postgres::{Client, Settings, module_schema};

use crate::report::Counted;
use pgcalm_host::Failure;

/// The caps that the module has found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModuleCaps {
    pub write_iops: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    pub all_iops: Option<f64>,
    pub all_bytes_per_s: Option<f64>,
    pub source: String,
}

/// The module's caps, if it is loaded and tracks pages; an error if it is at work already.
pub(super) fn is_there(client: &mut Client, settings: &Settings) -> anyhow::Result<Option<ModuleCaps>> {
    match settings.text("pg_calm.mode") {
        None | Some("off") => return Ok(None),
        Some("on") => {
            anyhow::bail!(Failure::Host(
                "pg_calm.mode is on, so there is nothing to predict: pg_calm_status tells what it does; set it to shadow to \
                 see what stock does"
                    .to_string(),
            ));
        }
        Some(_) => {}
    }
    let schema = schema(client)?;
    let row = client
        .query_one(
            &format!(
                "select write_iops::float8, write_bandwidth::float8, caps_source, worker_pid is null
                 from {schema}.pg_calm_status"
            ),
            &[],
        )
        .context("read pg_calm_status")?;
    if row.get(3) {
        anyhow::bail!(Failure::Host(
            "pg_calm's writeback worker is not running, so pages are not tracked as they would be: see the server's log"
                .to_string(),
        ));
    }
    let given = |name| settings.number(name).filter(|cap| *cap > 0.0);
    Ok(Some(ModuleCaps {
        write_iops: row.get(0),
        write_bytes_per_s: row.get(1),
        all_iops: given("pg_calm.iops"),
        all_bytes_per_s: given("pg_calm.bandwidth"),
        source: row.get::<_, Option<String>>(2).unwrap_or_default(),
    }))
}

/// Where the module's views are.
fn schema(client: &mut Client) -> anyhow::Result<String> {
    let schema = module_schema(client).context("look for the extension pg_calm")?;
    schema.ok_or_else(|| {
        Failure::Host(
            "pg_calm is loaded, but its views are not in this database: run CREATE EXTENSION pg_calm, or name the database \
             where it is in --connect"
                .to_string(),
        )
        .into()
    })
}

/// Counters of what was written, or would have been, since the server started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModuleCounters {
    device_operations: f64,
    written_bytes: f64,
    flushed_pages: f64,
    fsynced_pages: f64,
    kernel_flushed_pages: f64,
    bridged_pages: f64,
}

impl ModuleCounters {
    /// Reads `pg_calm_status`; an error if the extension is not in the database.
    pub fn read(client: &mut Client) -> anyhow::Result<Self> {
        let schema = schema(client)?;
        let row = client
            .query_one(
                &format!(
                    "select device_operations::float8, written_bytes::float8, flushed_pages::float8, fsynced_pages::float8,
                            kernel_flushed_pages::float8, bridged_pages::float8
                     from {schema}.pg_calm_status"
                ),
                &[],
            )
            .context("read pg_calm_status")?;
        Ok(Self {
            device_operations: row.get(0),
            written_bytes: row.get(1),
            flushed_pages: row.get(2),
            fsynced_pages: row.get(3),
            kernel_flushed_pages: row.get(4),
            bridged_pages: row.get(5),
        })
    }

    /// What was added since `earlier`, per second.
    pub fn since(&self, earlier: &Self, seconds: f64) -> Counted {
        let rate = |counter: fn(&Self) -> f64| (counter(self) - counter(earlier)) / seconds;
        Counted {
            device_operations_per_s: rate(|now| now.device_operations),
            mib_per_s: rate(|now| now.written_bytes) / f64::from(1 << 20),
            flushed_pages_per_s: rate(|now| now.flushed_pages + now.fsynced_pages),
            fsynced_pages_per_s: rate(|now| now.fsynced_pages),
            kernel_flushed_pages_per_s: rate(|now| now.kernel_flushed_pages),
            bridged_pages_per_s: rate(|now| now.bridged_pages),
        }
    }
}
