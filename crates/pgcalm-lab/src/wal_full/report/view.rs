//! The rehearsal for readers: each case, what had to be so, and the rate second by second.

use pgcalm_render::chart::{Chart, Entry, Scale};
use pgcalm_render::document::{Block, Column, Document, Table, figure};
use pgcalm_render::number::printable;

use crate::report;
use crate::report::{Shown, settings, style};
use crate::wal_full::report::{Case, Report};

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        let mut rules = self.rules();
        let missed = rules.iter().filter(|(_, rule)| !rule.met).count();
        let verdict = match missed {
            0 => "passed: all that must hold does".to_string(),
            missed => format!("FAILED: {missed} of {} that must hold do not", rules.len()),
        };
        // Misses first.
        rules.sort_by_key(|(_, rule)| rule.met);
        document.readings = rules
            .into_iter()
            .map(|(case, rule)| {
                let word = if rule.met { "met" } else { "MISSED" };
                format!("{word}: {} {}: {}: {}", case.kind, case.contestant, rule.must, rule.was)
            })
            .collect();
        document.readings.push(verdict.clone());
        document.title = Some(verdict);
        document.section("Cases").table(table(self)).note("Seconds from when WAL began to be kept.");
        let section = document.section("Transactions per second, second by second").on_page();
        for kind in self.cases.chunk_by(|one, other| one.kind == other.kind) {
            section.heading(printable(&kind[0].kind)).add(Block::Charts(vec![chart(kind)]));
        }
        document
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }
}

fn table(report: &Report) -> Table {
    let figures = [
        ("dies\ns", "When the server ends with a PANIC, or the guard refuses all writers."),
        ("up again\nafter s", "From its end until it takes connections, given 64 MB at once."),
        ("warned\ns", "When the guard first warns."),
        ("then\n% full", "How full the volume was then."),
        ("then\nleft s", "What was left then, as the guard said."),
        ("TPS\nbefore", "Mean before WAL was kept."),
        ("slowed", "Mean from 5 s after the first wait for the guard to the end of the cause."),
        ("varia-\ntion", "Coefficient of variation in that time."),
        ("worst\nsecond", "From when WAL is kept to the end of the run, or of the server."),
        ("at\nzero", "Seconds without a transaction in that time."),
        ("full rate\nafter s", "From the end of the cause to 90 % of the rate before."),
    ];
    let figures = figures.into_iter().map(|(heading, meaning)| Column::figures(heading).meaning(meaning));
    let mut table = Table::new([Column::text("case")].into_iter().chain(figures));
    let whole = |value: Option<f64>| figure(value.map(f64::round));
    for case in &report.cases {
        let warning = case.warning.as_ref();
        table.row([
            format!("{} {}", case.kind, case.contestant),
            whole(case.died_s.or(case.refused_s)),
            figure(case.up_again_s),
            whole(warning.map(|warning| warning.after_s)),
            whole(warning.map(|warning| warning.full_percent)),
            whole(warning.map(|warning| warning.left_s)),
            whole(Some(case.tps_before)),
            whole(case.tps_slowed),
            figure(case.variation),
            whole(Some(case.tps_worst)),
            case.seconds_zero.to_string(),
            figure(case.full_rate_s),
        ]);
    }
    table
}

/// The contestants of one kind.
fn chart(cases: &[Case]) -> Chart {
    let styles = style::assign(cases.iter().map(|case| case.contestant.as_str()));
    let entries = cases.iter().zip(styles).map(|(case, style)| Entry {
        name: printable(&case.contestant),
        style,
        lines: vec![case.run.series.tps.iter().copied().map(Some).collect()],
        checkpoints: Vec::new(),
    });
    Chart::of("Transactions per second", "tps", entries.collect(), Scale::Linear, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal_full::report::tests::report;

    #[test]
    fn cases_and_verdicts_are_shown_misses_first() {
        let mut report = report();
        report.cases[2].seconds_zero = 3;
        let text = report.text();
        let row = text.lines().find(|line| line.starts_with("slot on ")).unwrap_or_else(|| panic!("{text}"));
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[4..], ["5", "75", "5", "100", "10", "0", "10", "3", "0"], "{text}");
        let missed = text.find("MISSED: slot on: no second at zero: 3").unwrap();
        assert!(missed < text.find("met: slot stock: stock dies").unwrap(), "{text}");
        assert!(text.ends_with("FAILED: 1 of 7 that must hold do not\n"), "{text}");
        let page = report.html();
        assert!(page.contains("Transactions per second"), "{page}");
        assert!(text.lines().all(|line| line.chars().count() <= 125), "{text}");
    }
}
