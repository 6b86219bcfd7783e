//! The result of a lab run, as data. Text, JSON and HTML are renderings of this one model.
//!
//! Units are in the field names: `_s` seconds, `_ms` milliseconds, `_mib` MiB (2^20 bytes), `_kib` KiB. Every
//! series has one entry per second of the measured window, index 0 being the first full second.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

/// One lab scenario with all its contestants: the document written by `pgcalm lab run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Name of the scenario, e.g. `checkpoint`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// In the order in which they were named; their runs were interleaved.
    pub contestants: Vec<Contestant>,
}

/// The machine that a report was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// `uname -r`.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// MemTotal of /proc/meminfo.
    pub memory_mib: u64,
    /// `postgres --version`, e.g. `PostgreSQL 15.20 (Debian ...)`.
    pub postgres: String,
    /// Version of pgcalm that made the report.
    pub pgcalm: String,
    /// Start of the run, RFC 3339, UTC.
    pub started_at: String,
    /// The vm.* sysctls in force during the run, by name.
    pub sysctls: BTreeMap<String, String>,
    /// How devices were capped: `cgroup-v1-root`, `cgroup-v1` (a group below the root), `cgroup-v2`, or `none`.
    pub cap_mechanism: String,
}

/// One way of running PostgreSQL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Contestant {
    /// `stock`, `stock-tuned`, `pg_calm`, or `stock-uncapped` (stock with the data volume's caps lifted: the WAL-bound reference).
    pub name: String,
    /// What sets it apart, in one sentence.
    pub description: String,
    /// The postgresql.conf settings in which it differs from `stock`.
    pub server_settings: BTreeMap<String, String>,
    /// One entry per repetition.
    pub runs: Vec<Run>,
}

/// One measured run of one contestant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Transactions per second, mean over the window.
    pub tps_mean: f64,
    /// Median of the per-second TPS.
    pub tps_median: f64,
    /// Worst second.
    pub tps_min: f64,
    /// 5th percentile of the per-second TPS.
    pub tps_p5: f64,
    /// Seconds whose TPS is below half of `tps_median`.
    pub seconds_below_half_median: u32,
    /// Seconds in which no transaction ended.
    pub seconds_zero: u32,
    /// Who counted the transactions.
    #[serde(default)]
    pub transactions_from: TransactionSource,
    /// Transaction latency over all transactions of the run; absent where the server counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// What is known of latency where the server counted transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_server_ms: Option<ServerLatency>,
    /// Write operations per second that the data device completed, as its cap counts them.
    pub device_write_ops_per_s: f64,
    /// MiB per second written to the data device.
    pub device_write_mib_per_s: f64,
    /// Checkpoints completed in the window, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// How long, in seconds, a checkpoint had been running that was not complete at the end of the window, or of the
    /// server; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_under_way_s: Option<f64>,
    /// Absent if the server was there to the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_failure: Option<ServerFailure>,
    /// Per-second samples.
    pub series: Series,
    /// `pg_calm_status` at the end of the run; empty for contestants without the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module_status: BTreeMap<String, serde_json::Value>,
    /// Processes seen in uninterruptible sleep, most often seen first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Blocked>,
}

/// The end of a server whose WAL had no more room on its disk. The rest of the window has no transactions, and counts in
/// all figures of TPS; operations and MiB per second of the data device are means up to the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerFailure {
    /// Second of the window in which it ended.
    pub at_s: f64,
    /// The server's words: the text of its PANIC message.
    pub message: String,
}

/// Where the number of transactions and their latency come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TransactionSource {
    /// From pgbench's log of each transaction.
    #[default]
    Pgbench,
    /// From the server, as the load does not tell: transactions that wrote, by the transaction ids that were taken.
    Server,
}

/// Latency in milliseconds as it is seen from the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerLatency {
    /// Mean by Little's law: transactions under way over transactions per second, those that only read included.
    pub mean: f64,
    /// The longest time that a transaction was seen under way, in ten looks per second.
    pub oldest: f64,
}

/// Latency of transactions in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Slowest transaction.
    pub max: f64,
}

/// One `checkpoint complete` line of the server log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// Second of the window in which the checkpoint started; negative if before the window.
    pub start_s: f64,
    /// Second of the window in which it was complete.
    pub end_s: f64,
    /// Why it was started, as the server says, e.g. `time` or `wal`.
    pub reason: String,
    /// Buffers written.
    pub buffers: u64,
    /// Duration of the write phase.
    pub write_s: f64,
    /// Duration of the sync phase.
    pub sync_s: f64,
    /// Whole duration.
    pub total_s: f64,
    /// Files synced.
    pub sync_files: u32,
    /// Slowest fsync of a file.
    pub longest_sync_s: f64,
}

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
    /// Write operations completed by the data device.
    pub data_write_ops: Vec<f64>,
    /// MiB written to the data device.
    pub data_write_mib: Vec<f64>,
    /// Read operations completed by the data device.
    pub data_read_ops: Vec<f64>,
    /// Write operations completed by the WAL device.
    pub wal_write_ops: Vec<f64>,
    /// MiB written to the WAL device.
    pub wal_write_mib: Vec<f64>,
    /// Share of the host's CPU time in which its CPUs were busy; empty in reports of versions that did not record it.
    #[serde(default)]
    pub cpu_busy_percent: Vec<f64>,
    /// Share of the host's CPU time that the hypervisor withheld (steal); likewise.
    #[serde(default)]
    pub cpu_steal_percent: Vec<f64>,
    /// Processes of the cluster in uninterruptible sleep (state D).
    pub blocked_processes: Vec<u32>,
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
