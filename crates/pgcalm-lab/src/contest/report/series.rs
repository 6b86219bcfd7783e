//! What was sampled each second of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::DeviceRates;

/// Samples taken once per second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Series {
    /// Transactions ended in this second.
    pub tps: Vec<f64>,
    /// Median latency of the transactions ended in this second; null if none ended, or where the server counted them.
    pub latency_p50_ms: Vec<Option<f64>>,
    /// 99th percentile, likewise.
    pub latency_p99_ms: Vec<Option<f64>>,
    /// Slowest, likewise.
    pub latency_max_ms: Vec<Option<f64>>,
    /// Dirty of /proc/meminfo (whole host; inflated by large folios).
    pub dirty_mib: Vec<f64>,
    /// Writeback of /proc/meminfo (whole host).
    pub writeback_mib: Vec<f64>,
    /// Write operations completed by the data device, as its statistics count them: with empty flushes, see
    /// [`DeviceRates`].
    pub data_write_ops: Vec<f64>,
    /// MiB written to the data device.
    pub data_write_mib: Vec<f64>,
    /// Read operations completed by the data device.
    pub data_read_ops: Vec<f64>,
    /// MiB read from the data device; empty in reports of versions that did not record it.
    #[serde(default)]
    pub data_read_mib: Vec<f64>,
    /// Flushes completed by the data device; likewise, and where the kernel does not count them.
    #[serde(default)]
    pub data_flush_ops: Vec<f64>,
    /// Write operations completed by the WAL device, with empty flushes. Where data and WAL lie on one volume, its figures
    /// are those of the data device and all series of the WAL device are empty.
    pub wal_write_ops: Vec<f64>,
    /// MiB written to the WAL device.
    pub wal_write_mib: Vec<f64>,
    /// Read operations completed by the WAL device; empty in reports of versions that did not record it.
    #[serde(default)]
    pub wal_read_ops: Vec<f64>,
    /// MiB read from the WAL device; likewise.
    #[serde(default)]
    pub wal_read_mib: Vec<f64>,
    /// Flushes completed by the WAL device; likewise, and where the kernel does not count them.
    #[serde(default)]
    pub wal_flush_ops: Vec<f64>,
    /// Share of the host's CPU time in which its CPUs were busy; empty in reports of versions that did not record it.
    #[serde(default)]
    pub cpu_busy_percent: Vec<f64>,
    /// Share of the host's CPU time that the hypervisor withheld (steal); likewise.
    #[serde(default)]
    pub cpu_steal_percent: Vec<f64>,
    /// Milliseconds for which the machine held up answers of an emulated volume, counted when they were given at last; empty where
    /// there is none, and in reports of versions that did not record it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_held_up_ms: Vec<f64>,
    /// Processes of the cluster in uninterruptible sleep (state D).
    pub blocked_processes: Vec<u32>,
    /// Requests that the data device was at work on: mean of looks in this second; empty in reports of versions that did not
    /// record it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_in_flight_mean: Vec<f64>,
    /// The most that were seen in one of these looks; likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_in_flight_max: Vec<f64>,
    /// Mean of requests in flight on the WAL device; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wal_in_flight_mean: Vec<f64>,
    /// The most that were seen in flight on the WAL device; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wal_in_flight_max: Vec<f64>,
    /// What the server told of itself.
    #[serde(default, skip_serializing_if = "ServerSeries::is_empty")]
    pub server: ServerSeries,
}

/// What the server told of itself, asked once a second. An entry is null where it did not answer within the second, or can't
/// know; what it counted meanwhile is in the next one.
///
/// Sessions report to the statistics (`buffers_*`, `wal_writes`, `wal_syncs`, `wal_full_page_images`) at the end of a transaction and
/// about once a second, so that these are off by some of a second. `wal_mib` is by the position in WAL, which is exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerSeries {
    /// Buffers that the checkpointer wrote.
    #[serde(default)]
    pub buffers_checkpointer: Vec<Option<f64>>,
    /// Buffers that the background writer wrote.
    #[serde(default)]
    pub buffers_bgwriter: Vec<Option<f64>>,
    /// Buffers that backends wrote themselves, new pages of tables included.
    #[serde(default)]
    pub buffers_backend: Vec<Option<f64>>,
    /// MiB of WAL inserted.
    #[serde(default)]
    pub wal_mib: Vec<Option<f64>>,
    /// Writes of WAL.
    #[serde(default)]
    pub wal_writes: Vec<Option<f64>>,
    /// Flushes of WAL.
    #[serde(default)]
    pub wal_syncs: Vec<Option<f64>>,
    /// Full-page images in WAL.
    #[serde(default)]
    pub wal_full_page_images: Vec<Option<f64>>,
    /// What the checkpointer waited for at the end of the second, as pg_stat_activity names it, e.g. `CheckpointWriteDelay`,
    /// `DataFileSync`; `Extension` (from PostgreSQL 17 on `PgCalmDrain`) is pg_calm's drain. Null where it did not wait for anything,
    /// too.
    #[serde(default)]
    pub checkpointer_wait: Vec<Option<String>>,
    /// Sessions in a transaction at the end of the second, by what they waited for; `none` is at work.
    #[serde(default)]
    pub client_waits: Vec<Option<BTreeMap<String, u32>>>,
    /// The numbers of `pg_calm_status` at the end of the second, by column, as it has them: limits and pages in a state at present are
    /// levels, all others count from the start of the server. Then those of `pg_calm_guard`, as `guard_INPUT_COLUMN`, of the
    /// inputs that are not off. Empty without the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module: BTreeMap<String, Vec<Option<f64>>>,
}

impl ServerSeries {
    fn is_empty(&self) -> bool {
        self.checkpointer_wait.is_empty()
    }
}

/// Whether a number of the module is a level; it counts from the start of the server otherwise.
pub fn is_module_gauge(column: &str) -> bool {
    const LEVELS: [&str; 7] = [
        "bridged_gap",
        "device_given",
        "dirty_buffers",
        "recovery_seconds",
        "replay_rate",
        "stop_seconds",
        "worker_pid",
    ];
    // Limits, and pages that are in a state at present.
    LEVELS.contains(&column)
        || column.starts_with("held_")
        || column.starts_with("unflushed_")
        || column.starts_with("in_flight_")
        || column == "io_size"
        || column.starts_with("guard_")
            && !["_holds", "_held_time", "_releases"].iter().any(|counter| column.ends_with(counter))
        || column.ends_with("iops")
        || column.ends_with("bandwidth")
}

/// A process of the cluster seen in uninterruptible sleep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Blocked {
    /// What it is, from its command line, e.g. `checkpointer` or `client backend`.
    pub process: String,
    /// Innermost kernel functions from /proc/PID/stack, top first; empty where it can't be read.
    pub stack: Vec<String>,
    /// Number of samples in which it was seen there.
    pub samples: u32,
}
