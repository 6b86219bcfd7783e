//! How often the server checkpoints.

use crate::report::Settings;

/// Seconds between the starts of checkpoints if so much WAL is written.
///
/// By time, or by WAL: one is started when `max_wal_size / (1 + checkpoint_completion_target)` of it has been written
/// (`CalculateCheckpointSegments` in xlog.c).
pub(crate) fn interval(settings: &Settings, wal_bytes_per_s: f64) -> f64 {
    let by_wal =
        settings.max_wal_bytes as f64 / (1.0 + settings.checkpoint_completion_target) / wal_bytes_per_s.max(1.0);
    settings.checkpoint_timeout_s.min(by_wal).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_due_by_time_or_by_wal() {
        let settings = Settings {
            checkpoint_timeout_s: 300.0,
            checkpoint_completion_target: 0.5,
            max_wal_bytes: 3 << 30,
            full_page_writes: true,
            bridge: true,
            page_bytes: 8192,
        };
        assert_eq!(interval(&settings, 0.0), 300.0);
        // 2 GiB at 20 MiB per second.
        assert!((interval(&settings, f64::from(20 << 20)) - 102.4).abs() < 1e-9);
    }
}
