//! What was saved or read, as data: the document of `pgcalm warm --json`.

pub mod view;

use pgcalm_host::{Known, Unknown};
use serde::{Deserialize, Serialize};

/// The document written by `pgcalm warm --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Report {
    /// Of `--save`.
    Saving(Saving),
    /// Of `--restore`.
    Restoring(Restoring),
}

/// What is cached, and was saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Saving {
    /// Version of this program.
    pub pgcalm: String,
    /// Of the cluster.
    pub data_directory: String,
    /// Of the cluster and its standbys.
    pub system_identifier: String,
    /// Where it was saved.
    pub file: String,
    /// How large that is.
    pub file_bytes: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// Files of relations of which something is cached.
    pub files: u64,
    /// Ranges of these: blocks that lie side by side and are equally hot.
    pub ranges: u64,
    /// Bytes of these ranges, each counted once.
    pub cached_bytes: u64,
    /// Bytes of whole blocks that the page cache has.
    pub page_cache_bytes: u64,
    /// Bytes that shared buffers have; or why that is not known.
    pub shared_buffers_bytes: Known<u64>,
    /// The first file that could not be looked at; of such files what an earlier save had stays. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_error: Option<String>,
}

/// How far reading has come. What was cached is in `already_bytes`, `warmed_bytes`, `changed_bytes`, or still cold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Restoring {
    /// Version of this program.
    pub pgcalm: String,
    /// Of the cluster.
    pub data_directory: String,
    /// Of the cluster and its standbys.
    pub system_identifier: String,
    /// What was saved.
    pub file: String,
    /// When that was, in milliseconds since 1970.
    pub saved_ms: u64,
    /// The disk of the data directory; or why it is not known.
    pub disk: Known<String>,
    /// Operations per second that it takes, by `--iops`, `pg_calm.iops` or a control group; absent if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_cap: Option<f64>,
    /// Bytes per second, by `--bandwidth`, `pg_calm.bandwidth` or a control group, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_cap: Option<f64>,
    /// Files of which something was cached.
    pub files: u64,
    /// Those that are no more, or empty: dropped, rewritten or truncated.
    pub gone_files: u64,
    /// Those that are shorter than they were.
    pub shorter_files: u64,
    /// Bytes that were cached.
    pub wanted_bytes: u64,
    /// Those that files that have changed have no more.
    pub changed_bytes: u64,
    /// Those that were still in the page cache, or there again.
    pub already_bytes: u64,
    /// Those that were read.
    pub warmed_bytes: u64,
    /// All bytes that were read, with gaps that are shorter than an operation is worth.
    pub read_bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Why it ended.
    pub end: End,
    /// The file that holds the limit if a control group's memory ended it; absent for the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
    /// The first read that failed; what such reads were to bring is still cold. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_error: Option<String>,
}

impl Restoring {
    /// Bytes that were cached and have not been read.
    pub fn cold_bytes(&self) -> u64 {
        self.wanted_bytes.saturating_sub(self.changed_bytes + self.already_bytes + self.warmed_bytes)
    }

    /// Bytes per second that were read.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.read_bytes as f64 / self.seconds } else { 0.0 }
    }
}

impl Default for Restoring {
    fn default() -> Self {
        Self {
            pgcalm: String::new(),
            data_directory: String::new(),
            system_identifier: String::new(),
            file: String::new(),
            saved_ms: 0,
            disk: Known::Not(Unknown::new("")),
            operations_cap: None,
            bytes_cap: None,
            files: 0,
            gone_files: 0,
            shorter_files: 0,
            wanted_bytes: 0,
            changed_bytes: 0,
            already_bytes: 0,
            warmed_bytes: 0,
            read_bytes: 0,
            seconds: 0.0,
            end: End::All,
            memory_limit: None,
            read_error: None,
        }
    }
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All is cached that can be.
    All,
    /// `--limit` was reached.
    Limit,
    /// More would have pushed out what others use.
    Memory,
    /// A signal.
    Interrupted,
}
