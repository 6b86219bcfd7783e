//! Overload for readers: each case, the pairs without overload, and the verdict.

use pgcalm_render::document::{Column, Document, Table, figure};
use pgcalm_render::number::{MISSING, short};

use crate::guard::report::{Case, Idle, Report, holds};
use crate::report;
use crate::report::{Shown, settings};

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        let verdict = match self.failure() {
            Some(failure) => format!("FAILED: {failure}"),
            None => "passed: who had to get through did, and stock, if it took part, did not".to_string(),
        };
        document.readings = self.cases.iter().flat_map(lines).chain(self.idle.iter().flat_map(idle)).collect();
        document.readings.push(verdict.clone());
        document.title = Some(verdict);
        document.section("Cases").table(table(self));
        document
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }
}

fn table(report: &Report) -> Table {
    let after = match report.skip_s {
        0 => "all seconds".to_string(),
        skip => format!("after {skip} s"),
    };
    let headings = [
        "seconds".to_string(),
        "at\nzero".to_string(),
        format!("{after}:\nmean TPS"),
        "worst".to_string(),
        "best".to_string(),
        "variation".to_string(),
        "least free for\nWAL, MiB".to_string(),
        "holds".to_string(),
    ];
    let mut table = Table::new(std::iter::once(Column::text("case")).chain(headings.into_iter().map(Column::figures)));
    for case in &report.cases {
        let name = match case.rate {
            Some(rate) => format!("{} {rate}/s", case.name),
            None => case.name.clone(),
        };
        let [mean, worst, best, variation] = match case.evenness(report.skip_s) {
            Some(even) => {
                let [mean, worst, best] = [even.mean, even.worst, even.best].map(|tps| format!("{tps:.0}"));
                [mean, worst, best, format!("{:.2}", even.variation)]
            }
            None => [MISSING; 4].map(str::to_string),
        };
        let (free, holds) = (figure(case.run.wal_free_min_mib), figure(holds(&case.run)));
        table.row([
            name,
            case.tps().len().to_string(),
            case.zero().to_string(),
            mean,
            worst,
            best,
            variation,
            free,
            holds,
        ]);
    }
    table
}

fn lines(case: &Case) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(failure) = &case.run.server_failure {
        lines.push(format!("{}: the server gave up after {:.0} s: {}", case.name, failure.at_s, failure.message));
    }
    if let (Some(rate), Some(pace)) = (case.rate, &case.run.pace_ms) {
        lines.push(format!(
            "{} {rate}/s: mean latency from when a transaction should have begun {} ms; begun late by {} ms in the mean, {} ms at most",
            case.name,
            short(pace.latency_mean),
            short(pace.late_mean),
            short(pace.late_max)
        ));
    }
    let checkpoints = &case.run.checkpoints;
    if case.rate.is_none() && !checkpoints.is_empty() {
        let longest = checkpoints.iter().map(|one| one.total_s).fold(0.0, f64::max);
        lines.push(format!(
            "{}: {} complete checkpoints, the longest {} s",
            case.name,
            checkpoints.len(),
            short(longest)
        ));
    }
    lines
}

fn idle(idle: &Idle) -> Vec<String> {
    let mut lines: Vec<String> = idle
        .pairs
        .iter()
        .map(|pair| {
            format!(
                "idle: off {:.0} TPS, on {:.0}, on/off {:.4}",
                pair.off_tps,
                pair.on_tps,
                pair.on_tps / pair.off_tps
            )
        })
        .collect();
    let holds: Option<f64> = idle.pairs.iter().map(|pair| pair.holds).sum();
    lines.extend(idle.ratio().map(|ratio| {
        format!(
            "idle: on/off: median {:.4}, mean {:.4}, standard error of the mean {:.4}, from {:.4} to {:.4}, {} pairs",
            ratio.median,
            ratio.mean,
            ratio.error,
            ratio.low,
            ratio.high,
            idle.pairs.len()
        )
    }));
    lines.push(match holds {
        Some(holds) => format!("idle: {holds} waits for the guard"),
        None => "idle: waits for the guard are not known".to_string(),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::report::Pace;
    use crate::guard::report::tests::report;

    #[test]
    fn cases_pairs_and_verdict_are_shown() {
        let text = report().text();
        let row = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            let line = line.unwrap_or_else(|| panic!("{start}: {text}"));
            line.split_whitespace().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(row("governed ")[1..], ["5", "1", "3", "0", "5", "0.62", "125", "10"], "{text}");
        assert_eq!(row("stock ")[1..3], ["3", "0"], "{text}");
        assert!(text.contains("stock: the server gave up after 3 s: No space left"), "{text}");
        assert!(text.contains("idle: off 100 TPS, on 90, on/off 0.9000"), "{text}");
        assert!(text.contains("median 1.0000"), "{text}");
        assert!(text.contains("0 waits for the guard"), "{text}");
        assert!(report().html().contains("<h1>passed: "));
        assert!(report().document().markdown().starts_with("# passed: "));
        assert!(report().document().tabs().lines().count() > 2);
        assert!(text.ends_with("passed: who had to get through did, and stock, if it took part, did not\n"));
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn what_is_not_known_is_not_shown_as_nothing() {
        let mut report = report();
        if let Some(idle) = &mut report.idle {
            idle.pairs[0].holds = None;
        }
        assert!(report.text().contains("waits for the guard are not known"));
    }

    #[test]
    fn how_late_a_paced_load_was_is_shown() {
        let mut report = report();
        let case = &mut report.cases[1];
        case.rate = Some(600);
        case.run.pace_ms = Some(Pace { latency_mean: 3.5, late_mean: 2.25, late_max: 95_000.0 });
        let text = report.text().replace('\n', " ");
        assert!(text.contains("governed 600/s"), "{text}");
        assert!(text.contains("should have begun 3.50 ms; begun late by 2.25 ms in the mean, 95000 ms"), "{text}");
    }
}
