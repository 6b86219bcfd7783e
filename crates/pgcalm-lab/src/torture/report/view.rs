//! Crash cycles for readers: what was found in each, and the verdict.

use pgcalm_render::document::{Column, Document, Table};
use pgcalm_render::number::{MISSING, printable};

use super::{Cycle, Report, Stale};
use crate::report;
use crate::report::{Shown, settings};

/// Tables of more cycles than this show only sums and what failed.
const LISTED: usize = 16;

const HEADINGS: [&str; 13] = [
    "cycles",
    "crash",
    "under\nload s",
    "in\nckpt",
    "commits",
    "rows\ncompared",
    "lost",
    "corrupt",
    "torn",
    "other\nfaults",
    "pages\nbridged",
    "pages\nflushed",
    "recovery s\nmean (max)",
];

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        let of_servers = self.server_settings.iter().map(|(name, value)| format!("{name} = {value}"));
        document.conditions.push(of_servers.collect());
        document.title = Some(verdict(self));
        document.readings = lines(self);
        document.section("Cycles").table(table(self));
        document
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }
}

/// Cycles that a row of the table stands for.
struct Row<'a> {
    label: String,
    crash: String,
    cycles: Vec<&'a Cycle>,
}

fn table(report: &Report) -> Table {
    let column = |(index, heading): (usize, &&str)| match index {
        0 | 1 => Column::text(*heading),
        _ => Column::figures(*heading),
    };
    let mut table = Table::new(HEADINGS.iter().enumerate().map(column));
    let mut rows = Vec::new();
    for cycle in &report.cycles {
        if report.cycles.len() <= LISTED || !cycle.is_sound() {
            rows.push(Row { label: format!("#{}", cycle.number), crash: kind(cycle), cycles: vec![cycle] });
        }
    }
    let mut kinds: Vec<String> = report.cycles.iter().map(kind).collect();
    kinds.sort();
    kinds.dedup();
    if report.cycles.len() > 1 {
        for crash in kinds {
            let cycles: Vec<&Cycle> = report.cycles.iter().filter(|cycle| kind(cycle) == crash).collect();
            rows.push(Row { label: cycles.len().to_string(), crash, cycles });
        }
        rows.push(Row {
            label: report.cycles.len().to_string(),
            crash: "all".to_string(),
            cycles: report.cycles.iter().collect(),
        });
    }
    for row in rows {
        table.row(cells(&row));
    }
    table
}

fn kind(cycle: &Cycle) -> String {
    printable(&format!("{} {}", cycle.fs, cycle.crash))
}

fn cells(row: &Row) -> impl Iterator<Item = String> {
    let sum = |count: fn(&Cycle) -> u64| {
        let sum: u64 = row.cycles.iter().map(|cycle| count(cycle)).sum();
        sum.to_string()
    };
    let load: f64 = row.cycles.iter().map(|cycle| cycle.load_s).sum();
    let recoveries: Vec<f64> = row.cycles.iter().filter_map(|c| c.recovery_s).collect();
    let recovery = if recoveries.is_empty() {
        MISSING.to_string()
    } else {
        let mean = recoveries.iter().sum::<f64>() / recoveries.len() as f64;
        let max = recoveries.iter().copied().fold(0.0, f64::max);
        if row.cycles.len() == 1 { format!("{mean:.1}") } else { format!("{mean:.1} ({max:.1})") }
    };
    let figures = [
        format!("{load:.1}"),
        sum(|cycle| cycle.checkpoint.is_some().into()),
        sum(|cycle| cycle.commits),
        sum(|cycle| cycle.rows_compared),
        sum(|cycle| cycle.rows_lost),
        sum(|cycle| cycle.rows_corrupt),
        sum(|cycle| cycle.rows_torn),
        sum(|cycle| cycle.problems.len() as u64),
        sum(|cycle| cycle.bridged_pages),
        sum(|cycle| cycle.flushed_pages),
        recovery,
    ];
    [row.label.clone(), row.crash.clone()].into_iter().chain(figures)
}

fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if report.cycles.iter().any(|cycle| cycle.crash == "shutdown") {
        lines.push(
            "shutdown: the file system is shut down without flushing its log, the server killed, the file system \
             unmounted and mounted again: what was only in the page cache or in the log's memory is lost."
                .to_string(),
        );
    }
    if report.cycles.iter().any(|cycle| cycle.crash == "kill") {
        lines.push(
            "kill: SIGKILL to all processes of the server; the page cache survives, as it does when only the server crashes."
                .to_string(),
        );
    }
    lines.extend(stale(report));
    for cycle in report.cycles.iter().filter(|cycle| !cycle.is_sound()) {
        lines.push(format!("cycle {} ({}): {}", cycle.number, kind(cycle), cycle.findings()));
    }
    for control in &report.controls {
        let sabotage = &control.sabotage;
        match control.cycles.last() {
            Some(last) if control.detected() => lines.push(format!(
                "control: detected loss as it must ({}, {sabotage}, cycle {}, {} commits acknowledged): {}",
                kind(last),
                last.number,
                last.commits,
                last.findings()
            )),
            Some(last) => lines.push(format!(
                "control: NO loss detected ({}, {sabotage}) in {} cycles",
                kind(last),
                control.cycles.len()
            )),
            None => lines.push(format!("control: not run ({sabotage})")),
        }
    }
    lines.push(verdict(report));
    lines
}

