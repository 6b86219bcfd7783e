//! How long calls for I/O took: view pg_calm_io_histogram, scope `server`.

use serde::Deserialize;
use serde::Serialize;

/// The calls of one kind by one type of process, since the server started or `pg_calm_reset()`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IoHistogram {
    /// `write`, `writeback`, `fsync` or `fsync other`.
    pub operation: String,
    /// Type of process, as in pg_stat_activity.
    pub backend_type: String,
    /// One of so many calls was timed.
    pub sampled_every: u32,
    /// Buckets that are not empty, shortest calls first.
    pub buckets: Vec<IoBucket>,
}

/// Calls between two durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct IoBucket {
    /// They stayed below; `None`: no limit.
    pub upper_bound_seconds: Option<f64>,
    /// Calls timed in this bucket (not cumulative).
    pub count: u64,
}
