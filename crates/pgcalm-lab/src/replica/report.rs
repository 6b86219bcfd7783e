//! How far a standby falls behind a primary that floods it with WAL, as data: the document that
//! `pgcalm lab run replica --json` writes.
//!
//! Units are in the field names, as in [`report`](crate::report). A null is what could not be known at that moment, never 0.

mod heartbeat;
mod metric;
mod reading;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Host;

pub use heartbeat::{Heartbeat, Silence};

/// How far the lag may be from the guard's limit to count as held there, as a part of the limit.
pub const TOLERANCE: f64 = 0.2;

/// All cases: the document written by `pgcalm lab run replica --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `replica`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The network between primary and standby.
    pub link: Link,
    /// In the order in which they were run.
    pub cases: Vec<Case>,
}

/// The network between primary and standby.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Link {
    /// What it carries in either direction where it is limited, with the headers of each segment (66 of 1514 bytes), so
    /// that WAL can have 95.6 % of it.
    pub bytes_per_s: f64,
    /// WAL that the load made with a standby behind a link without a limit, by which the limit was chosen; null if it was
    /// given on the command line.
    pub generation_bytes_per_s: Option<f64>,
}

/// One pair of servers under load, and the time until the standby had caught up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// E.g. `slow-link`.
    pub name: String,
    /// What sets it apart, in one sentence.
    pub description: String,
    /// Whether the link had its limit.
    pub link_limited: bool,
    /// Settings of the primary where they differ from PostgreSQL's defaults.
    pub primary_settings: BTreeMap<String, String>,
    /// Settings of the standby, likewise.
    pub standby_settings: BTreeMap<String, String>,
    /// How long the load lasted.
    pub load_s: f64,
    /// Why it was ended early; null if it wasn't.
    pub cut_short: Option<String>,
    /// WAL made under load.
    pub wal_bytes: u64,
    /// WAL made under load that the standby had on disk at its end.
    pub received_bytes: u64,
    /// From the end of the load until the standby had replayed all WAL; null if it didn't while it was watched.
    pub catch_up_s: Option<f64>,
    /// For how long it was watched after the load.
    pub watched_s: f64,
    /// The first error of the standby's WAL receiver; null if there was none.
    pub receiver_error: Option<ReceiverError>,
    /// WAL segments that the standby restored from the archive.
    pub segments_restored: u32,
    /// When the caps of the devices were lifted, since the load began; null if they weren't under load.
    #[serde(default)]
    pub caps_lifted_s: Option<f64>,
    /// From then until the standby lacked no WAL older than a second, while the load was at work; null if it did until the
    /// load's end.
    #[serde(default)]
    pub level_s: Option<f64>,
    /// What a failover manager would have seen; null in documents that were written without.
    #[serde(default)]
    pub heartbeat: Option<Heartbeat>,
    /// What the guard was to do and did; null where it was off.
    pub guard: Option<Guard>,
    /// One a second.
    pub samples: Vec<Sample>,
}

/// An error in the standby's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReceiverError {
    /// Since the load began.
    pub time_s: f64,
    /// In the server's words.
    pub message: String,
    /// How often the receiver failed, with whatever error.
    pub count: u32,
}

/// The lag that counts is that of the standby's flush position, from the primary's insert position, as
/// `pg_calm_guard.lag_position` = `flush` has it. The window is the time under load from the first sample within the
/// tolerance, 20 % of the limit, on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Guard {
    /// `pg_calm_guard.max_lag`.
    pub limit_bytes: u64,
    /// When the window began, since the load did; null if the lag never came near the limit.
    pub reached_s: Option<f64>,
    /// Samples in the window.
    pub samples: u32,
    /// Those of them with a lag within the tolerance.
    pub samples_held: u32,
    /// Least lag in the window.
    pub lag_min_bytes: Option<u64>,
    /// Mean lag in the window.
    pub lag_mean_bytes: Option<f64>,
    /// Most lag in the window.
    pub lag_max_bytes: Option<u64>,
    /// WAL that the standby flushed in the window, mean.
    pub received_bytes_per_s: Option<f64>,
    /// What the primary sent over the link in the window, mean; as [`Sample::link_bytes_per_s`].
    pub link_bytes_per_s: Option<f64>,
}

