//! Power cuts at the steps of archiving for readers: each point, and the verdict.

use std::collections::BTreeMap;

use pgcalm_render::document::{Column, Document, Table};

use crate::archive_crash::report::{Cycle, Report};
use crate::report;
use crate::report::{Shown, settings};

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        let of_servers = self.server_settings.iter().map(|(name, value)| format!("{name} = {value}"));
        document.conditions.push(of_servers.collect());
        document.title = Some(verdict(self));
        document.readings = lines(self);
        document.section("Points").table(table(self));
        document
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }
}

fn table(report: &Report) -> Table {
    let mut points: BTreeMap<(&str, &str), Vec<&Cycle>> = BTreeMap::new();
    for cycle in &report.cycles {
        let point = cycle.point.as_deref().unwrap_or_default();
        points.entry((&cycle.fs, point)).or_default().push(cycle);
    }
    let figures = ["cycles", "stopped\nthere", "violations", "other\nfaults"].map(Column::figures);
    let mut table = Table::new(["file system", "stopped right after"].map(Column::text).into_iter().chain(figures));
    for ((fs, point), cycles) in &points {
        let sum = |count: fn(&Cycle) -> usize| cycles.iter().map(|cycle| count(cycle)).sum::<usize>().to_string();
        table.row([
            fs.to_string(),
            point.to_string(),
            cycles.len().to_string(),
            sum(|cycle| cycle.stopped.into()),
            sum(|cycle| cycle.violations.len()),
            sum(|cycle| cycle.problems.len()),
        ]);
    }
    table
}

fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report
        .cycles
        .iter()
        .filter(|cycle| !cycle.is_sound())
        .map(|cycle| {
            format!(
                "cycle {} ({}, {}, call {}, synced: {}): {}",
                cycle.number,
                cycle.fs,
                cycle.point.as_deref().unwrap_or_default(),
                cycle.call,
                cycle.synced.join(" "),
                cycle.findings()
            )
        })
        .collect();
    for control in &report.controls {
        let cuts = control.cycles.len();
        lines.push(match control.cycles.last() {
            Some(last) if control.detected() => format!(
                "control: found out as it must be ({}, {}, power cut {cuts}): {}",
                control.fs,
                control.sabotage,
                last.findings()
            ),
            _ => format!("control: NOT found out ({}, {}) in {cuts} power cuts", control.fs, control.sabotage),
        });
    }
    lines.push(verdict(report));
    lines
}

fn verdict(report: &Report) -> String {
    match report.failure() {
        Some(failure) => format!("FAILED: {failure}"),
        None => {
            let done = report.cycles.len();
            let cuts = match report.settings.get("cycles").filter(|_| report.interrupted) {
                Some(all) => format!("interrupted: {done} of {all}"),
                None => format!("passed: {done}"),
            };
            format!(
                "{cuts} power cuts, {} with a process stopped at its point; {} finished segments, all of them in pg_wal or \
                 whole in the archive, none announced that is gone",
                report.stopped(),
                segments(report)
            )
        }
    }
}

/// Segments of all file systems.
fn segments(report: &Report) -> u64 {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for cycle in &report.cycles {
        last.insert(&cycle.fs, cycle.segments);
    }
    last.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive_crash::report::tests::{cycle, report};

    #[test]
    fn points_controls_and_verdict_are_shown() {
        let mut report = report();
        report.cycles.push(Cycle { stopped: false, segments: 20, ..cycle(3, "archiver: rename") });
        let text = report.text();
        let row = |words: &str| {
            let line = text.lines().find(|line| line.contains(words));
            line.unwrap_or_else(|| panic!("{words}: {text}")).to_string()
        };
        let cells: Vec<String> = row("archiver: rename").split_whitespace().skip(3).map(str::to_string).collect();
        assert_eq!(cells, ["2", "1", "0", "0"], "{text}");
        assert!(row("control: ").contains("found out as it must be"));
        assert!(row("passed: ").starts_with("passed: 3 power cuts, 2 with"), "{text}");
        assert!(text.contains("20 finished segments"), "{text}");
        assert!(report.html().contains("<h1>passed: "));
        assert!(report.document().markdown().starts_with("# passed: "));
        assert!(report.document().tabs().lines().count() > 2);
    }

    #[test]
    fn what_was_done_until_a_signal_is_no_pass_and_no_failure_but_by_a_loss() {
        let mut report = Report { interrupted: true, ..report() };
        report.settings.insert("cycles".into(), 20.into());
        report.cycles = vec![Cycle { stopped: false, ..cycle(1, "archiver: rename") }];
        assert!(report.text().contains("interrupted: 1 of 20 power cuts, 0 with"), "{}", report.text());
        report.cycles[0].violations.push("0002 is gone".into());
        assert!(report.text().contains("FAILED: cycle 1"), "{}", report.text());
    }

    #[test]
    fn what_failed_is_told_with_all_that_repeats_it() {
        let mut report = report();
        report.cycles[1].violations.push("0002 is gone".into());
        report.controls[0].cycles[0].violations.clear();
        let text = report.text().replace('\n', " ");
        assert!(text.contains("cycle 2 (ext4, archiver: fsync, call 2, synced: data): 0002 is gone"), "{text}");
        assert!(text.contains("control: NOT found out (ext4"), "{text}");
        assert!(text.contains("FAILED: cycle 2"), "{text}");
    }
}
