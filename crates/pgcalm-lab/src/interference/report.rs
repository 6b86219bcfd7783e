//! What a capped neighbour does to an instance beside it, as data: the document that `pgcalm lab run journal --json`
//! writes.
//!
//! Units are in the field names, as in [`report`](crate::report).

mod reading;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::{Host, Latency};

/// All layouts: the document written by `pgcalm lab run journal --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `journal`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Settings of both servers where they differ from PostgreSQL's defaults.
    pub server_settings: BTreeMap<String, String>,
    /// In the order in which they were run.
    pub layouts: Vec<Layout>,
}

/// One way to lay two instances out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Layout {
    /// E.g. `ext4-ordered`.
    pub name: String,
    /// What sets it apart, in one sentence.
    pub description: String,
    /// Options of the victim's file system that were in force, as the kernel shows them.
    pub mount_options: String,
    /// With the neighbour idle.
    pub alone: Phase,
    /// With the neighbour making databases.
    pub noisy: Phase,
    /// Where processes were seen in uninterruptible sleep in the noisy phase, most often seen first for each of who;
    /// bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hangs: Vec<Hang>,
}

/// What the victim achieved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phase {
    /// pgbench transactions per second, mean over the window.
    pub tps_mean: f64,
    /// Worst second.
    pub tps_min: f64,
    /// Seconds in which no transaction ended.
    pub seconds_zero: u32,
    /// Over all transactions, with those that ended only once the cap was lifted.
    pub latency_ms: Latency,
    /// Connections made per second, one after the other, each with one query that writes nothing.
    pub connects_per_s: f64,
    /// Longest of them.
    pub connect_max_ms: f64,
    /// Connections made per second, one after the other, to a database whose pg_internal.init is removed before each, so
    /// that the backend writes it.
    pub cold_connects_per_s: f64,
    /// Longest of them.
    pub cold_connect_max_ms: f64,
    /// Files per second that one process made, wrote 8 KiB to and synced in the victim's file system.
    pub files_per_s: f64,
    /// Longest of them.
    pub file_max_ms: f64,
    /// Databases that the neighbour made.
    pub databases: u32,
    /// Whether clients were still held up at the end, so that the cap was lifted for them to end.
    pub cap_lifted: bool,
    /// What the devices did in the window.
    #[serde(default)]
    pub devices: Vec<DeviceRates>,
    /// Transactions ended in each second of the window.
    pub tps: Vec<f64>,
}

/// What a device did, mean of the window. Flushes count as operations, as in iostat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceRates {
    /// `data`, which the victim is on; `neighbour`, if that has its own; `log`, if the log or journal has.
    pub device: String,
    /// Write operations.
    pub writes_per_s: f64,
    /// Written.
    pub write_bytes_per_s: f64,
    /// Read operations.
    pub reads_per_s: f64,
    /// Read.
    pub read_bytes_per_s: f64,
}

/// A place in the kernel where a process was seen in uninterruptible sleep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hang {
    /// `victim`, `login` for a backend of it that has not come to its first query, `neighbour`, or `kernel` for the thread
    /// that commits the journal.
    pub who: String,
    /// What the process is, e.g. `client backend`.
    pub process: String,
    /// System call that it is in, e.g. `pwrite64`; null if that can't be told.
    pub call: Option<String>,
    /// What kind of file the call is about, e.g. `new WAL segment`; null if that can't be told.
    pub file: Option<String>,
    /// Innermost kernel functions from /proc/PID/stack, top first.
    pub stack: Vec<String>,
    /// Number of samples in which it was seen there.
    pub samples: u32,
}

impl Layout {
    /// By what factor transactions per second fell; infinite or not a number if none ended.
    pub fn tps_factor(&self) -> f64 {
        self.alone.tps_mean / self.noisy.tps_mean
    }

    /// By what factor files made and synced per second fell.
    pub fn files_factor(&self) -> f64 {
        self.alone.files_per_s / self.noisy.files_per_s
    }
}