/// One moment; rates are means since the sample before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// Since the load began.
    pub time_s: f64,
    /// Whether the load was at work.
    pub under_load: bool,
    /// WAL that the primary made.
    pub wal_bytes_per_s: Option<f64>,
    /// WAL made that is not on the primary's disk yet, and so can't be sent.
    pub unflushed_bytes: Option<u64>,
    /// WAL on the primary's disk that was not given to the standby's connection yet.
    pub sent: Lag,
    /// WAL on the primary's disk that the standby has not written.
    pub write: Lag,
    /// WAL on the primary's disk that is not on the standby's.
    pub flush: Lag,
    /// WAL on the primary's disk that the standby has not replayed.
    pub replay: Lag,
    /// WAL that the standby flushed; null while it is not connected.
    pub received_bytes_per_s: Option<f64>,
    /// Sent over the link by the primary, as its interface counts it (/proc/PID/net/dev): frames of up to 64 KiB, before the
    /// kernel cuts them into segments.
    pub link_bytes_per_s: Option<f64>,
    /// Sent by the walsender and confirmed by the standby's kernel (`tcpi_bytes_acked`); null while none is connected.
    pub walsender_network_bytes_per_s: Option<f64>,
    /// Read from disk by the walsender (`read_bytes` of /proc/PID/io); null while none is connected.
    pub walsender_disk_bytes_per_s: Option<f64>,
    /// Written to disk by the walwriter (`write_bytes` of /proc/PID/io). Backends write WAL, too.
    pub walwriter_disk_bytes_per_s: Option<f64>,
    /// Written to the primary's WAL device.
    pub primary_wal_device_bytes_per_s: Option<f64>,
    /// Write operations that it completed.
    pub primary_wal_device_writes_per_s: Option<f64>,
    /// Written to the standby's WAL device.
    pub standby_wal_device_bytes_per_s: Option<f64>,
    /// Write operations that it completed.
    pub standby_wal_device_writes_per_s: Option<f64>,
    /// State of the standby's receiver: `status` of its `pg_stat_wal_receiver`, e.g. `streaming`; `restoring` while there is
    /// none and segments came from the archive since the sample before, else `none`.
    pub receiver: String,
    /// Where WAL was held up on its way, by `pgcalm lag`, e.g. `network`; null while no standby is known.
    pub bottleneck: Option<String>,
}

/// A distance behind the primary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lag {
    /// In WAL.
    pub bytes: Option<u64>,
    /// Age of the oldest WAL of it.
    pub s: Option<f64>,
}

impl Case {
    /// WAL made per second of load.
    pub fn wal_bytes_per_s(&self) -> f64 {
        self.wal_bytes as f64 / self.load_s
    }

    /// WAL received per second of load.
    pub fn received_bytes_per_s(&self) -> f64 {
        self.received_bytes as f64 / self.load_s
    }

    /// The most of a lag in bytes, over all samples.
    pub fn most_bytes(&self, lag: fn(&Sample) -> Lag) -> Option<u64> {
        self.samples.iter().filter_map(|s| lag(s).bytes).max()
    }

    /// The most of a lag in seconds, over all samples.
    pub fn most_s(&self, lag: fn(&Sample) -> Lag) -> Option<f64> {
        self.samples.iter().filter_map(|sample| lag(sample).s).max_by(f64::total_cmp)
    }

    /// Mean of a rate under load, over the samples that have it.
    pub fn mean_under_load(&self, rate: fn(&Sample) -> Option<f64>) -> Option<f64> {
        let rates: Vec<f64> = self.samples.iter().filter(|sample| sample.under_load).filter_map(rate).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

impl Guard {
    /// Whether the lag stayed within the tolerance once it had come there; `None` if it never did.
    pub fn is_held(&self) -> Option<bool> {
        self.reached_s?;
        Some(self.samples > 0 && self.samples_held == self.samples)
    }
}
