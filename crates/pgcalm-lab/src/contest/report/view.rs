//! A contest for readers: who did how well, second by second, and under which conditions.

use maud::{Markup, html};
use pgcalm_render::chart::{Chart, Limit, Scale};
use pgcalm_render::document::{Block, Document, Section};
use pgcalm_render::page::{series_data, tooltip};
use serde_json::{Value, json};

use crate::contest::report::chart::Runs;
use crate::contest::report::glossary::TERMS;
use crate::contest::report::{Cap, Report, Run, chart, conditions, reading, tables};
use crate::report;
use crate::report::{Shown, settings, style};

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, conditions::conditions(self));
        // Its conditions have the caps.
        document.conditions[1] = settings::machine(&self.host);
        document.readings = reading::lines(self);
        document.terms = &TERMS;
        document
            .section("Comparison")
            .add(Block::Page(tables::comparison(self)))
            .add(Block::Elsewhere(tables::narrow(self)));
        document.sections.push(charts(self));
        document.sections.extend(sections(self));
        document.scripts = Some(scripts(self));
        document
    }

    fn completed(mut self) -> Self {
        if self.cap == Cap::default() {
            self.cap = Cap::of_mechanism(&self.host.cap_mechanism);
        }
        for contestant in &mut self.contestants {
            contestant.runs.iter_mut().for_each(Run::complete);
        }
        self
    }
}

/// What is in tables beside the comparison.
pub(crate) fn sections(report: &Report) -> Vec<Section> {
    [
        ("Checkpoints", tables::checkpoints(report)),
        ("Contestants", tables::contestants(report)),
        ("Blocked processes", tables::blocked(report)),
        ("Settings", vec![Block::Table(tables::pairs(&report.settings))]),
        ("Host", vec![Block::Table(tables::host(report))]),
    ]
    .map(|(heading, blocks)| Section { heading: heading.to_string(), blocks, only_on_page: true })
    .into()
}

/// What shows the values under the pointer.
pub(crate) fn scripts(report: &Report) -> Markup {
    html! {
        (series_data(&series(report)))
        (tooltip())
    }
}

pub(crate) fn charts(report: &Report) -> Section {
    let mut blocks = vec![Block::Charts(vec![tps_chart(report)])];
    blocks.extend(other_charts(report));
    Section { heading: "Second by second".to_string(), blocks, only_on_page: true }
}

fn is_repeated(report: &Report) -> bool {
    report.contestants.iter().any(|contestant| contestant.runs.len() > 1)
}

fn noted(report: &Report, chart: Chart, note: &str) -> Chart {
    Chart { note: note.to_string(), summary: chart::summary(&chart, report), ..chart }
}

/// The chart that a report is opened for.
pub(crate) fn tps_chart(report: &Report) -> Chart {
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
    noted(report, tps, &note)
}

/// All others.
pub(crate) fn other_charts(report: &Report) -> Vec<Block> {
    let first_run = if is_repeated(report) { "First run of each. " } else { "" };
    let first = |title, field, scale, limit, note: &str| {
        let chart = chart::of(report, title, field, Runs::First, scale, limit);
        noted(report, chart, &format!("{first_run}{note}"))
    };
    let uncapped = report.contestants.iter().any(|contestant| contestant.name == "stock-uncapped");
    let cap_note = |limit: &Option<Limit>| match (limit, uncapped) {
        (None, _) => "",
        (Some(_), false) => "The cap is dashed.",
        (Some(_), true) => "The cap is dashed; it does not apply to stock-uncapped.",
    };
    let (iops, bandwidth) = (chart::iops_limit(report), chart::bandwidth_limit(report));
    let (iops_note, bandwidth_note) = (format!("Empty flushes count, too. {}", cap_note(&iops)), cap_note(&bandwidth));
    let latency = first(
        "Latency, 99th percentile, ms",
        &chart::LATENCY_P99,
        Scale::Log,
        None,
        "Logarithmic. A gap is a second in which no transaction ended.",
    );
    let (of_dirty, of_writeback) = ("Dirty of /proc/meminfo, whole host.", "Writeback of /proc/meminfo, whole host.");
    let operations = "Write operations on the data device, per second";
    let others = vec![
        first(operations, &chart::DATA_WRITE_OPS, Scale::Linear, iops, iops_note.trim_end()),
        first("Written to the data device, MiB/s", &chart::DATA_WRITE_MIB, Scale::Linear, bandwidth, bandwidth_note),
        first("Dirty page cache, MiB", &chart::DIRTY, Scale::Linear, None, of_dirty),
        first("Page cache under writeback, MiB", &chart::WRITEBACK, Scale::Linear, None, of_writeback),
    ];
    vec![Block::Charts(vec![latency]), Block::Charts(others)]
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
