//! A contest as one self-contained HTML file: no network, no script needed to read it.

mod glossary;
pub(crate) mod tables;

use maud::Markup;
use maud::html;
use pgcalm_render::chart::Chart;
use pgcalm_render::chart::Limit;
use pgcalm_render::chart::Scale;
use pgcalm_render::chart::figure;
use pgcalm_render::page::series_data;
use pgcalm_render::page::tooltip;
use serde_json::Value;
use serde_json::json;

use crate::contest::report::Report;
use crate::contest::report::chart;
use crate::contest::report::chart::Runs;
use crate::contest::report::conditions;
use crate::contest::report::reading;
use crate::report::page;
use crate::report::page::Heading;
use crate::report::settings;
use crate::report::style;

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    let readings = reading::lines(report);
    let sections = html! {
        section {
            h2 { "Comparison" }
            (tables::comparison(report))
        }
        (charts(report))
        (sections(report))
        section {
            h2 { "Terms" }
            (glossary::render())
        }
    };
    page::scenario(
        &Heading {
            scenario: &report.scenario,
            host: &report.host,
            headline: readings.first().map_or("", String::as_str),
            readings: readings.get(1..).unwrap_or_default(),
            conditions: &[conditions::conditions(report), settings::machine(&report.host)],
        },
        &sections,
        Some(&scripts(report)),
    )
}

/// What is in tables beside the comparison.
pub(crate) fn sections(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Checkpoints" }
            (tables::checkpoints(report))
        }
        section {
            h2 { "Contestants" }
            (tables::contestants(report))
        }
        section {
            h2 { "Blocked processes" }
            (tables::blocked(report))
        }
        section.columns {
            div {
                h2 { "Settings" }
                (tables::settings(report))
            }
            div {
                h2 { "Host" }
                (tables::host(report))
            }
        }
    }
}

/// What shows the values under the pointer.
pub(crate) fn scripts(report: &Report) -> Markup {
    html! {
        (series_data(&series(report)))
        (tooltip())
    }
}

pub(crate) fn charts(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Second by second" }
            (tps_chart(report))
            (other_charts(report))
        }
    }
}

fn is_repeated(report: &Report) -> bool {
    report.contestants.iter().any(|contestant| contestant.runs.len() > 1)
}

fn noted(chart: Chart, note: &str) -> Chart {
    Chart { note: note.to_string(), ..chart }
}

fn figure(report: &Report, chart: &Chart) -> Markup {
    figure::render(chart, &chart::summary(chart, report))
}

/// The chart that a report is opened for.
pub(crate) fn tps_chart(report: &Report) -> Markup {
    let repeated = is_repeated(report);
    let tps = chart::tps(report);
    let mut note = String::new();
    if repeated {
        note.push_str("A thin line for each run. ");
    }
    if tps.has_checkpoints() {
        note.push_str("The bars show when checkpoints ran");
        note.push_str(if repeated { " in the first run" } else { "" });
        note.push_str(": pale while they write, solid while they sync.");
    }
    figure(report, &noted(tps, &note))
}

/// All others.
pub(crate) fn other_charts(report: &Report) -> Markup {
    let first_run = if is_repeated(report) { "First run of each. " } else { "" };
    let first = |title, field, scale, limit, note: &str| {
        let chart = chart::of(report, title, field, Runs::First, scale, limit);
        noted(chart, &format!("{first_run}{note}"))
    };
    let uncapped = report.contestants.iter().any(|contestant| contestant.name == "stock-uncapped");
    let cap_note = |limit: &Option<Limit>| match (limit, uncapped) {
        (None, _) => "",
        (Some(_), false) => "The cap is dashed.",
        (Some(_), true) => "The cap is dashed; it does not apply to stock-uncapped.",
    };
    let (iops, bandwidth) = (chart::iops_limit(report), chart::bandwidth_limit(report));
    let (iops_note, bandwidth_note) = (format!("Empty flushes count, too. {}", cap_note(&iops)), cap_note(&bandwidth));
    let figure = |chart: Chart| figure(report, &chart);
    html! {
        (figure(first(
            "Latency, 99th percentile, ms", &chart::LATENCY_P99, Scale::Log, None,
            "Logarithmic. A gap is a second in which no transaction ended.",
        )))
        div.pair {
            (figure(first(
                "Write operations on the data device, per second", &chart::DATA_WRITE_OPS, Scale::Linear,
                iops, iops_note.trim_end(),
            )))
            (figure(first(
                "Written to the data device, MiB/s", &chart::DATA_WRITE_MIB, Scale::Linear,
                bandwidth, bandwidth_note,
            )))
            (figure(first(
                "Dirty page cache, MiB", &chart::DIRTY, Scale::Linear, None,
                "Dirty of /proc/meminfo, whole host.",
            )))
            (figure(first(
                "Page cache under writeback, MiB", &chart::WRITEBACK, Scale::Linear, None,
                "Writeback of /proc/meminfo, whole host.",
            )))
        }
    }
}

/// What the tooltip shows: the first run of each contestant.
pub(crate) fn series(report: &Report) -> Value {
    let styles = style::assign(report.contestants.iter().map(|contestant| contestant.name.as_str()));
    // Hundredths are more than a tooltip needs, and all digits would double the file.
    let rounded = |value: Option<f64>| value.map(|value| (value * 100.0).round() / 100.0);
    let contestants: Vec<Value> = report
        .contestants
        .iter()
        .zip(styles)
        .map(|(contestant, style)| {
            let mut fields = serde_json::Map::new();
            for field in chart::FIELDS {
                let values = contestant.runs.first().map_or_else(Vec::new, |run| (field.read)(&run.series));
                let values: Vec<Option<f64>> = values.into_iter().map(rounded).collect();
                fields.insert(field.name.to_string(), json!(values));
            }
            json!({"name": contestant.name, "class": style.class(), "fields": fields})
        })
        .collect();
    Value::Array(contestants)
}
