//! Flushes of WAL, and waits of commits before them: view pg_calm_wal.

use serde::Deserialize;
use serde::Serialize;

/// Counters stand as since the server started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WalFlushes {
    /// `off`, `idle`, `watching`, `trial` or `waiting`.
    pub state: String,
    /// How long a commit waits now before it flushes; 0: it does not.
    pub delay_seconds: f64,
    /// How long it would wait; `None`: that would not bring anything, or nothing is measured.
    pub proposed_delay_seconds: Option<f64>,
    /// Commits in each flush lately; `None` where they are not counted.
    pub commits_per_flush: Option<f64>,
    /// Flushes per second, likewise.
    pub flushes_per_second: Option<f64>,
    /// Flushes of WAL.
    pub flushes: u64,
    /// Those of them that a commit waited before.
    pub waits: u64,
    /// Time of these waits.
    pub wait_seconds: f64,
    /// Flushes that were spared.
    pub saved: u64,
}
