//! Contestants under load, as data: the document of `pgcalm lab run checkpoint --json`. Text, JSON and HTML are renderings of this one
//! model. A figure that more than one rendering shows is computed once ([`metric`], [`reading`]), so that text and HTML cannot
//! disagree.
//!
//! Units are in the field names, as in [`report`](crate::report). Every series has one entry per second of the measured window,
//! index 0 being the first full second.

mod cached;
pub mod chart;
pub mod checkpoint_start;
pub(crate) mod conditions;
mod device_rates;
mod glossary;
pub mod metric;
pub mod reading;
pub mod seconds;
mod series;
mod steadiness;
pub(crate) mod tables;
mod troubles;
pub(crate) mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::{Host, Latency};

pub use series::{Blocked, Series, ServerSeries, is_module_gauge};
pub use steadiness::{DirtyAt, Steadiness};

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
    /// How the devices were capped, in words. Reports of versions that did not record it get it from
    /// [`Host::cap_mechanism`] when they are read.
    #[serde(default)]
    pub cap: Cap,
    /// In the order in which they were named; their runs were interleaved.
    pub contestants: Vec<Contestant>,
}

/// What kept the devices from being as fast as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cap {
    /// The way of capping.
    pub kind: CapKind,
    /// One line, e.g. `one emulated gp3: reads and writes share 3000 operations of 256 KiB and 125 MiB per second`.
    pub description: String,
    /// How memory was limited, in one line; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// Ways of capping a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    /// A volume that behaves like a cloud's: a bounded queue, reads and writes share operations and bandwidth.
    CloudVolume,
    /// Limits of a control group: an unbounded queue, of writes unless something else is said.
    ControlGroup,
    /// Not at all.
    #[default]
    None,
}

impl Cap {
    /// What [`Host::cap_mechanism`] tells of runs whose caps were limits of control groups.
    pub fn of_mechanism(mechanism: &str) -> Self {
        let (kind, description) = match mechanism {
            "cgroup-v1-root" => (CapKind::ControlGroup, "writes capped by the root control group".to_string()),
            "cgroup-v1" | "cgroup-v2" => {
                (CapKind::ControlGroup, "writes capped by a control group below the root".to_string())
            }
            "none" | "" => (CapKind::None, "no caps".to_string()),
            other => (CapKind::ControlGroup, format!("writes capped by {other}")),
        };
        Self { kind, description, memory: None }
    }
}

impl Run {
    /// Fills what older files lack of a run.
    pub(crate) fn complete(&mut self) {
        if self.data_device == DeviceRates::default() {
            let seconds = match &self.server_failure {
                Some(failure) => (failure.at_s.max(1.0)) as usize,
                None => usize::MAX,
            };
            self.data_device = self.series.data_device(seconds);
            self.wal_device = self.series.wal_device(seconds);
        }
    }
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
    /// Runs that were made again, and are not among `runs`, since the machine held up the emulated volume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_up_runs: u32,
    /// One entry per repetition.
    pub runs: Vec<Run>,
}

impl Contestant {
    /// Why one of its runs is not steady; `None` if all are, or nobody asked.
    pub fn objection(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.steadiness.as_ref()?.objection.as_deref())
    }

    /// A trouble that failed in one of its runs, which was not what was to be seen then; `None` if none did. What fails with
    /// its server, which died, is no other run for that.
    pub fn failed_trouble(&self) -> Option<&TroubleRun> {
        let lived = self.runs.iter().filter(|run| run.server_failure.is_none());
        lived.flat_map(|run| &run.troubles).find(|trouble| trouble.failure.is_some())
    }

    /// Checkpoints that ended in the measured time, in the run with the fewest.
    pub fn checkpoints(&self) -> u32 {
        let of_runs = self.runs.iter().map(|run| run.checkpoints.len());
        of_runs.min().unwrap_or_default() as u32
    }
}

pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
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
    /// Whether clients were still held up beyond their time, so that the caps were lifted for them to end: the longest transaction
    /// is at least as long as is told. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub caps_lifted: bool,
    /// How the load kept to its rate; absent where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_ms: Option<Pace>,
    /// What the data device completed; WAL and data where they lie on one volume. Reports of versions that did not record
    /// it get it from [`series`](Run::series) when they are read.
    #[serde(default)]
    pub data_device: DeviceRates,
    /// What the WAL device completed; absent where data and WAL lie on one volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_device: Option<DeviceRates>,
    /// Seconds in which an answer of an emulated volume was overdue by more than 20 ms, at least; of two volumes their sum. The
    /// machine held it up, by its own disk or CPUs, and no contestant is to blame. Absent where no volume is emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_held_up_s: Option<f64>,
    /// Share of the reads and writes of emulated volumes whose answers were late by more than 0.2 ms, 0 to 1: how much slower than
    /// was asked for the volume was, by the machine's disk or CPUs. Absent where no volume is emulated, and in reports of
    /// versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_late_share: Option<f64>,
    /// What had been put off when the load ended; absent where it was not measured, where the server gave up, and with
    /// --steady.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Whether the run, with --steady, had become steady; absent without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
    /// The server's calls of fsync, measured from outside its log; absent where they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync: Option<FsyncTimes>,
    /// Checkpoints completed in the window, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// How long, in seconds, a checkpoint had been running that was not complete at the end of the window, or of the
    /// server; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_under_way_s: Option<f64>,
    /// Trouble that was asked for, in its order; may be absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<TroubleRun>,
    /// The page cache of the tables after set-up; absent where it was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_at_start: Option<Cached>,
    /// The same when the load had ended; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_at_end: Option<Cached>,
    /// Absent if the server was there to the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_failure: Option<ServerFailure>,
    /// The least that was free on the file system with WAL under load, looked at four times a second; absent where it was not
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_free_min_mib: Option<f64>,
    /// Per-second samples.
    pub series: Series,
    /// `pg_calm_status` at the end of the run; empty for contestants without the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module_status: BTreeMap<String, serde_json::Value>,
    /// Processes seen in uninterruptible sleep, most often seen first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Blocked>,
}

/// What a device completed per second, means over the window (up to the server's end where it gave up).
///
/// The kernel's statistics (Documentation/block/stat.rst) count an empty flush request, which is what a flush of a file
/// without its own journal commit sends, as a write of zero bytes (block/blk-mq.c `blk_account_io_done`), and so do the
/// limits of control groups. They count flushes apart, too, but as the device gets them: requests that wait for a flush
/// at the same time share one, and a write that has to be flushed before or after itself (a journal's commit record)
/// takes one or two without being empty (block/blk-flush.c). So `write_ops_per_s` = writes counted - flushes counted is
/// exact only where no flush was shared and none belonged to a write with data: shared ones leave empty requests in it,
/// those of writes with data are taken off too much. A device without a volatile write cache gets no flush at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceRates {
    /// Reads.
    pub read_ops_per_s: f64,
    /// MiB read; 0 in reports of versions that did not record it.
    pub read_mib_per_s: f64,
    /// Writes without empty flushes, as far as that can be told; with them where `flush_ops_per_s` is absent.
    pub write_ops_per_s: f64,
    /// MiB written.
    pub write_mib_per_s: f64,
    /// Flushes that the device was sent, which may be fewer than were asked for; absent where the kernel does not count
    /// them (before Linux 5.5) or the report is of a version that did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ops_per_s: Option<f64>,
}

/// Writes that had been put off: a run that ends before as much is written as is dirtied flatters whoever defers most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Backlog {
    /// Whether the backlog changed by at most 10 % of `written_last_minute_mib` in that time, either way. Of shared
    /// buffers and the kernel's pages together; of the latter alone where the former are not known. Readings that are not
    /// a multiple of the checkpoints' interval apart see the checkpoint's phase, too.
    pub steady_state: bool,
    /// A minute before the end of the load, or half of a run of less than two minutes.
    pub minute_before_end: BacklogAt,
    /// At the end of the load.
    pub end: BacklogAt,
    /// Seconds between the two.
    pub last_minute_s: f64,
    /// Written to the data device between the two; with WAL where that lies on the same volume.
    pub written_last_minute_mib: f64,
    /// From the end of the load, with the caps in force, until a CHECKPOINT was complete and the host's Dirty + Writeback
    /// below 16 MiB or at its lowest, not having fallen for 5 s. Absent where it took longer than `drain_bound_s`, and where
    /// it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// How long it was waited for; absent where the drain was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_bound_s: Option<f64>,
    /// Dirty + Writeback when waiting ended; absent likewise. Where it was drained in `drain_s`, this is mostly of other programs of
    /// the host, whose part in the readings before is not known: the server had completed a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_after_drain_mib: Option<f64>,
    /// Why dirty shared buffers are not known; absent if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_buffers_unknown: Option<String>,
}

