//! Contestants against stock within a row: better, the same or worse.
//!
//! The rule, for each of the figures in [`COMPARED`]. A contestant is better or worse than stock if
//!
//! - the ranges of both contestants' runs do not overlap: it is beyond the spread of either, and
//! - their medians differ by a least share of the larger one: the spread of one run is not known, and that of two that came out
//!   alike by chance is hardly, and
//! - they differ by a least amount, below which nobody would notice, whatever share that is.
//!
//! Otherwise they are the same. Extremes are compared over equal lengths ([`equally_long`]).
//!
//! Runs that were to become steady (--steady) and did not are not compared at all, nor are those in which a trouble failed:
//! whoever is spared it looks better than he is. Whether the backlog of other runs still
//! changed at their end is a remark, no bar: their length is the suite's choice, and readings at different phases of a
//! checkpoint differ however steady a run is.

use std::borrow::Cow;

use super::{BASELINE, Comparison, Verdict};
use crate::contest::report::metric::{Figure, LATENCY_MAX, LATENCY_P999, Metric, TPS_MEAN, TPS_MIN};
use crate::contest::report::{Contestant, Report};

/// Has no caps: not a rival.
const REFERENCE: &str = "stock-uncapped";

/// A figure by which contestants are compared.
pub(super) struct Compared {
    /// Name in the document.
    pub(super) name: &'static str,
    /// How readings call it.
    pub(super) title: &'static str,
    pub(super) metric: &'static Metric,
    more_is_better: bool,
    /// Of the larger median, that makes a difference.
    least_share: f64,
    least: Least,
}

/// The least amount that makes a difference.
#[derive(Clone, Copy)]
enum Least {
    /// Milliseconds.
    Ms(f64),
    /// Share of stock's mean TPS.
    OfMean(f64),
}

/// All of them.
pub(super) static COMPARED: [Compared; 4] = [
    Compared {
        name: "tps_mean",
        title: "mean TPS",
        metric: &TPS_MEAN,
        more_is_better: true,
        // Two runs of one contestant on one machine, minutes apart, made 3966 and 4072, others 3559 and 3606.
        least_share: 0.03,
        least: Least::OfMean(0.0),
    },
    Compared {
        name: "tps_min",
        title: "worst second",
        metric: &TPS_MIN,
        more_is_better: true,
        // A single second: where it is an ordinary one it is as far off the mean by chance.
        least_share: 0.1,
        // Whether a stall leaves 40 or 90 of 3000 TPS is the same stall.
        least: Least::OfMean(0.03),
    },
    Compared {
        name: "latency_p999_ms",
        title: "p99.9",
        metric: &LATENCY_P999,
        more_is_better: false,
        // Of a hundred thousand transactions a hundred, all of which may be of one second.
        least_share: 0.2,
        // An operation or two of a volume.
        least: Least::Ms(1.0),
    },
    Compared {
        name: "latency_max_ms",
        title: "longest transaction",
        metric: &LATENCY_MAX,
        more_is_better: false,
        // One transaction of all.
        least_share: 0.25,
        // A turn of a host's scheduler, or of the hypervisor's.
        least: Least::Ms(10.0),
    },
];

/// Empty where stock did not run, was not steady, or a trouble of it failed.
pub(super) fn of(report: &Report) -> Vec<Comparison> {
    let named = |name: &str| report.contestants.iter().find(|c| c.name == name);
    let counts = |contestant: &&Contestant| contestant.objection().is_none() && contestant.failed_trouble().is_none();
    let Some(stock) = named(BASELINE).filter(counts) else { return Vec::new() };
    report
        .contestants
        .iter()
        .filter(|c| c.name != BASELINE && c.name != REFERENCE)
        .filter(counts)
        .flat_map(|rival| {
            let [rival, stock] = equally_long(rival, stock);
            COMPARED.iter().filter_map(|compared| against(compared, &rival, &stock)).collect::<Vec<_>>()
        })
        .collect()
}

/// Both, with their extremes over as many seconds as the shortest run has where lengths differ by more than a quarter: the
/// longer a run is, the worse is its worst second.
fn equally_long<'a>(rival: &'a Contestant, stock: &'a Contestant) -> [Cow<'a, Contestant>; 2] {
    let seconds = || rival.runs.iter().chain(&stock.runs).map(|run| run.series.tps.len());
    let (shortest, longest) = (seconds().min().unwrap_or_default(), seconds().max().unwrap_or_default());
    [rival, stock].map(|contestant| {
        let mut contestant = Cow::Borrowed(contestant);
        if 4 * shortest < 3 * longest {
            for run in &mut contestant.to_mut().runs {
                let worst = run.series.tps.iter().take(shortest).copied().reduce(f64::min);
                run.tps_min = worst.unwrap_or(run.tps_min);
                let slowest = run.series.latency_max_ms.iter().take(shortest).copied().flatten().reduce(f64::max);
                if let (Some(latency), Some(slowest)) = (&mut run.latency_ms, slowest) {
                    latency.max = slowest;
                }
            }
        }
        contestant
    })
}

