//! Contestants against stock within a row.

use super::BASELINE;
use super::Comparison;
use super::Verdict;
use crate::contest::report::Contestant;
use crate::contest::report::Report;
use crate::contest::report::metric::Figure;
use crate::contest::report::metric::LATENCY_P99;
use crate::contest::report::metric::Metric;
use crate::contest::report::metric::TPS_MEAN;
use crate::contest::report::metric::TPS_MIN;

/// Has no caps: not a rival.
const REFERENCE: &str = "stock-uncapped";

/// With one run each nothing is known of the spread; what is nearer to one is shown as `1.00x`.
const SAME: f64 = 0.005;

/// A figure by which contestants are compared.
pub(super) struct Compared {
    /// Name in the document.
    pub(super) name: &'static str,
    /// How readings call it.
    pub(super) title: &'static str,
    metric: &'static Metric,
    more_is_better: bool,
}

/// All of them.
pub(super) static COMPARED: [Compared; 3] = [
    Compared {
        name: "tps_mean",
        title: "mean TPS",
        metric: &TPS_MEAN,
        more_is_better: true,
    },
    Compared {
        name: "tps_min",
        title: "worst second",
        metric: &TPS_MIN,
        more_is_better: true,
    },
    Compared {
        name: "latency_p99_ms",
        title: "p99",
        metric: &LATENCY_P99,
        more_is_better: false,
    },
];

/// Empty where stock did not run.
pub(super) fn of(report: &Report) -> Vec<Comparison> {
    let named = |name: &str| report.contestants.iter().find(|c| c.name == name);
    let Some(stock) = named(BASELINE) else {
        return Vec::new();
    };
    report
        .contestants
        .iter()
        .filter(|c| c.name != BASELINE && c.name != REFERENCE)
        .flat_map(|rival| {
            COMPARED
                .iter()
                .filter_map(|compared| against(compared, rival, stock))
        })
        .collect()
}

fn against(compared: &Compared, rival: &Contestant, stock: &Contestant) -> Option<Comparison> {
    let (ours, theirs) = (compared.metric.of(rival)?, compared.metric.of(stock)?);
    let ratio = (theirs.median > 0.0)
        .then(|| ours.median / theirs.median)
        .filter(|ratio| ratio.is_finite());
    let more = ours.median > theirs.median;
    let verdict = if is_same(&ours, &theirs, ratio) {
        Verdict::NoDifference
    } else if more == compared.more_is_better {
        Verdict::Better
    } else {
        Verdict::Worse
    };
    Some(Comparison {
        contestant: rival.name.clone(),
        metric: compared.name.to_string(),
        value: ours.median,
        baseline: theirs.median,
        ratio,
        verdict,
    })
}

fn is_same(ours: &Figure, theirs: &Figure, ratio: Option<f64>) -> bool {
    if let (Some((low, high)), Some((their_low, their_high))) = (ours.range, theirs.range) {
        return low <= their_high && their_low <= high;
    }
    match ratio {
        Some(ratio) => (ratio - 1.0).abs() < SAME,
        None => ours.median == theirs.median,
    }
}
