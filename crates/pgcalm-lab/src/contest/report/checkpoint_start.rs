//! What clients see in the first seconds of a checkpoint: after its redo point the first change of each page puts the whole
//! page into WAL.

use pgcalm_render::number::{printable, short};

use crate::contest::report::metric::{START_TPS_MEAN, START_TPS_MIN};
use crate::contest::report::{Contestant, Run};

/// How long it is looked at, s.
pub const SECONDS: usize = 5;
/// How long what they are compared with, s.
const SECONDS_BEFORE: usize = 10;

pub(super) fn tps_min(run: &Run) -> Option<f64> {
    let worst = tps(run).min_by(f64::total_cmp)?;
    percent(worst, run.tps_median)
}

pub(super) fn tps_mean(run: &Run) -> Option<f64> {
    let tps: Vec<f64> = tps(run).collect();
    percent(mean(&tps)?, run.tps_median)
}

pub(super) fn tps_before(run: &Run) -> Option<f64> {
    let shares: Vec<f64> = starts(run)
        .into_iter()
        .filter_map(|first| {
            let before = run.series.tps.get(first.checked_sub(SECONDS_BEFORE)?..first)?;
            let after = run.series.tps.get(first..first + SECONDS)?;
            percent(mean(after)?, mean(before)?)
        })
        .collect();
    mean(&shares)
}

pub(super) fn latency_p99_ratio(run: &Run) -> Option<f64> {
    let mut all: Vec<f64> = run.series.latency_p99_ms.iter().copied().flatten().collect();
    all.sort_by(f64::total_cmp);
    let median = *all.get(all.len() / 2)?;
    ratio(latency_p99(run)?, median)
}

/// How checkpoints begin with each contestant, in one line; none if no run has the start of one.
pub fn sentence(contestants: &[Contestant]) -> Option<String> {
    let told: Vec<String> = contestants
        .iter()
        .filter_map(|contestant| {
            let worst = START_TPS_MIN.median_of(contestant)?;
            let mean = START_TPS_MEAN.median_of(contestant)?;
            Some(format!("{} {} and {} %", printable(&contestant.name), short(worst), short(mean)))
        })
        .collect();
    (!told.is_empty()).then(|| {
        format!("first {SECONDS} s of checkpoints, worst second and mean in % of the median: {}", told.join(", "))
    })
}

/// The first second after the start of each checkpoint, by its number. One counts if it began in the window and all of its first
/// seconds lie in it, whether it ended there or not.
fn starts(run: &Run) -> Vec<usize> {
    let length = run.series.tps.len();
    let end_s = run.server_failure.as_ref().map_or(length as f64, |failure| failure.at_s);
    let under_way = run.checkpoint_under_way_s.map(|since| end_s - since);
    run.checkpoints
        .iter()
        .map(|checkpoint| checkpoint.start_s)
        .chain(under_way)
        .filter(|start_s| (0.0..=length as f64).contains(start_s))
        // The whole second that most of the first one lies in.
        .map(|start_s| start_s.round() as usize)
        .filter(|first| first + SECONDS <= length)
        .collect()
}

/// The seconds after them, each once.
fn seconds(run: &Run) -> Vec<usize> {
    let mut seconds: Vec<usize> = starts(run).into_iter().flat_map(|first| first..first + SECONDS).collect();
    seconds.sort_unstable();
    seconds.dedup();
    seconds
}

fn tps(run: &Run) -> impl Iterator<Item = f64> + '_ {
    seconds(run).into_iter().filter_map(move |second| run.series.tps.get(second).copied())
}

pub(super) fn latency_p99(run: &Run) -> Option<f64> {
    seconds(run)
        .into_iter()
        .filter_map(|second| run.series.latency_p99_ms.get(second).copied().flatten())
        .max_by(f64::total_cmp)
        .filter(|value| value.is_finite())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn ratio(value: f64, of: f64) -> Option<f64> {
    let ratio = value / of;
    (of > 0.0 && ratio.is_finite()).then_some(ratio)
}

fn percent(value: f64, of: f64) -> Option<f64> {
    ratio(value, of).map(|ratio| ratio * 100.0)
}