fn against(compared: &Compared, rival: &Contestant, stock: &Contestant) -> Option<Comparison> {
    let (ours, theirs) = (compared.metric.of(rival)?, compared.metric.of(stock)?);
    let ratio = (theirs.median > 0.0).then(|| ours.median / theirs.median).filter(|ratio| ratio.is_finite());
    Some(Comparison {
        contestant: rival.name.clone(),
        metric: compared.name.to_string(),
        value: ours.median,
        range: ours.range.map(Into::into),
        checkpoints: rival.checkpoints(),
        baseline: theirs.median,
        baseline_range: theirs.range.map(Into::into),
        baseline_checkpoints: stock.checkpoints(),
        ratio,
        verdict: compared.verdict(&ours, &theirs, TPS_MEAN.median_of(stock)?),
    })
}

impl Compared {
    /// By the rule above.
    fn verdict(&self, ours: &Figure, theirs: &Figure, stocks_mean: f64) -> Verdict {
        let ends = |figure: &Figure| figure.range.unwrap_or((figure.median, figure.median));
        let ((low, high), (their_low, their_high)) = (ends(ours), ends(theirs));
        let overlap = low <= their_high && their_low <= high;
        let difference = (ours.median - theirs.median).abs();
        let least = match self.least {
            Least::Ms(ms) => ms,
            Least::OfMean(share) => share * stocks_mean,
        };
        let larger = ours.median.max(theirs.median);
        if overlap || difference < self.least_share * larger || difference < least {
            Verdict::Same
        } else if (ours.median > theirs.median) == self.more_is_better {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(runs: &[f64]) -> Figure {
        let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = runs.iter().copied().fold(0.0, f64::max);
        Figure { median: (low + high) / 2.0, range: (runs.len() > 1).then_some((low, high)) }
    }

    /// Of one figure, with a mean of 1000 TPS of stock.
    fn verdict(name: &str, stock: &[f64], ours: &[f64]) -> Verdict {
        let compared = COMPARED.iter().find(|c| c.name == name).unwrap();
        compared.verdict(&figure(ours), &figure(stock), 1000.0)
    }

    #[test]
    fn beyond_the_ranges_of_both_is_a_difference() {
        let mean = |stock: &[f64], ours: &[f64]| verdict("tps_mean", stock, ours);
        assert_eq!(mean(&[1000.0, 1200.0], &[1180.0, 1400.0]), Verdict::Same);
        assert_eq!(mean(&[1000.0, 1200.0], &[1210.0, 1400.0]), Verdict::Better);
        assert_eq!(mean(&[1000.0, 1200.0], &[800.0, 990.0]), Verdict::Worse);
    }

    #[test]
    fn a_least_share_is_asked_for_with_one_run_and_with_ranges_that_are_next_to_nothing() {
        let mean = |stock: &[f64], ours: &[f64]| verdict("tps_mean", stock, ours);
        assert_eq!(mean(&[1000.0], &[1030.0]), Verdict::Same);
        assert_eq!(mean(&[1000.0], &[1031.0]), Verdict::Better);
        // The same seen from the other side.
        assert_eq!(mean(&[1030.0], &[1000.0]), Verdict::Same);
        assert_eq!(mean(&[1031.0], &[1000.0]), Verdict::Worse);
        assert_eq!(mean(&[1000.0, 1001.0], &[1002.0, 1003.0]), Verdict::Same);
    }

    #[test]
    fn worst_seconds_of_the_same_stall_are_the_same() {
        let worst = |stock: f64, ours: f64| verdict("tps_min", &[stock], &[ours]);
        assert_eq!(worst(0.0, 29.0), Verdict::Same);
        assert_eq!(worst(0.0, 31.0), Verdict::Better);
        assert_eq!(worst(600.0, 545.0), Verdict::Same);
        assert_eq!(worst(600.0, 535.0), Verdict::Worse);
    }

    #[test]
    fn less_latency_is_better() {
        let p999 = |stock: f64, ours: f64| verdict("latency_p999_ms", &[stock], &[ours]);
        assert_eq!(p999(63.0, 90.0), Verdict::Worse);
        assert_eq!(p999(63.0, 8.0), Verdict::Better);
        assert_eq!(p999(10.0, 8.5), Verdict::Same);
        assert_eq!(p999(2.0, 2.9), Verdict::Same);
        let longest = |stock: f64, ours: f64| verdict("latency_max_ms", &[stock], &[ours]);
        assert_eq!(longest(203.0, 1138.0), Verdict::Worse);
        assert_eq!(longest(203.0, 259.0), Verdict::Same);
        assert_eq!(longest(18.0, 9.0), Verdict::Same);
    }
}
