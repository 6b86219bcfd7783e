//! The result of archivers draining the same backlog of WAL, as data: the document that
//! `pgcalm lab run archive --json` writes.
//!
//! Units are in the field names, as in [`report`](crate::report). "Per file" is per WAL file that was acknowledged in the
//! phase at hand.

mod metric;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::{Host, Latency};

/// Archivers and how each of them drained the backlog: the document written by `pgcalm lab run archive --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `archive`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What `dd conv=fsync` writes to the archive's device under its caps, once per repetition; empty if nothing is
    /// copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dd_mib_per_s: Vec<f64>,
    /// In the order in which they were named; their runs were interleaved.
    pub archivers: Vec<Archiver>,
}

/// One way of archiving.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Archiver {
    /// As on the command line, e.g. `basic_archive` or `pg_calm-2-lz4`.
    pub name: String,
    /// What it is, in one sentence.
    pub description: String,
    /// Whether it copies anything; one that doesn't is a measure of acknowledging, and no contender.
    pub copies: bool,
    /// The postgresql.conf settings in which its server differs.
    pub server_settings: BTreeMap<String, String>,
    /// One entry per repetition.
    pub runs: Vec<Run>,
}

/// One archiver on new file systems: a drain by itself, one beside pgbench, one traced and ended by a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Nothing else at work.
    pub alone: Drain,
    /// Right after that drain; only where acknowledging alone is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// The next part of the backlog, with pgbench beside it; absent if none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<Loaded>,
    /// The last part, without caps; absent for archivers that copy nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// `pg_calm_archive` after the drains; empty for archivers without the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module_status: BTreeMap<String, serde_json::Value>,
}

/// A part of the backlog, from the archiver's waking to the last file's acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Drain {
    /// WAL files acknowledged.
    pub files: u64,
    /// Their size before compression.
    pub mib: f64,
    /// How long it took.
    pub duration_s: f64,
    /// Write operations that the device of pg_wal completed, per file, as its cap counts them.
    pub wal_writes_per_file: f64,
    /// Write operations that the device of the archive completed, per file.
    pub archive_writes_per_file: f64,
    /// Commits of the two file systems' journals (jbd2), per file; null where the file system has none that tells.
    pub journal_commits_per_file: Option<f64>,
    /// CPU time of the server and all programs that it started, or that were started for it; not of kernel threads.
    pub cpu_s: f64,
}

/// A checkpoint right after the drain: it makes durable what acknowledging has left to it, and removes the oldest 64 files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// How long it took.
    pub duration_s: f64,
    /// Write operations of the device of pg_wal, per file drained before.
    pub wal_writes_per_file: f64,
}

/// A drain with pgbench beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loaded {
    /// The drain.
    pub drain: Drain,
    /// Transactions per second before the drain.
    pub tps_before: f64,
    /// Their latency.
    pub latency_before_ms: Latency,
    /// Transactions per second during the drain.
    pub tps: f64,
    /// Their latency.
    pub latency_ms: Latency,
    /// What each second of pgbench was like.
    pub series: Series,
}

/// Samples taken once per second, from the first full second of pgbench to its last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Series {
    /// Transactions ended in this second.
    pub tps: Vec<f64>,
    /// 99th percentile of their latency; null if none ended.
    pub latency_p99_ms: Vec<Option<f64>>,
    /// Files of the backlog not yet acknowledged at the beginning of this second.
    pub queue_files: Vec<f64>,
}

/// A drain under strace, and a power cut right after the last acknowledgement: the file system of the archive is shut
/// down without flushing its log, mounted again, and read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Crash {
    /// Calls of fsync, fdatasync, syncfs and sync by the archiver, its workers and their children, per file.
    pub syncs_per_file: f64,
    /// Files acknowledged up to the crash, those of the earlier drains among them.
    pub acknowledged: u64,
    /// Of these, how many the archive did not hold afterwards.
    pub missing: u64,
    /// Of these, how many it held with another content.
    pub different: u64,
    /// The first that was missing or different, and what was wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<String>,
}

impl Crash {
    /// Whether all that was acknowledged was there.
    pub fn is_durable(&self) -> bool {
        self.missing == 0 && self.different == 0
    }
}

impl Archiver {
    /// Whether it is the project's.
    fn is_ours(&self) -> bool {
        self.name.starts_with("pg_calm")
    }

    /// Whether all that was acknowledged survived in all runs; `None` if it copies nothing or it was not tried.
    pub fn is_durable(&self) -> Option<bool> {
        let mut crashes = self.runs.iter().filter_map(|run| run.crash.as_ref()).peekable();
        crashes.peek()?;
        Some(crashes.all(Crash::is_durable))
    }
}

impl Report {
    /// Why the run counts as failed: one of ours lost what it had acknowledged. `None` if all is as it must be; others may.
    pub fn failure(&self) -> Option<String> {
        let lossy: Vec<&str> = self
            .archivers
            .iter()
            .filter(|archiver| archiver.is_ours() && archiver.is_durable() == Some(false))
            .map(|archiver| archiver.name.as_str())
            .collect();
        (!lossy.is_empty()).then(|| format!("lost what was acknowledged: {}", lossy.join(", ")))
    }
}
