//! How often the server checkpoints, and how much it writes when.

use crate::observe::Statistics;
use crate::report::Settings;

/// Bytes of a page.
const PAGE: f64 = 8192.0;

/// A part of a checkpoint that says too little of the whole.
const LITTLE: f64 = 0.2;

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

/// How many times over other processes write all buffers while a checkpoint writes for `seconds`.
pub(crate) fn turnovers(settings: &Settings, others_pages_per_s: f64, seconds: f64) -> f64 {
    let buffers = settings.shared_buffers_bytes as f64 / PAGE;
    if buffers > 0.0 {
        others_pages_per_s * seconds / buffers
    } else {
        0.0
    }
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

/// Pages that a whole checkpoint writes, from what the checkpointer has written in the last `seconds`; `ages` says how long
/// ago checkpoints started. None if too little of any was seen.
pub(crate) fn pages(
    settings: &Settings,
    interval: f64,
    seconds: f64,
    added: &Statistics,
    ages: &[f64],
) -> Option<f64> {
    let writing = interval * settings.checkpoint_completion_target;
    let others = (added.background_writer_pages + added.backend_pages) / seconds;
    let turnovers = turnovers(settings, others, writing);
    let seen: f64 = ages
        .iter()
        .map(|age| {
            written(turnovers, age / writing) - written(turnovers, (age - seconds) / writing)
        })
        .sum();
    (seen >= LITTLE).then(|| added.checkpointer_pages / seen)
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
    #[test]
    fn a_part_of_a_checkpoint_tells_of_the_whole() {
        // Buffers of 80 MiB are 10240; it writes for 150 s.
        let mut settings = settings();
        settings.shared_buffers_bytes = 80 << 20;
        let mut added = Statistics {
            checkpointer_pages: 1000.0,
            ..Statistics::default()
        };
        let close = |value: Option<f64>, expected: f64| {
            let value = value.unwrap();
            assert!((value / expected - 1.0).abs() < 1e-9, "{value}");
        };
        // Nobody else writes: a third of it in 50 s, at its beginning or in its middle.
        close(pages(&settings, 300.0, 60.0, &added, &[50.0]), 3000.0);
        close(pages(&settings, 300.0, 50.0, &added, &[100.0]), 3000.0);
        // The end of one and the beginning of the next: a sixth and a half.
        close(
            pages(&settings, 300.0, 250.0, &added, &[375.0, 75.0]),
            1500.0,
        );
        // Others write all buffers twice in 150 s, so all is done after 75 s: 1 - 1/9 of it after 50 s.
        added.backend_pages = 2.0 * 10240.0 / 150.0 * 60.0;
        close(pages(&settings, 300.0, 60.0, &added, &[50.0]), 1125.0);
        // Once in 300 s: half is left at the end, and 5/6 after 50 s.
        added.backend_pages /= 4.0;
        let part = 50.0 * (1.0 + 5.0 / 6.0) / (150.0 * 1.5);
        close(
            pages(&settings, 300.0, 60.0, &added, &[50.0]),
            1000.0 / part,
        );
        assert_eq!(pages(&settings, 300.0, 60.0, &added, &[5.0]), None);
        assert_eq!(pages(&settings, 300.0, 60.0, &added, &[]), None);
    }
}
