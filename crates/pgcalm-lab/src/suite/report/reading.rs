//! A suite in words: computed facts only.

use std::collections::BTreeSet;

use pgcalm_render::number::factor;
use pgcalm_render::number::printable;

use super::Report;
use super::Row;
use super::SUBJECT;
use super::Verdict;
use super::compare::COMPARED;
use super::order;
use crate::contest::report::Contestant;
use crate::contest::report::checkpoint_start;
use crate::contest::report::metric::TPS_MEAN;

/// Something shown of each contestant.
pub(super) struct Shown {
    /// Heading in two short lines.
    pub(super) heading: [&'static str; 2],
    pub(super) figure: fn(&Contestant) -> Option<f64>,
    /// By which name it is compared with stock.
    pub(super) compared: Option<&'static str>,
}

macro_rules! of_metric {
    ($metric:ident) => {
        |contestant| crate::contest::report::metric::$metric.median_of(contestant)
    };
}

/// The figures of the matrix, in its order.
pub(super) static SHOWN: [Shown; 8] = [
    Shown {
        heading: ["TPS", "mean"],
        figure: of_metric!(TPS_MEAN),
        compared: Some("tps_mean"),
    },
    Shown {
        heading: ["TPS", "median"],
        figure: of_metric!(TPS_MEDIAN),
        compared: None,
    },
    Shown {
        heading: ["TPS", "worst"],
        figure: of_metric!(TPS_MIN),
        compared: Some("tps_min"),
    },
    Shown {
        heading: ["secs", "<half"],
        figure: of_metric!(SECONDS_BELOW_HALF_MEDIAN),
        compared: None,
    },
    Shown {
        heading: ["ms", "p99"],
        figure: of_metric!(LATENCY_P99),
        compared: Some("latency_p99_ms"),
    },
    Shown {
        heading: ["device", "rd/s"],
        figure: of_metric!(DEVICE_READ_OPS),
        compared: None,
    },
    Shown {
        heading: ["device", "wr/s"],
        figure: of_metric!(DEVICE_WRITE_OPS),
        compared: None,
    },
    Shown {
        heading: ["device", "MiB/s"],
        figure: of_metric!(DEVICE_WRITE_MIB),
        compared: None,
    },
];

/// Under the matrix.
pub(super) const NOTES: [&str; 2] = [
    "x: times stock's figure of the same row. ~ is no difference: the ranges of the runs overlap or, with one run \
     each, the figures are less than half a percent apart. One run each says nothing about the spread.",
    "Figures of different rows must not be compared where they are of different caps or machines. MiB/s are written; \
     rd/s and wr/s without empty flushes.",
];

/// How a contestant's figure compares with stock's, e.g. `1.03x` or `~1.00x`.
pub(super) fn ratio(row: &Row, contestant: &str, metric: &str) -> Option<(String, Verdict)> {
    let comparison = row.comparison(contestant, metric)?;
    let sign = match comparison.verdict {
        Verdict::NoDifference => "~",
        Verdict::Better | Verdict::Worse => "",
    };
    let factor = match factor(comparison.value, comparison.baseline) {
        Some(factor) => factor,
        None if comparison.verdict == Verdict::NoDifference => "0".to_string(),
        None => ">0".to_string(),
    };
    Some((format!("{sign}{factor}"), comparison.verdict))
}

/// Lowest and highest mean TPS of several runs.
pub(super) fn spread(contestant: &Contestant) -> Option<(f64, f64)> {
    TPS_MEAN.of(contestant)?.range
}

/// What a reader must know of a row beside its figures.
pub(super) fn remarks(row: &Row) -> Vec<String> {
    let Some(report) = &row.report else {
        return Vec::new();
    };
    let mut remarks: Vec<String> = checkpoint_start::sentence(&report.contestants)
        .into_iter()
        .collect();
    let unsteady: Vec<String> = report
        .contestants
        .iter()
        .filter(|contestant| {
            contestant.runs.iter().any(|run| {
                run.backlog
                    .as_ref()
                    .is_some_and(|backlog| !backlog.steady_state)
            })
        })
        .map(|contestant| printable(&contestant.name))
        .collect();
    if !unsteady.is_empty() {
        remarks.push(format!(
            "no steady state, the backlog still changed at the end: {}",
            unsteady.join(", ")
        ));
    }
    for contestant in &report.contestants {
        if contestant
            .runs
            .iter()
            .any(|run| run.server_failure.is_some())
        {
            remarks.push(format!(
                "{}: the server gave up",
                printable(&contestant.name)
            ));
        }
    }
    remarks
}

/// By what a row was capped, in one line.
pub(super) fn cap(row: &Row) -> Option<String> {
    let cap = &row.report.as_ref()?.cap;
    let mut text = printable(&cap.description);
    if let Some(memory) = &cap.memory {
        text.push_str("; ");
        text.push_str(&printable(memory));
    }
    Some(text)
}

/// How often the subject is better and worse than stock, one line per figure, and what is missing.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = COMPARED
        .iter()
        .filter_map(|compared| {
            let found: Vec<_> = report
                .rows
                .iter()
                .filter_map(|row| row.comparison(SUBJECT, compared.name))
                .collect();
            if found.is_empty() {
                return None;
            }
            let of = |verdict: Verdict, words: &str| {
                let ratios: Vec<f64> = found
                    .iter()
                    .filter(|comparison| comparison.verdict == verdict)
                    .filter_map(|comparison| comparison.ratio)
                    .collect();
                let count = found.iter().filter(|c| c.verdict == verdict).count();
                let low = ratios.iter().copied().min_by(f64::total_cmp);
                let high = ratios.iter().copied().max_by(f64::total_cmp);
                let range = match (low.and_then(times), high.and_then(times)) {
                    (Some(low), Some(high)) if low == high => format!(" ({low})"),
                    (Some(low), Some(high)) => format!(" ({low} to {high})"),
                    _ => String::new(),
                };
                format!("{words} in {count}{range}")
            };
            Some(format!(
                "{SUBJECT}'s {} against stock's in {} rows: {}, {}, the same in {}",
                compared.title,
                found.len(),
                of(Verdict::Better, "better"),
                of(Verdict::Worse, "worse"),
                found
                    .iter()
                    .filter(|comparison| comparison.verdict == Verdict::NoDifference)
                    .count()
            ))
        })
        .collect();
    let failed: Vec<&str> = order::failed(report)
        .iter()
        .map(|(row, _)| row.name.as_str())
        .collect();
    if !failed.is_empty() {
        lines.push(format!("Failed: {}", failed.join(", ")));
    }
    let missing: Vec<&str> = order::missing(report)
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    if !missing.is_empty() {
        lines.push(format!("Without a result: {}", missing.join(", ")));
    }
    let builds: BTreeSet<&str> = report
        .rows
        .iter()
        .filter_map(|row| row.module.as_deref())
        .collect();
    if builds.len() > 1 {
        lines.push(format!(
            "Rows were measured with {} different builds of the module",
            builds.len()
        ));
    }
    if lines.is_empty() {
        lines.push("No row compares pg_calm with stock.".to_string());
    }
    lines
}

fn times(ratio: f64) -> Option<String> {
    factor(ratio, 1.0)
}
