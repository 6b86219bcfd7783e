//! Archivers for readers: their figures, what these say, the drain beside pgbench second by second.

use pgcalm_render::chart::{Chart, Entry, Scale};
use pgcalm_render::document::{Block, Column, Document, Table, figure};
use pgcalm_render::number::{factor, printable, short};

use super::metric::{ALL, FILES_PER_S, MIB_PER_S};
use super::{Archiver, Report, Series, metric};
use crate::report;
use crate::report::{Shown, settings, style};

/// More lines than this can't be told apart.
const MOST_LINES: usize = 8;

impl Shown for Report {
    fn document(&self) -> Document {
        // Who took part is in the table.
        let conditions = settings::options(&self.settings, &["archivers"]);
        let mut document = report::document(&self.scenario, &self.host, conditions);
        document.readings = lines(self);
        document.section("Comparison").table(table(self)).note(
            "Medians of the runs. Only archivers that lost nothing in the power cut have a rank, by files per second.",
        );
        let charts = charts(self);
        if !charts.is_empty() {
            let section = document.section("Beside pgbench, second by second").on_page();
            section.blocks = charts.into_iter().map(|chart| Block::Charts(vec![chart])).collect();
        }
        let section = document.section("Archivers").on_page();
        for archiver in &self.archivers {
            section.heading(&archiver.name).text(&archiver.description).table(Table::pairs(&archiver.server_settings));
        }
        document
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }
}

fn table(report: &Report) -> Table {
    // The figures that any archiver has.
    let metrics =
        ALL.into_iter().filter(|metric| report.archivers.iter().any(|archiver| metric.of(archiver).is_some()));
    let metrics: Vec<_> = metrics.collect();
    let ranked = metric::ranked(report);
    let figures = metrics.iter().map(|metric| Column::figures(metric.heading.join("\n")).meaning(metric.meaning));
    let mut table = Table::new([Column::text("archiver"), Column::figures("rank")].into_iter().chain(figures));
    for archiver in &report.archivers {
        let names = [archiver.name.clone(), metric::place(&ranked, archiver)];
        table.row(names.into_iter().chain(metrics.iter().map(|metric| figure(metric.of(archiver)))));
    }
    table
}

/// The drain beside pgbench in the first run of each.
fn charts(report: &Report) -> Vec<Chart> {
    let loaded: Vec<(&Archiver, &Series)> = report
        .archivers
        .iter()
        .filter_map(|archiver| Some((archiver, &archiver.runs.first()?.loaded.as_ref()?.series)))
        .collect();
    if loaded.is_empty() || loaded.len() > MOST_LINES {
        return Vec::new();
    }
    let styles = style::assign(loaded.iter().map(|(archiver, _)| archiver.name.as_str()));
    let chart = |title, name, scale, note: &str, read: fn(&Series) -> Vec<Option<f64>>| {
        let entries = loaded.iter().zip(&styles).map(|((archiver, series), style)| Entry {
            name: printable(&archiver.name),
            style: *style,
            lines: vec![read(series)],
            checkpoints: Vec::new(),
        });
        Chart { note: note.to_string(), ..Chart::of(title, name, entries.collect(), scale, None) }
    };
    vec![
        chart("Transactions per second", "tps", Scale::Linear, "First run of each.", |series| {
            series.tps.iter().copied().map(Some).collect()
        }),
        chart(
            "Latency, 99th percentile, ms",
            "latency_p99_ms",
            Scale::Log,
            "Logarithmic. A gap is a second in which no transaction ended.",
            |series| series.latency_p99_ms.clone(),
        ),
        chart(
            "WAL files waiting to be archived",
            "queue_files",
            Scale::Linear,
            "At the beginning of each second.",
            |series| series.queue_files.iter().copied().map(Some).collect(),
        ),
    ]
}

/// What the table says, in sentences.
fn lines(report: &Report) -> Vec<String> {
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
    let mut cut_off = report.archivers.iter().filter_map(Archiver::is_durable).peekable();
    if cut_off.peek().is_some() && cut_off.all(|is_durable| is_durable) {
        // Whoever does not sync is the control.
        lines.push(
            "nobody lost anything, and cp, which does not sync, has to: the power cut may have shown nothing"
                .to_string(),
        );
    }
    if report.archivers.iter().all(|archiver| archiver.runs.is_empty()) {
        lines.push("No run was completed.".to_string());
    }
    lines
}

/// The fastest of ours against the fastest of the others.
fn lead(ranked: &[&Archiver]) -> Option<String> {
    let ours = ranked.iter().find(|archiver| archiver.is_ours())?;
    let other = ranked.iter().find(|archiver| !archiver.is_ours())?;
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
