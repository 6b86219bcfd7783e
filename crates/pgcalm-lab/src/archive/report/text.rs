//! Archivers for a terminal.

use comfy_table::Cell;
use pgcalm_render::number::MISSING;
use pgcalm_render::number::factor;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;
use pgcalm_render::text::new_table;
use pgcalm_render::text::paragraph;
use pgcalm_render::text::push_table;
use pgcalm_render::text::right;

use super::Archiver;
use super::Report;
use super::metric;
use super::metric::ALL;
use super::metric::FILES_PER_S;
use super::metric::MIB_PER_S;
use super::metric::Metric;
use crate::report::heading::heading;
use crate::report::settings;

/// The archivers under a heading with the conditions, and what the table says in words; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    heading(&mut out, &report.scenario, &report.host, &conditions(report));
    out.push('\n');
    if !report.archivers.is_empty() {
        table(&mut out, report);
        out.push('\n');
    }
    for line in lines(report) {
        paragraph(&mut out, &line);
    }
    out
}

/// The options of the run, one phrase each; who took part is in the table.
pub(super) fn conditions(report: &Report) -> Vec<String> {
    settings::options(&report.settings, &["archivers"])
}

/// The figures that any archiver has.
pub(super) fn shown(report: &Report) -> Vec<&'static Metric> {
    ALL.into_iter().filter(|metric| report.archivers.iter().any(|archiver| metric.of(archiver).is_some())).collect()
}

fn table(out: &mut String, report: &Report) {
    let metrics = shown(report);
    let ranked = metric::ranked(report);
    let mut table = new_table(
        [Cell::new("\narchiver"), right("\nrank")]
            .into_iter()
            .chain(metrics.iter().map(|metric| right(metric.heading.join("\n")))),
    );
    for archiver in &report.archivers {
        let figures = metrics.iter().map(|metric| right(metric.of(archiver).map_or(MISSING.to_string(), short)));
        table.add_row(
            [Cell::new(printable(&archiver.name)), right(metric::place(&ranked, archiver))].into_iter().chain(figures),
        );
    }
    push_table(out, table, 1);
}

/// What the table says, in sentences.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let ranked = metric::ranked(report);
    lines.extend(lead(&ranked));
    lines.extend(bandwidth(report, &ranked));
    for archiver in &report.archivers {
        let loss = archiver.runs.iter().filter_map(|run| run.crash.as_ref()).find(|crash| !crash.is_durable());
        if let Some(crash) = loss {
            let first = crash.first_loss.as_ref().map(|loss| format!(" ({})", printable(loss))).unwrap_or_default();
            lines.push(format!(
                "{} lost what it had acknowledged: of {} files {} were missing and {} different after the power \
                 cut{first}",
                printable(&archiver.name),
                crash.acknowledged,
                crash.missing,
                crash.different,
            ));
        }
    }
    if report.archivers.iter().all(|archiver| archiver.runs.is_empty()) {
        lines.push("No run was completed.".to_string());
    }
    lines
}

/// The fastest of ours against the fastest of the others.
fn lead(ranked: &[&Archiver]) -> Option<String> {
    let is_ours = |archiver: &Archiver| archiver.name.starts_with("pg_calm");
    let ours = ranked.iter().find(|archiver| is_ours(archiver))?;
    let other = ranked.iter().find(|archiver| !is_ours(archiver))?;
    let factor = factor(FILES_PER_S.of(ours)?, FILES_PER_S.of(other)?)?;
    Some(format!(
        "{}: {factor} the files per second of {}, the fastest of the others that lost nothing",
        printable(&ours.name),
        printable(&other.name)
    ))
}

/// The first three against the device.
fn bandwidth(report: &Report, ranked: &[&Archiver]) -> Option<String> {
    let dd = metric::dd_mib_per_s(report)?;
    let mut text = format!("dd conv=fsync to the archive's device: {} MiB/s", short(dd));
    for archiver in ranked.iter().take(3) {
        let share = 100.0 * MIB_PER_S.of(archiver)? / dd;
        text.push_str(&format!(", {} {share:.0} % of it", printable(&archiver.name)));
    }
    Some(text)
}
