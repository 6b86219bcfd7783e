//! Archivers as one self-contained HTML file, in the manner of the contest's report.

use maud::Markup;
use maud::html;
use pgcalm_render::chart;
use pgcalm_render::chart::Chart;
use pgcalm_render::chart::Entry;
use pgcalm_render::chart::Scale;
use pgcalm_render::number::MISSING;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;

use super::Archiver;
use super::Report;
use super::Series;
use super::metric;
use super::text;
use crate::report::page;
use crate::report::page::Heading;
use crate::report::settings;
use crate::report::style;

/// More lines than this can't be told apart.
const MOST_LINES: usize = 8;

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    let lines = text::lines(report);
    let sections = html! {
        section {
            h2 { "Comparison" }
            (comparison(report))
        }
        (charts(report))
        section {
            h2 { "Archivers" }
            @for archiver in &report.archivers { (describe(archiver)) }
        }
        section {
            h2 { "Host" }
            p { (settings::host(&report.host).join("; ")) }
        }
        section {
            h2 { "Terms" }
            dl {
                @for metric in text::shown(report) {
                    dt { (metric.heading.join(" ")) }
                    dd { (metric.meaning) }
                }
            }
        }
    };
    page::scenario(
        &Heading {
            scenario: &report.scenario,
            host: &report.host,
            headline: lines.first().map_or("", String::as_str),
            readings: lines.get(1..).unwrap_or_default(),
            conditions: &[text::conditions(report)],
        },
        &sections,
        None,
    )
}

fn comparison(report: &Report) -> Markup {
    let ranked = metric::ranked(report);
    let metrics = text::shown(report);
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.text scope="col" { "archiver" }
                        th scope="col" { "rank" }
                        @for metric in &metrics { th scope="col" title=(metric.meaning) { (metric.heading.join(" ")) } }
                    }
                }
                @for archiver in &report.archivers {
                    tr {
                        th.text scope="row" { (archiver.name) }
                        td { (metric::place(&ranked, archiver)) }
                        @for metric in &metrics { td { (metric.of(archiver).map_or(MISSING.to_string(), short)) } }
                    }
                }
            }
        }
        p.note { "Medians of the runs. Only archivers that lost nothing in the power cut have a rank, by files per second." }
    }
}

/// The drain beside pgbench in the first run of each.
fn charts(report: &Report) -> Markup {
    let loaded: Vec<(&Archiver, &Series)> = report
        .archivers
        .iter()
        .filter_map(|archiver| Some((archiver, &archiver.runs.first()?.loaded.as_ref()?.series)))
        .collect();
    if loaded.is_empty() || loaded.len() > MOST_LINES {
        return html! {};
    }
    let styles = style::assign(loaded.iter().map(|(archiver, _)| archiver.name.as_str()));
    let figure = |title, name, scale, note: &str, read: fn(&Series) -> Vec<Option<f64>>| {
        let entries = loaded
            .iter()
            .zip(&styles)
            .map(|((archiver, series), style)| Entry {
                name: printable(&archiver.name),
                style: *style,
                lines: vec![read(series)],
                checkpoints: Vec::new(),
            })
            .collect();
        let chart = Chart { note: note.to_string(), ..Chart::of(title, name, entries, scale, None) };
        chart::figure::render(&chart, &format!("{title} by second."))
    };
    html! {
        section {
            h2 { "Beside pgbench, second by second" }
            (figure(
                "Transactions per second", "tps", Scale::Linear, "First run of each.",
                |series| series.tps.iter().copied().map(Some).collect(),
            ))
            (figure(
                "Latency, 99th percentile, ms", "latency_p99_ms", Scale::Log,
                "Logarithmic. A gap is a second in which no transaction ended.",
                |series| series.latency_p99_ms.clone(),
            ))
            (figure(
                "WAL files waiting to be archived", "queue_files", Scale::Linear, "At the beginning of each second.",
                |series| series.queue_files.iter().copied().map(Some).collect(),
            ))
        }
    }
}

fn describe(archiver: &Archiver) -> Markup {
    html! {
        h3 { (archiver.name) }
        p { (archiver.description) }
        table.pairs {
            @for (name, value) in &archiver.server_settings {
                tr { th scope="row" { (name) } td { (value) } }
            }
        }
    }
}
