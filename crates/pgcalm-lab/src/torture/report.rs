//! The result of crash cycles, as data: the document that `pgcalm lab run torture --json` writes.
//!
//! Units are in the field names, as in [`report`](crate::report).

mod verdict;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Host;

/// Crash cycles and their control run: the document written by `pgcalm lab run torture --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `torture`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The settings of the servers where they differ from PostgreSQL's defaults.
    pub server_settings: BTreeMap<String, String>,
    /// Whether a signal ended the run; what was under way then is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The cycles in the order in which they were run.
    pub cycles: Vec<Cycle>,
    /// Two controls for each file system; empty if none was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
}

/// Load, crash, recovery and the comparison of what is there with what was acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cycle {
    /// Counts from 1; in a control, from 1 again.
    pub number: u32,
    /// File system: `ext4` or `xfs`.
    pub fs: String,
    /// `kill`: SIGKILL to all processes of the server, the page cache survives; `shutdown`: the file system is shut
    /// down without flushing its log, then the same, and the page cache is lost.
    pub crash: String,
    /// Time under load until the crash.
    pub load_s: f64,
    /// Why the checkpoint that the crash interrupted was started, e.g. `immediate force wait`; null if there was none
    /// under way.
    pub checkpoint: Option<String>,
    /// Checkpoints completed under load.
    pub checkpoints: u32,
    /// Of these, spread ones that waited until the module had flushed the pages of a file before they synced it, counted when it
    /// was last asked before the crash.
    pub drained_checkpoints: u64,
    /// Transactions that the server acknowledged to its clients.
    pub commits: u64,
    /// Rows that these transactions inserted or updated, rows changed again counted again.
    pub rows_written: u64,
    /// Clean pages that the module wrote along between dirty ones, up to the crash.
    pub bridged_pages: u64,
    /// Dirty pages that the module's worker had written back.
    pub flushed_pages: u64,
    /// Dirty pages that the module knew to be not on disk when it was last asked before the crash.
    pub unflushed_pages: u64,
    /// All of `pg_calm_status` at that time; empty if the module's SQL functions are not there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module_status: BTreeMap<String, serde_json::Value>,
    /// From the start of the server after the crash until it took connections; null if it didn't.
    pub recovery_s: Option<f64>,
    /// Rows compared with the ledger.
    pub rows_compared: u64,
    /// Rows older than acknowledged, or missing.
    pub rows_lost: u64,
    /// Rows that no client has written so: wrong content, never attempted, or twice there.
    pub rows_corrupt: u64,
    /// Rows of transactions that were under way at the crash and of which only a part is there.
    pub rows_torn: u64,
    /// Blocks of deleted files that showed up; absent if they were not looked for, or the page cache survived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
    /// What else was found: by reading through the index, pg_amcheck, pg_checksums, or in the server's log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Blocks of 4 KiB that show what a deleted file had in them: they were allocated, and not written before the crash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stale {
    /// In files beside the server's that were written and not synced.
    pub in_unsynced_files: u64,
    /// In the data directory right after the crash.
    pub before_recovery: u64,
    /// In the data directory once the server had recovered and was shut down.
    pub after_recovery: u64,
    /// Files that had them then, relative to the data directory; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// The same with a server that doesn't sync as it should: if that is not found out, the cycles prove nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Control {
    /// What was done so that something is lost, e.g. `fsync=off`.
    pub sabotage: String,
    /// Settings in which its server differs.
    pub server_settings: BTreeMap<String, String>,
    /// Cycles until the loss was detected; all but the last have found nothing, or a server that did not start.
    pub cycles: Vec<Cycle>,
}
