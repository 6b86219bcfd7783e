//! The comparison for a terminal.

use comfy_table::Cell;
use comfy_table::CellAlignment;
use comfy_table::ColumnConstraint;
use comfy_table::ContentArrangement;
use comfy_table::Table;
use comfy_table::TableComponent;
use comfy_table::Width;
use comfy_table::presets::NOTHING;

use crate::metric;
use crate::metric::Group;
use crate::metric::Metric;
use crate::metric::TPS_MEAN;
use crate::model::Contestant;
use crate::model::Host;
use crate::model::Report;
use crate::number::MISSING;
use crate::number::printable;
use crate::number::short;
use crate::reading;
use crate::settings;

/// No line is wider than this.
pub(crate) const WIDTH: u16 = 110;
/// Longer names are wrapped, so that the figures stay on one line.
const NAME_WIDTH: u16 = 16;

/// The comparison table under a heading with the conditions, and what it says in words; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let heading = format!("{}, {}", report.scenario, report.host.started_at);
    paragraph(&mut out, &heading);
    paragraph(&mut out, &settings::conditions(report).join("; "));
    paragraph(&mut out, &settings::machine(&report.host).join("; "));
    out.push('\n');
    if !report.contestants.is_empty() {
        // All figures don't fit beside one another: what clients see, then what the server did to its volumes.
        let (seen, done): (Vec<_>, Vec<_>) = metric::shown(&report.contestants)
            .into_iter()
            .partition(|metric| {
                matches!(
                    metric.group,
                    Group::Throughput | Group::Stalls | Group::Latency
                )
            });
        push_lines(&mut out, &table(report, &seen));
        out.push('\n');
        push_lines(&mut out, &table(report, &done));
        let runs = report
            .contestants
            .iter()
            .map(|contestant| contestant.runs.len())
            .max();
        if runs > Some(1) {
            paragraph(
                &mut out,
                "Each figure is the median of the runs; [lowest..highest run].",
            );
        }
        out.push('\n');
    }
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    out
}

fn table(report: &Report, metrics: &[&Metric]) -> String {
    let headings = metrics
        .iter()
        .map(|metric| right(metric.heading.join("\n")));
    let mut table = new_table(std::iter::once(Cell::new("\ncontestant")).chain(headings));
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    for contestant in &report.contestants {
        table.add_row(
            std::iter::once(Cell::new(printable(&contestant.name))).chain(
                metrics
                    .iter()
                    .map(|metric| right(figure(metric, contestant))),
            ),
        );
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            column.set_padding((0, 0));
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(NAME_WIDTH)));
        } else {
            let same_group = index > 1 && metrics[index - 1].group == metrics[index - 2].group;
            column.set_padding((if same_group { 1 } else { 3 }, 0));
        }
    }
    table.to_string()
}

fn figure(metric: &Metric, contestant: &Contestant) -> String {
    let Some(figure) = metric.of(contestant) else {
        return MISSING.to_string();
    };
    match figure.range {
        Some((low, high)) if std::ptr::eq(metric, &TPS_MEAN) => {
            format!(
                "{}\n[{}..{}]",
                short(figure.median),
                short(low),
                short(high)
            )
        }
        _ => short(figure.median),
    }
}

/// Appends the heading of a scenario: its name, its conditions, its host.
pub fn heading(out: &mut String, scenario: &str, host: &Host, conditions: &[String]) {
    paragraph(out, &format!("{scenario}, {}", host.started_at));
    paragraph(out, &conditions.join("; "));
    paragraph(out, &settings::host(host).join("; "));
}

/// A table with a line below its header only.
pub fn new_table(header: impl IntoIterator<Item = Cell>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_header(header.into_iter().collect::<Vec<_>>());
    table
}

/// A cell of figures.
pub fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Appends a table, with `gap` before each column but the first.
pub fn push_table(out: &mut String, mut table: Table, gap: u16) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { gap }, 0));
    }
    push_lines(out, &table.to_string());
}

/// Appends lines, without the blanks at their ends.
pub(crate) fn push_lines(out: &mut String, text: &str) {
    for line in text.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Appends wrapped text.
pub fn paragraph(out: &mut String, text: &str) {
    for line in textwrap::wrap(&printable(text), usize::from(WIDTH)) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
