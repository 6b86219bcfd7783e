//! What a whole checkpoint writes, from a part of it.

use crate::checkpoint::turnovers;
use crate::checkpoint::written;
use crate::observe::server::Statistics;
use crate::report::Settings;

/// A part of a checkpoint that says too little of the whole.
const LITTLE: f64 = 0.2;

/// Pages that a whole checkpoint writes, from what the checkpointer has written in the last `seconds`; `ages` says how long
/// ago checkpoints started. None if too little of any was seen.
pub fn pages(settings: &Settings, interval: f64, seconds: f64, added: &Statistics, ages: &[f64]) -> Option<f64> {
    let writing = interval * settings.checkpoint_completion_target;
    let others = (added.background_writer_pages + added.backend_pages) / seconds;
    let turnovers = turnovers(settings, others, writing);
    let seen: f64 =
        ages.iter().map(|age| written(turnovers, age / writing) - written(turnovers, (age - seconds) / writing)).sum();
    (seen >= LITTLE).then(|| added.checkpointer_pages / seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::observation;

    #[test]
    fn a_part_of_a_checkpoint_tells_of_the_whole() {
        // Buffers of 80 MiB are 10240; it writes for 150 s.
        let settings =
            Settings { checkpoint_completion_target: 0.5, shared_buffers_bytes: 80 << 20, ..observation().settings };
        let mut added = Statistics { checkpointer_pages: 1000.0, ..Statistics::default() };
        let close = |value: Option<f64>, expected: f64| {
            let value = value.unwrap();
            assert!((value / expected - 1.0).abs() < 1e-9, "{value}");
        };
        // Nobody else writes: a third of it in 50 s, at its beginning or in its middle.
        close(pages(&settings, 300.0, 60.0, &added, &[50.0]), 3000.0);
        close(pages(&settings, 300.0, 50.0, &added, &[100.0]), 3000.0);
        // The end of one and the beginning of the next: a sixth and a half.
        close(pages(&settings, 300.0, 250.0, &added, &[375.0, 75.0]), 1500.0);
        // Others write all buffers twice in 150 s, so all is done after 75 s: 1 - 1/9 of it after 50 s.
        added.backend_pages = 2.0 * 10240.0 / 150.0 * 60.0;
        close(pages(&settings, 300.0, 60.0, &added, &[50.0]), 1125.0);
        // Once in 300 s: half is left at the end, and 5/6 after 50 s.
        added.backend_pages /= 4.0;
        let part = 50.0 * (1.0 + 5.0 / 6.0) / (150.0 * 1.5);
        close(pages(&settings, 300.0, 60.0, &added, &[50.0]), 1000.0 / part);
        assert_eq!(pages(&settings, 300.0, 60.0, &added, &[5.0]), None);
        assert_eq!(pages(&settings, 300.0, 60.0, &added, &[]), None);
    }
}