/// The backlog at one moment. A page can count twice: dirty in shared buffers, and an older state of it in the kernel's.
/// Both are to be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BacklogAt {
    /// Dirty pages in the server's shared buffers, by extension pg_buffercache; null where it could not be asked.
    #[serde(default)]
    pub dirty_shared_buffers_mib: Option<f64>,
    /// Dirty + Writeback of the control group that plays the host's memory, or of /proc/meminfo: whole host; inflated by large
    /// folios, of which one dirty page makes the whole dirty.
    pub dirty_kernel_mib: f64,
}

impl BacklogAt {
    /// All of it, as far as it is known.
    pub fn mib(&self) -> f64 {
        self.dirty_shared_buffers_mib.unwrap_or(0.0) + self.dirty_kernel_mib
    }
}

/// The checkpointer's calls of fsync and fdatasync in sync phases that began in the window, which are those for data files
/// and SLRUs, as long as they took it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FsyncTimes {
    /// Who measured.
    pub source: FsyncSource,
    /// Calls.
    pub count: u64,
    /// Sum of their durations.
    pub total_s: f64,
    /// The longest.
    pub longest_ms: f64,
    /// Those of each checkpoint, oldest first, one that was under way at the end of the load included; empty where that was not
    /// measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<CheckpointFsync>,
}

/// Who measured how long fsync took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FsyncSource {
    /// Tracing of the calls from outside the server.
    Trace,
    /// The module, in the server.
    Module,
}

/// The calls of fsync in one checkpoint's sync phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckpointFsync {
    /// Second of the window in which the sync phase began.
    pub start_s: f64,
    /// Calls.
    pub count: u64,
    /// Sum of their durations.
    pub total_s: f64,
    /// The longest.
    pub longest_ms: f64,
}

/// The end of a server whose WAL had no more room on its disk. The rest of the window has no transactions, and counts in
/// all figures of TPS; operations and MiB per second of the data device are means up to the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerFailure {
    /// Second of the window in which it ended.
    pub at_s: f64,
    /// The server's words: the text of its PANIC message, or of the guard's, which refused writers.
    pub message: String,
    /// Seconds from then until it took connections again, once there was room; absent where nobody saw to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_again_s: Option<f64>,
}

/// A trouble in a run: what happened to server, volume or host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TroubleRun {
    /// As on the command line, e.g. `base-backup-fast`.
    pub name: String,
    /// Second of the window in which it began; absent if it came before the server's start, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_s: Option<f64>,
    /// Second of the window in which it was over; absent if it went on to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// What it did, in a few words; absent if there is nothing to add to its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Why it means nothing to this contestant, who ran undisturbed; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undisturbed: Option<String>,
    /// What failed of it; absent if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The page cache of a cluster's tables and indexes, by a sample of its pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cached {
    /// Share of the pages that is cached.
    pub cached_percent: f64,
    /// Share of these that lies in folios of more than one page.
    pub large_folios_percent: f64,
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

/// How a load kept to its rate, in milliseconds. Its transactions have a time to begin at, from which latency counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pace {
    /// Mean latency.
    pub latency_mean: f64,
    /// How late transactions began, mean.
    pub late_mean: f64,
    /// The latest.
    pub late_max: f64,
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
    /// Duration of the sync phase; with pg_calm its drain is part of it.
    pub sync_s: f64,
    /// Whole duration.
    pub total_s: f64,
    /// Files synced.
    pub sync_files: u32,
    /// Slowest fsync of a file.
    pub longest_sync_s: f64,
}