fn verdict(report: &Report) -> String {
    match report.failure() {
        Some(failure) => format!("FAILED: {failure}"),
        None => {
            let commits: u64 = report.cycles.iter().map(|cycle| cycle.commits).sum();
            let done = report.cycles.len();
            let crashes = match report.settings.get("cycles").filter(|_| report.interrupted) {
                Some(all) => format!("interrupted: {done} of {all} crashes"),
                None => format!("passed: {done} crash{}", if done == 1 { "" } else { "es" }),
            };
            format!("{crashes}, {commits} acknowledged commits, none lost, nothing corrupt")
        }
    }
}

/// Where blocks of deleted files showed up, if they were looked for.
fn stale(report: &Report) -> Option<String> {
    let found: Vec<_> = report.cycles.iter().filter_map(|cycle| cycle.stale.as_ref()).collect();
    if found.is_empty() {
        return None;
    }
    let sum = |blocks: fn(&Stale) -> u64| found.iter().map(|stale| blocks(stale)).sum::<u64>();
    let crashes = |blocks: fn(&Stale) -> u64| {
        let hit = found.iter().filter(|stale| blocks(stale) > 0).count();
        format!("{} in {hit} of {} crashes", sum(blocks), found.len())
    };
    let mut files: Vec<&str> = found.iter().flat_map(|stale| stale.files.iter().map(String::as_str)).collect();
    files.sort_unstable();
    files.dedup();
    let files = if files.is_empty() { String::new() } else { format!(" ({})", printable(&files.join(", "))) };
    Some(format!(
        "blocks that show a deleted file's data: {}, in files that nobody synced; {}, in the server's before recovery; \
         {}, in the server's after it{files}.",
        crashes(|stale| stale.in_unsynced_files),
        crashes(|stale| stale.before_recovery),
        crashes(|stale| stale.after_recovery),
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::Host;
    use crate::torture::report::Control;

    pub(crate) fn cycle(number: u32, fs: &str, crash: &str) -> Cycle {
        Cycle {
            number,
            fs: fs.into(),
            crash: crash.into(),
            load_s: 2.5,
            checkpoint: Some("immediate force wait".into()),
            checkpoints: 2,
            drained_checkpoints: 1,
            commits: 1000,
            rows_written: 4000,
            bridged_pages: 70,
            flushed_pages: 600,
            unflushed_pages: 12,
            recovery_s: Some(1.25),
            rows_compared: 20_000,
            ..Cycle::default()
        }
    }

    pub(crate) fn report() -> Report {
        Report {
            scenario: crate::torture::HELP.name.into(),
            host: Host::of_a_test("cgroup-v1-root"),
            settings: BTreeMap::from([("seed".into(), 1.into())]),
            server_settings: BTreeMap::from([("pg_calm.mode".into(), "on".into())]),
            interrupted: false,
            cycles: vec![cycle(1, "ext4", "shutdown"), cycle(2, "xfs", "kill")],
            controls: vec![Control {
                sabotage: "fsync=off".into(),
                server_settings: BTreeMap::from([("fsync".into(), "off".into())]),
                cycles: vec![Cycle { rows_lost: 7, ..cycle(1, "ext4", "shutdown") }],
            }],
        }
    }

    #[test]
    fn sums_and_verdict_are_shown() {
        let text = report().text();
        assert!(text.contains("control: detected loss as it must (ext4 shutdown, fsync=off, cycle 1"), "{text}");
        assert!(text.contains("passed: 2 crashes, 2000 acknowledged commits"), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("2") && line.contains("all") && line.contains("40000")),
            "{text}"
        );
        assert!(text.contains("page cache survives"), "{text}");
        assert!(report().html().contains("<h1>passed: "));
        assert!(report().document().markdown().starts_with("# passed: "));
        assert!(report().document().tabs().lines().count() > 2);
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn what_was_done_until_a_signal_is_no_pass_and_no_failure_but_by_a_loss() {
        let mut report = Report { interrupted: true, ..report() };
        report.settings.insert("cycles".into(), 20.into());
        report.cycles.truncate(1);
        report.cycles[0].flushed_pages = 0;
        assert!(report.text().contains("interrupted: 1 of 20 crashes, 1000 acknowledged commits"), "{}", report.text());
        assert_eq!(report.failure(), None);
        report.cycles[0].rows_lost = 2;
        assert!(report.text().contains("FAILED: cycle 1"), "{}", report.text());
    }

    #[test]
    fn blocks_of_deleted_files_are_told_where_they_were_looked_for() {
        let mut report = report();
        assert!(!report.text().contains("deleted file"));
        report.cycles[0].stale = Some(Stale {
            in_unsynced_files: 17,
            before_recovery: 3,
            after_recovery: 1,
            files: vec!["base/5/16390_fsm".into()],
        });
        let text = report.text().replace('\n', " ");
        assert!(
            text.contains("17 in 1 of 1 crashes, in files that nobody synced; 3 in 1 of 1 crashes, in the server's before recovery"),
            "{text}"
        );
        assert!(text.contains("(base/5/16390_fsm)"), "{text}");
    }

    #[test]
    fn a_long_run_lists_only_what_failed() {
        let mut report = report();
        report.cycles = (1..=40).map(|n| cycle(n, "ext4", "kill")).collect();
        report.cycles[29].rows_lost = 2;
        let text = report.text();
        assert!(!text.contains("#29 "), "{text}");
        assert!(text.contains("#30 "), "{text}");
        assert!(text.contains("FAILED: cycle 30 (ext4, kill): 2 acknowledged rows lost"), "{text}");
    }
}
