//! How often the server checkpoints.

use pgcalm_report::predict::Settings;

/// Seconds between the starts of checkpoints if so much WAL is written.
///
/// By time, or by WAL: one is started when `max_wal_size / (1 + checkpoint_completion_target)` of it has been written
/// (`CalculateCheckpointSegments` in xlog.c).
pub(crate) fn interval(settings: &Settings, wal_bytes_per_s: f64) -> f64 {
    let by_wal = settings.max_wal_bytes as f64
        / (1.0 + settings.checkpoint_completion_target)
        / wal_bytes_per_s.max(1.0);
    settings.checkpoint_timeout_s.min(by_wal).max(1.0)
}
