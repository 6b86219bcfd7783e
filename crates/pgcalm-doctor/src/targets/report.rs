//! What targets would cost, as data: the document of `pgcalm targets --json`.

pub mod view;

use serde::{Deserialize, Serialize};

pub use super::curve::{Curve, Point};

/// The document written by `pgcalm targets --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// From which all else follows.
    pub observed: Observed,
    /// Write operations per second that the volume takes; null if no cap is known.
    pub write_iops: Option<u64>,
    /// Bytes per second that it takes, likewise.
    pub write_bandwidth: Option<u64>,
    /// WAL that recovery replays per second; null on a standby, which has no recovery target.
    pub replay_bytes_per_second: Option<f64>,
    /// Whether that was seen; else it is what pg_calm takes before it has seen a recovery.
    pub replay_was_seen: bool,
    /// Without a target, and for five values of `pg_calm.stop_target`; empty if no cap is known.
    pub stop: Vec<Cost>,
    /// Likewise of `pg_calm.recovery_target`; empty on a standby.
    pub recovery: Vec<Cost>,
}

/// What the last WAL has told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Observed {
    /// From its first commit to its last.
    pub seconds: f64,
    /// Bytes of WAL between these.
    pub wal_bytes: u64,
    /// Changes of a block of a table or index in it, each block once per record.
    pub changes: u64,
    /// Full-page images in it.
    pub images: u64,
    /// Bytes of these.
    pub image_bytes: u64,
    /// How many blocks are changed within a time, up to nine tenths of `seconds`.
    pub curve: Curve,
}

/// What it costs to write each page that was changed once per so many seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// The target; null for none.
    pub target_seconds: Option<f64>,
    /// What it is about takes then: a stop on average, recovery at most.
    pub takes_seconds: f64,
    /// Whether it can be met by that load, on that volume.
    pub possible: bool,
    /// How often each page is written: by the cleaner for a stop target, else by checkpoints.
    pub round_seconds: f64,
    /// Whether that is as without a target.
    pub as_now: bool,
    /// Whether it may be longer, or is longer than what WAL has told of, so that the following are what it costs at most.
    pub at_most: bool,
    /// Pages written per second.
    pub pages_per_s: f64,
    /// Operations per second of these, with neighbours as one.
    pub operations_per_s: f64,
    /// Part of what the volume takes; null if no cap is known.
    pub volume_share: Option<f64>,
    /// Bytes of full-page images in WAL per second, by the first change of each page after a checkpoint.
    pub image_bytes_per_s: f64,
}
