//! What targets would cost, in words.

use pgcalm_render::document::{Column, Document, Table};
use pgcalm_render::number::{self, MISSING, percent, plural, short};

use super::super::cost::PART;
use super::{Cost, Report};
use crate::words;

/// As a document; `time` is how it shows the moment.
pub fn document(report: &Report, time: &str) -> Document {
    let seen = &report.observed;
    let mut document = Document::new("pgcalm targets", "targets", time);
    document.title = Some("What targets would cost".to_string());
    let changes = format!(
        "{} of WAL, {}: {} of blocks, {}",
        words::time(seen.seconds),
        words::size(seen.wal_bytes),
        plural(seen.changes as f64, "change"),
        plural(seen.images as f64, "full-page image"),
    );
    document.conditions = vec![vec![changes]];
    let iops = report.write_iops.map(|iops| format!("the volume writes {iops} operations per second"));
    let bytes = report.write_bandwidth.map(|bytes| format!("the volume writes {} per second", words::size(bytes)));
    let replay = report.replay_bytes_per_second.map(|rate| {
        let how = if report.replay_was_seen { "as in the last recovery" } else { "as long as none was seen" };
        format!("recovery replays {} of WAL per second, {how}", number::bytes(rate))
    });
    document.conditions.push([iops, bytes, replay].into_iter().flatten().collect());

    document.section("How to read it").note(format!(
        "Each page that was changed is written once per round: of the cleaner for a stop target, else of checkpoints. pg_calm aims at \
         {} of a target. Reads and WAL take their part of the volume, too. Hint bits and unlogged tables are not in WAL.",
        percent(PART)
    ));
    let section = document.section("pg_calm.stop_target");
    match report.stop.is_empty() {
        true => section.text("How fast the volume writes is not known: give --iops and --bandwidth."),
        false => section.table(table(&report.stop, "≥ ")),
    };
    if !report.recovery.is_empty() {
        document.section("pg_calm.recovery_target").table(table(&report.recovery, "≤ "));
    }
    document
}

/// `bound` is that of what it takes now, if WAL tells too little.
fn table(costs: &[Cost], bound: &str) -> Table {
    let mut table = Table::new([
        Column::text("target"),
        Column::figures("round").meaning("How long a page stays dirty, at most."),
        Column::figures("pages\n/s").meaning("Pages written per second."),
        Column::figures("operations\n/s").meaning("Write operations per second, with neighbours as one."),
        Column::figures("of the\nvolume").meaning("Part of what the volume writes."),
        Column::figures("images\nper s").meaning("Full-page images in WAL, by each first change after a checkpoint."),
    ]);
    for cost in costs {
        let bounded = |mark: &str, figure: String| if cost.at_most { format!("{mark}{figure}") } else { figure };
        let round = || words::time(cost.round_seconds);
        table.row([
            match cost.target_seconds {
                None => format!("none: {}", bounded(bound, words::time(cost.takes_seconds))),
                Some(target) => words::time(target),
            },
            match cost.target_seconds {
                None => round(),
                Some(_) if !cost.possible => "impossible".to_string(),
                Some(_) if cost.as_now => "as now".to_string(),
                Some(_) => bounded("≥ ", round()),
            },
            bounded("≤ ", short(cost.pages_per_s)),
            bounded("≤ ", short(cost.operations_per_s)),
            cost.volume_share.map_or(MISSING.to_string(), |share| bounded("≤ ", percent(share))),
            bounded("≤ ", number::bytes(cost.image_bytes_per_s)),
        ]);
    }
    table
}
