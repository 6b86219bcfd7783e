//! How often the server checkpoints, and how much it writes when.

use crate::report::Settings;

/// Bytes of a page.
const PAGE: f64 = 8192.0;

/// Seconds between the starts of checkpoints if so much WAL is written.
///
/// By time, or by WAL: one is started when `max_wal_size / (1 + checkpoint_completion_target)` of it has been written
/// (`CalculateCheckpointSegments` in xlog.c).
pub(crate) fn interval(settings: &Settings, wal_bytes_per_s: f64) -> f64 {
    let by_wal =
        settings.max_wal_bytes as f64 / (1.0 + settings.checkpoint_completion_target) / wal_bytes_per_s.max(1.0);
    settings.checkpoint_timeout_s.min(by_wal).max(1.0)
}

/// How many times over other processes write all buffers while a checkpoint writes for `seconds`.
pub(crate) fn turnovers(settings: &Settings, others_pages_per_s: f64, seconds: f64) -> f64 {
    let buffers = settings.shared_buffers_bytes as f64 / PAGE;
    if buffers > 0.0 { others_pages_per_s * seconds / buffers } else { 0.0 }
}

/// Part of its pages that a checkpoint has written in the first `part` of its time.
///
/// A checkpoint finds its dirty buffers at its start, but comes to them later; those that other processes have needed
/// meanwhile are written by them, and passed (`BufferSync` in bufmgr.c). As the clock sweep goes round, what is left for the
/// checkpointer falls evenly (`StrategyGetBuffer` in freelist.c), and there is nothing after one turn.
pub(crate) fn written(turnovers: f64, part: f64) -> f64 {
    let part = part.clamp(0.0, 1.0);
    // Of 1 - turnovers·t, as long as that is positive, the integral up to `part` and up to 1.
    let until = |end: f64| {
        let end = end.min(1.0 / turnovers.max(1.0));
        end - turnovers * end * end / 2.0
    };
    until(part) / until(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            server_version: 150_000,
            checkpoint_timeout_s: 300.0,
            checkpoint_completion_target: 0.5,
            max_wal_bytes: 3 << 30,
            shared_buffers_bytes: 0,
            checkpoint_flush_after_bytes: 0,
            bgwriter_flush_after_bytes: 0,
            backend_flush_after_bytes: 0,
            full_page_writes: true,
            flush_age_s: 0.0,
            unflushed_limit_bytes: 0,
            bridge: true,
            clean_buffers: true,
        }
    }

    #[test]
    fn a_checkpoint_is_due_by_time_or_by_wal() {
        let settings = settings();
        assert_eq!(interval(&settings, 0.0), 300.0);
        // 2 GiB at 20 MiB per second.
        assert!((interval(&settings, f64::from(20 << 20)) - 102.4).abs() < 1e-9);
    }
}
