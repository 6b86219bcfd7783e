//! A suite in words: computed facts only.

use std::collections::BTreeSet;

use pgcalm_render::number::{factor, printable, short};

use super::compare::COMPARED;
use super::{Report, Row, SUBJECT, Verdict, order};
use crate::contest::report::{CapKind, Contestant, checkpoint_start};
use crate::report::Host;
use crate::report::settings::{build, server, shown};

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
pub(super) static SHOWN: [Shown; 10] = [
    Shown { heading: ["TPS", "mean"], figure: of_metric!(TPS_MEAN), compared: Some("tps_mean") },
    Shown { heading: ["TPS", "worst"], figure: of_metric!(TPS_MIN), compared: Some("tps_min") },
    Shown { heading: ["secs", "<half"], figure: of_metric!(SECONDS_BELOW_HALF_MEDIAN), compared: None },
    Shown { heading: ["ms", "p99.9"], figure: of_metric!(LATENCY_P999), compared: Some("latency_p999_ms") },
    Shown { heading: ["ms", "max"], figure: of_metric!(LATENCY_MAX), compared: Some("latency_max_ms") },
    Shown { heading: ["chk", "pts"], figure: |contestant| Some(f64::from(contestant.checkpoints())), compared: None },
    Shown { heading: ["write", "s"], figure: of_metric!(CHECKPOINT_WRITE_MAX), compared: None },
    Shown { heading: ["device", "rd/s"], figure: of_metric!(DEVICE_READ_OPS), compared: None },
    Shown { heading: ["device", "wr/s"], figure: of_metric!(DEVICE_WRITE_OPS), compared: None },
    Shown { heading: ["device", "MiB/s"], figure: of_metric!(DEVICE_WRITE_MIB), compared: None },
];

/// Under the matrix.
pub(super) const NOTES: [&str; 2] = [
    "x: times stock's figure of the same row, medians of the runs. ~ is the same: the ranges of the runs overlap, or the figures \
     differ by less than 3 % (mean), 10 % (worst second; or 3 % of stock's mean), 20 % (p99.9; or 1 ms), 25 % (longest; or \
     10 ms). Where lengths of runs differ by more than a quarter, worst second and longest are compared over that of the \
     shortest. chk pts: checkpoints that ended in the measured time, in the run with the fewest. write s: the longest write \
     phase of one.",
    "Figures of different rows must not be compared where they are of different caps or machines. MiB/s are written; \
     rd/s and wr/s without empty flushes.",
];

/// How a contestant's figure compares with stock's, e.g. `1.03x` or `~1.00x`.
pub(super) fn ratio(row: &Row, contestant: &str, metric: &str) -> Option<(String, Verdict)> {
    let comparison = row.comparison(contestant, metric)?;
    let sign = match comparison.verdict {
        Verdict::Same => "~",
        Verdict::Better | Verdict::Worse => "",
    };
    let factor = match factor(comparison.value, comparison.baseline) {
        Some(factor) => factor,
        None if comparison.verdict == Verdict::Same => "0".to_string(),
        None => ">0".to_string(),
    };
    Some((format!("{sign}{factor}"), comparison.verdict))
}

