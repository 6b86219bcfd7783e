//! pg_calm_guard: views pg_calm_guard and pg_calm_guard_holds.

use serde::{Deserialize, Serialize};

/// Whether writers are slowed down, and for what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// `pg_calm_guard.mode`: `off`, `shadow` or `on`; `None` in documents from before.
    #[serde(default)]
    pub mode: Option<String>,
    /// What it looks at: `wal_space`, `max_wal`, `lag`, `archive`.
    pub inputs: Vec<GuardInput>,
    /// Bytes of WAL written per second by all.
    pub wal_bytes_per_second: Option<f64>,
    /// Bytes of WAL per second that all may write; `None`: any.
    pub allowed_bytes_per_second: Option<f64>,
    /// Seconds until the file system of pg_wal is full if all goes on as in the last minutes; `None`: not within hours.
    pub seconds_to_full: Option<f64>,
    /// Sessions that are held now.
    pub holds: Vec<GuardHold>,
}

/// One input. Counters start with the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardInput {
    /// `wal_space`, `max_wal`, `lag` or `archive`.
    pub input: String,
    /// `off`, `unknown`, `watched`, `pacing`, `released` or `refusing`.
    pub state: String,
    /// What is behind: `checkpoint`, `archive`, a slot or a standby.
    pub object: Option<String>,
    /// Of value and limit: `bytes`, or `s`.
    pub unit: Option<String>,
    /// Where it stands.
    pub value: Option<f64>,
    /// Where it may go.
    pub value_limit: Option<f64>,
    /// Bytes per second by which the object comes on.
    pub drain_bytes_per_second: Option<f64>,
    /// Bytes of WAL per second that this input allows; `None`: any.
    pub allowed_bytes_per_second: Option<f64>,
    /// Whether it is the one for which sessions wait.
    pub binding: bool,
    /// Waits of sessions for it.
    pub holds: u64,
    /// Time of those that are over, all sessions together.
    pub held_seconds: f64,
    /// Times that the guard's patience was over.
    pub releases: u64,
}

/// A session that is held.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardHold {
    /// Process id, as in pg_stat_activity.
    pub pid: i32,
    /// For which input.
    pub input: String,
    /// `committed` or `before statement`.
    pub moment: String,
    /// Since when.
    pub held_seconds: f64,
}
