//! The tables of the report, and what is told beside them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use pgcalm_render::document::{Block, Column, Table};
use pgcalm_render::number::{MISSING, short};
use serde_json::Value;

use crate::contest::report::metric::{Group, Metric, TPS_MEAN};
use crate::contest::report::{Contestant, Report, metric};
use crate::report::settings::shown;
use crate::report::style;

/// Figures as rows and contestants as columns: four columns fit on a phone, fourteen do not.
pub(crate) fn comparison(report: &Report) -> Markup {
    let repeated = report.contestants.iter().any(|contestant| contestant.runs.len() > 1);
    let styles = style::assign(report.contestants.iter().map(|contestant| contestant.name.as_str()));
    let metrics = metric::shown(&report.contestants);
    html! {
        div.scroll {
            table.comparison style={ "min-width:" (84 + 66 * report.contestants.len()) "px" } {
                thead {
                    tr {
                        th {}
                        @for (contestant, style) in report.contestants.iter().zip(styles) {
                            th scope="col" { span.name.(style.class()) { (breakable(&contestant.name)) } }
                        }
                    }
                }
                @for (index, metric) in metrics.iter().enumerate() {
                    @if index == 0 || metrics[index - 1].group != metric.group {
                        tr.group { th scope="colgroup" colspan=(report.contestants.len() + 1) { span { (metric.group.title()) } } }
                    }
                    tr {
                        th scope="row" { (metric.name) }
                        @for contestant in &report.contestants { td { (figure(metric, contestant)) } }
                    }
                }
            }
        }
        @if repeated { p.note { "Each figure is the median of the runs; below it the lowest and highest run where they differ." } }
    }
}

fn figure(metric: &Metric, contestant: &Contestant) -> Markup {
    let Some(figure) = metric.of(contestant) else {
        return html! { (MISSING) };
    };
    html! {
        (short(figure.median))
        @if let Some((low, high)) = figure.range.map(|(low, high)| (short(low), short(high))) {
            // "0–0" says nothing that "0" does not.
            @if low != high { small { (low) "–" wbr; (high) } }
        }
    }
}

/// Lets `stock-uncapped` break in a narrow column, at its joint.
fn breakable(name: &str) -> Markup {
    html! {
        @for part in name.split_inclusive('-') { (part) wbr; }
    }
}

/// The same for a narrow place: contestants as rows, and as many tables as it takes.
pub(super) fn narrow(report: &Report) -> Vec<Block> {
    // What clients see, then what the server did to its volumes, then how checkpoints begin.
    let (start, others): (Vec<_>, Vec<_>) =
        metric::shown(&report.contestants).into_iter().partition(|metric| metric.group == Group::CheckpointStart);
    let (seen, done): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|metric| matches!(metric.group, Group::Throughput | Group::Stalls | Group::Latency));
    let mut blocks = vec![Block::Table(of_metrics(report, &seen)), Block::Table(of_metrics(report, &done))];
    if !start.is_empty() {
        blocks.push(Block::Text(Group::CheckpointStart.title().to_string()));
        blocks.push(Block::Table(of_metrics(report, &start)));
    }
    if report.contestants.iter().any(|contestant| contestant.runs.len() > 1) {
        blocks.push(Block::Note("Each figure is the median of the runs; [lowest..highest run].".to_string()));
    }
    blocks
}

fn of_metrics(report: &Report, metrics: &[&Metric]) -> Table {
    let figures = metrics.iter().map(|metric| Column::figures(metric.heading.join("\n")).meaning(metric.meaning));
    let mut table = Table::new(std::iter::once(Column::text("contestant")).chain(figures));
    for contestant in &report.contestants {
        let figures = metrics.iter().map(|metric| with_range(metric, contestant));
        table.row(std::iter::once(contestant.name.clone()).chain(figures));
    }
    table
}

fn with_range(metric: &Metric, contestant: &Contestant) -> String {
    let Some(figure) = metric.of(contestant) else { return MISSING.to_string() };
    match figure.range {
        Some((low, high)) if std::ptr::eq(metric, &TPS_MEAN) => {
            format!("{}\n[{}..{}]", short(figure.median), short(low), short(high))
        }
        _ => short(figure.median),
    }
}