/// In what a contestant is worse than stock, better, and the same, e.g. `worse: mean TPS; better: p99.9, longest transaction`.
pub(super) fn verdict(row: &Row, contestant: &str) -> Option<String> {
    let parts: Vec<String> = [Verdict::Worse, Verdict::Better, Verdict::Same]
        .into_iter()
        .filter_map(|verdict| {
            let found: Vec<&str> = COMPARED
                .iter()
                .filter(|compared| {
                    row.comparison(contestant, compared.name).is_some_and(|found| found.verdict == verdict)
                })
                .map(|compared| compared.title)
                .collect();
            (!found.is_empty()).then(|| format!("{}: {}", verdict.name(), found.join(", ")))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Lowest and highest of several runs, of all figures that are compared.
pub(super) fn spread(contestant: &Contestant) -> Option<String> {
    let ranges: Vec<String> = COMPARED
        .iter()
        .filter_map(|compared| {
            let (low, high) = compared.metric.of(contestant)?.range?;
            Some(format!("{} {} to {}", compared.title, short(low), short(high)))
        })
        .collect();
    let runs = contestant.runs.len();
    (!ranges.is_empty()).then(|| format!("{runs} runs: {}", ranges.join(", ")))
}

/// What the rows were measured with: server, kernel, file systems, dates and builds.
pub(super) fn made_with(report: &Report) -> Option<String> {
    let results = || report.rows.iter().filter_map(|row| row.report.as_ref());
    let others = order::others(report);
    let hosts: Vec<&Host> =
        results().map(|run| &run.host).chain(others.iter().filter_map(|(_, other)| other.host())).collect();
    hosts.first()?;
    let all = |texts: &mut dyn Iterator<Item = String>| {
        let texts: BTreeSet<String> = texts.filter(|text| !text.is_empty()).collect();
        texts.into_iter().collect::<Vec<_>>()
    };
    let joined = |prefix: &str, texts: &mut dyn Iterator<Item = String>| {
        let texts = all(texts);
        (!texts.is_empty()).then(|| format!("{prefix}{}", texts.join(", ")))
    };
    let days = all(&mut hosts.iter().map(|host| host.started_at.chars().take(10).collect()));
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => Some(format!("{first} to {last}")),
        (first, _) => first.cloned(),
    };
    let file_system = |run: &crate::contest::report::Report| run.settings.get("fs").map(shown).unwrap_or_default();
    let parts: Vec<String> = [
        joined("", &mut hosts.iter().map(|host| server(&host.postgres))),
        joined("Linux ", &mut hosts.iter().map(|host| host.kernel.clone())),
        joined("", &mut results().map(file_system)),
        days,
        joined("pg_calm ", &mut report.rows.iter().filter_map(|row| Some(build(row.module.as_deref()?)))),
        joined("pgcalm ", &mut hosts.iter().map(|host| host.pgcalm.clone())),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(printable(&parts.join("; ")))
}

/// Whether any row was measured on a volume that is not what its name says.
pub(super) fn is_emulated(report: &Report) -> bool {
    report.rows.iter().filter_map(|row| row.report.as_ref()).any(|run| run.cap.kind == CapKind::CloudVolume)
}

/// How its checkpoints began.
pub(super) fn start(row: &Row) -> Option<String> {
    checkpoint_start::sentence(&row.report.as_ref()?.contestants)
}

/// What is wrong with a row.
pub(super) fn remarks(row: &Row) -> Vec<String> {
    let Some(report) = &row.report else { return Vec::new() };
    let mut remarks = Vec::new();
    let unsteady: Vec<String> = report
        .contestants
        .iter()
        .filter(|contestant| {
            contestant.runs.iter().any(|run| run.backlog.as_ref().is_some_and(|backlog| !backlog.steady_state))
        })
        .map(|contestant| printable(&contestant.name))
        .collect();
    if !unsteady.is_empty() {
        remarks.push(format!("no steady state, the backlog still changed at the end: {}", unsteady.join(", ")));
    }
    for contestant in &report.contestants {
        if let Some(objection) = contestant.objection() {
            remarks.push(format!("{}: not steady: {}", printable(&contestant.name), printable(objection)));
        }
    }
    remarks.extend(failed_troubles(row));
    for contestant in &report.contestants {
        if contestant.runs.iter().any(|run| run.server_failure.is_some()) {
            remarks.push(format!("{}: the server gave up", printable(&contestant.name)));
        }
    }
    remarks
}

/// Whose trouble failed, so that there is no verdict.
pub(super) fn failed_troubles(row: &Row) -> Vec<String> {
    let contestants = row.report.iter().flat_map(|report| &report.contestants);
    contestants
        .filter_map(|contestant| {
            let trouble = contestant.failed_trouble()?;
            let why = trouble.failure.as_deref().unwrap_or_default();
            let text = format!("{}: no verdict, trouble {} failed: {why}", contestant.name, trouble.name);
            Some(printable(&text))
        })
        .collect()
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
            let found: Vec<_> = report.rows.iter().filter_map(|row| row.comparison(SUBJECT, compared.name)).collect();
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
                found.iter().filter(|comparison| comparison.verdict == Verdict::Same).count()
            ))
        })
        .collect();
    let unsteady: Vec<&str> =
        report.rows.iter().filter(|row| !row.objections().is_empty()).map(|row| row.name.as_str()).collect();
    if !unsteady.is_empty() {
        lines.push(format!("Not steady: {}", unsteady.join(", ")));
    }
    let failed: Vec<&str> = order::failed(report).iter().map(|(row, _)| row.name.as_str()).collect();
    if !failed.is_empty() {
        lines.push(format!("Failed: {}", failed.join(", ")));
    }
    let missing: Vec<&str> = order::missing(report).iter().map(|row| row.name.as_str()).collect();
    if !missing.is_empty() {
        lines.push(format!("Without a result: {}", missing.join(", ")));
    }
    let builds: BTreeSet<&str> = report.rows.iter().filter_map(|row| row.module.as_deref()).collect();
    if builds.len() > 1 {
        lines.push(format!("Rows were measured with {} different builds of the module", builds.len()));
    }
    for (row, other) in order::others(report) {
        if let Some(failure) = other.shown().failure() {
            lines.push(format!("{}: {failure}", row.name));
        }
    }
    if lines.is_empty() {
        lines.push("No row compares pg_calm with stock.".to_string());
    }
    lines
}

fn times(ratio: f64) -> Option<String> {
    factor(ratio, 1.0)
}
