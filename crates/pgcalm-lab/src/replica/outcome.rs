//! What the samples say about the guard, and about a standby whose caps were lifted.

use crate::replica::report::{Guard, Sample, TOLERANCE};

/// The guard's window: from the first sample under load within the tolerance on.
pub(super) fn guard(limit_bytes: u64, samples: &[Sample]) -> Guard {
    let limit = limit_bytes as f64;
    let is_held = |lag: u64| (lag as f64 - limit).abs() <= limit * TOLERANCE;
    let loaded: Vec<(&Sample, u64)> = samples
        .iter()
        .filter(|sample| sample.under_load)
        .filter_map(|sample| Some((sample, lag_of(sample)?)))
        .collect();
    let first = loaded.iter().position(|(_, lag)| is_held(*lag));
    let window = first.map_or(&[][..], |first| &loaded[first..]);
    let lags = || window.iter().map(|(_, lag)| *lag);
    // The first one's rates are of the time before the window.
    let mean = |rate: fn(&Sample) -> Option<f64>| {
        let rates: Vec<f64> = window.iter().skip(1).filter_map(|(sample, _)| rate(sample)).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    Guard {
        limit_bytes,
        reached_s: window.first().map(|(sample, _)| sample.time_s),
        samples: window.len() as u32,
        samples_held: lags().filter(|lag| is_held(*lag)).count() as u32,
        lag_min_bytes: lags().min(),
        lag_mean_bytes: (!window.is_empty()).then(|| lags().map(|lag| lag as f64).sum::<f64>() / window.len() as f64),
        lag_max_bytes: lags().max(),
        received_bytes_per_s: mean(|sample| sample.received_bytes_per_s),
        link_bytes_per_s: mean(|sample| sample.link_bytes_per_s),
    }
}

/// A standby that lacks no WAL older than this counts as level with a primary that makes WAL all the time, s: samples
/// are as far apart.
const LEVEL_S: f64 = 1.0;

/// How long after `lifted_s` the standby was level under load; `None` if it was not.
pub(super) fn level(lifted_s: f64, samples: &[Sample]) -> Option<f64> {
    let first = samples
        .iter()
        .filter(|sample| sample.under_load && sample.time_s >= lifted_s)
        .find(|sample| sample.replay.s.is_some_and(|age| age < LEVEL_S))?;
    Some(first.time_s - lifted_s)
}

/// The lag that the guard steers by: from the insert position to what the standby has flushed.
fn lag_of(sample: &Sample) -> Option<u64> {
    Some(sample.flush.bytes? + sample.unflushed_bytes?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::report::Lag;

    fn sample(time_s: f64, flush_lag: u64, under_load: bool) -> Sample {
        Sample {
            time_s,
            under_load,
            unflushed_bytes: Some(10),
            flush: Lag { bytes: Some(flush_lag), s: None },
            received_bytes_per_s: Some(time_s * 100.0),
            ..Sample::default()
        }
    }

    #[test]
    fn the_window_begins_near_the_limit_and_ends_with_the_load() {
        let samples = [
            sample(0.0, 0, true),
            sample(1.0, 790, true),
            sample(2.0, 1190, true),
            sample(3.0, 1191, true),
            sample(4.0, 1000, false),
        ];
        let guard = guard(1000, &samples);
        assert_eq!(guard.reached_s, Some(1.0));
        assert_eq!((guard.samples, guard.samples_held), (3, 2));
        assert_eq!(guard.lag_min_bytes, Some(800));
        assert_eq!(guard.lag_max_bytes, Some(1201));
        assert_eq!(guard.received_bytes_per_s, Some(250.0));
        assert_eq!(guard.is_held(), Some(false));
    }

    #[test]
    fn level_is_whoever_lacks_only_the_last_second_of_wal_while_the_load_is_at_work() {
        let aged = |time_s, age, under_load| Sample {
            replay: Lag { bytes: Some(1), s: Some(age) },
            ..sample(time_s, 1, under_load)
        };
        // Level before, behind when the caps are lifted.
        let mut samples = vec![aged(1.0, 0.1, true), aged(5.0, 4.0, true)];
        assert_eq!(level(4.0, &samples), None);
        samples.push(aged(7.0, 0.9, false));
        assert_eq!(level(4.0, &samples), None);
        samples.insert(2, aged(6.5, 0.9, true));
        assert_eq!(level(4.0, &samples), Some(2.5));
    }

    #[test]
    fn a_lag_that_never_came_near_the_limit_was_not_held_there() {
        let guard = guard(1000, &[sample(0.0, 0, true), sample(1.0, 700, true)]);
        assert_eq!((guard.reached_s, guard.is_held()), (None, None));
        assert_eq!(guard.lag_mean_bytes, None);
    }
}
