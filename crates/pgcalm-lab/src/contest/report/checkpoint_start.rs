//! What clients see in the first seconds of a checkpoint: after its redo point the first change of each page puts the whole
//! page into WAL.

use pgcalm_render::number::{printable, short};

use crate::contest::report::metric::{Group, Metric};
use crate::contest::report::{Contestant, Run};

/// How long it is looked at, s.
pub const SECONDS: usize = 5;
/// How long what they are compared with, s.
const SECONDS_BEFORE: usize = 10;

/// The worst of these seconds.
pub static START_TPS_MIN: Metric = Metric {
    group: Group::CheckpointStart,
    heading: ["worst", "% of med"],
    name: "worst second, % of the median",
    meaning: "Transactions in the worst of the five seconds after the start of a checkpoint of the run, by those of the run's median second.",
    optional: true,
    value: |run| {
        let worst = tps(run).min_by(f64::total_cmp)?;
        percent(worst, run.tps_median)
    },
};

/// All of them.
pub static START_TPS_MEAN: Metric = Metric {
    group: Group::CheckpointStart,
    heading: ["mean", "% of med"],
    name: "mean, % of the median",
    meaning: "Transactions per second in the five seconds after the starts of all checkpoints of the run, mean, by those of the run's \
              median second.",
    optional: true,
    value: |run| {
        let tps: Vec<f64> = tps(run).collect();
        percent(mean(&tps)?, run.tps_median)
    },
};

/// All of them, by the rate that the checkpoint ended.
pub static START_TPS_BEFORE: Metric = Metric {
    group: Group::CheckpointStart,
    heading: ["mean", "% before"],
    name: "mean, % of the ten seconds before",
    meaning: "Transactions in the five seconds after the start of a checkpoint by those in five of the ten seconds before it; mean of \
              the run's checkpoints. The run's median has in it what a surge leaves behind.",
    optional: true,
    value: |run| {
        let shares: Vec<f64> = starts(run)
            .into_iter()
            .filter_map(|first| {
                let before = run.series.tps.get(first.checked_sub(SECONDS_BEFORE)?..first)?;
                let after = run.series.tps.get(first..first + SECONDS)?;
                percent(mean(after)?, mean(before)?)
            })
            .collect();
        mean(&shares)
    },
};

/// Their latency.
pub static START_LATENCY_P99: Metric = Metric {
    group: Group::CheckpointStart,
    heading: ["p99", "ms"],
    name: "99th percentile of latency, ms",
    meaning: "The highest 99th percentile of latency that one of the five seconds after the start of a checkpoint of the run has.",
    optional: true,
    value: latency_p99,
};

/// By how much that is above what is usual.
pub static START_LATENCY_P99_RATIO: Metric = Metric {
    group: Group::CheckpointStart,
    heading: ["p99", "x med"],
    name: "99th percentile, times the median second's",
    meaning: "The same by the 99th percentile of the median second of the run.",
    optional: true,
    value: |run| {
        let mut all: Vec<f64> = run.series.latency_p99_ms.iter().copied().flatten().collect();
        all.sort_by(f64::total_cmp);
        let median = *all.get(all.len() / 2)?;
        ratio(latency_p99(run)?, median)
    },
};

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

fn latency_p99(run: &Run) -> Option<f64> {
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