/// Every checkpoint of every run.
pub(super) fn checkpoints(report: &Report) -> Vec<Block> {
    let of = |contestant: &Contestant| {
        let count: usize = contestant.runs.iter().map(|run| run.checkpoints.len()).sum();
        if count == 0 {
            return Block::Text(format!("{}: none completed in the window.", contestant.name));
        }
        let before = ["run", "start, s", "end, s"].map(Column::figures).into_iter().chain([Column::text("reason")]);
        let after = ["buffers", "write, s", "sync, s", "total, s", "files", "longest fsync, s"].map(Column::figures);
        let mut table = Table::new(before.chain(after));
        for (index, run) in contestant.runs.iter().enumerate() {
            for checkpoint in &run.checkpoints {
                table.row([
                    (index + 1).to_string(),
                    short(checkpoint.start_s),
                    short(checkpoint.end_s),
                    checkpoint.reason.clone(),
                    checkpoint.buffers.to_string(),
                    short(checkpoint.write_s),
                    short(checkpoint.sync_s),
                    short(checkpoint.total_s),
                    checkpoint.sync_files.to_string(),
                    short(checkpoint.longest_sync_s),
                ]);
            }
        }
        Block::Details(format!("{}: {count}", contestant.name), vec![Block::Table(table)])
    };
    report.contestants.iter().map(of).collect()
}

/// What each contestant is, and what its module said at the end.
pub(crate) fn contestants(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    for contestant in &report.contestants {
        blocks.push(Block::Heading(contestant.name.clone()));
        blocks.push(Block::Text(contestant.description.clone()));
        blocks.push(Block::Table(Table::pairs(&contestant.server_settings)));
        for (index, run) in contestant.runs.iter().enumerate().filter(|(_, run)| !run.module_status.is_empty()) {
            let summary = format!("pg_calm_status at the end of run {}", index + 1);
            blocks.push(Block::Details(summary, vec![Block::Table(pairs(&run.module_status))]));
        }
    }
    blocks
}

/// Who slept uninterruptibly, and where in the kernel.
pub(crate) fn blocked(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    for contestant in &report.contestants {
        for (index, run) in contestant.runs.iter().enumerate().filter(|(_, run)| !run.blocked.is_empty()) {
            let of_run = if contestant.runs.len() > 1 { format!(", run {}", index + 1) } else { String::new() };
            let stack = Column::stack("kernel stack, innermost first");
            let mut table = Table::new([Column::figures("samples"), Column::text("process"), stack]);
            for blocked in &run.blocked {
                let stack = if blocked.stack.is_empty() { "not readable".into() } else { blocked.stack.join("\n") };
                table.row([blocked.samples.to_string(), blocked.process.clone(), stack]);
            }
            blocks.push(Block::Details(format!("{}{of_run}", contestant.name), vec![Block::Table(table)]));
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("No process was seen in uninterruptible sleep.".to_string()));
    }
    blocks
}

/// The machine.
pub(crate) fn host(report: &Report) -> Table {
    let host = &report.host;
    let named = [
        ("kernel", host.kernel.clone()),
        ("CPUs", host.cpus.to_string()),
        ("memory", format!("{} MiB", host.memory_mib)),
        ("server", host.postgres.clone()),
        ("pgcalm", host.pgcalm.clone()),
        ("started", host.started_at.clone()),
        ("caps by", host.cap_mechanism.clone()),
    ];
    let named = named.into_iter().map(|(name, value)| (name.to_string(), value));
    let sysctls = host.sysctls.iter().map(|(name, value)| (name.clone(), value.clone()));
    let rows = named.chain(sysctls).map(|(name, value)| vec![name, value]).collect();
    Table { rows, ..Table::pairs(&BTreeMap::new()) }
}

/// Names and values of JSON.
pub(super) fn pairs(values: &BTreeMap<String, Value>) -> Table {
    Table::pairs(&values.iter().map(|(name, value)| (name.clone(), shown(value))).collect())
}
