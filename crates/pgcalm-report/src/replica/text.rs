//! Cases for a terminal.

use comfy_table::Cell;
use comfy_table::CellAlignment;
use comfy_table::Table;
use comfy_table::TableComponent;
use comfy_table::presets::NOTHING;

use super::Report;
use super::metric::ALL;
use super::reading;
use crate::number::MISSING;
use crate::number::printable;
use crate::number::short;
use crate::settings;
use crate::text::paragraph;

/// The cases under a heading with the conditions, and what the table says in words; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    paragraph(
        &mut out,
        &format!("{}, {}", report.scenario, report.host.started_at),
    );
    paragraph(&mut out, &conditions(report).join("; "));
    paragraph(&mut out, &settings::host(&report.host).join("; "));
    out.push('\n');
    if !report.cases.is_empty() {
        for line in table(report).to_string().lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.push('\n');
    }
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    out
}

/// The options of the run, one phrase each; the cases are in the table.
pub(super) fn conditions(report: &Report) -> Vec<String> {
    report
        .settings
        .iter()
        .filter(|(name, _)| *name != "cases")
        .map(|(name, value)| (name, settings::shown(value)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name} {value}"))
        .collect()
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    table
        .load_preset(NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_header(
            std::iter::once(Cell::new("\ncase"))
                .chain(ALL.iter().map(|metric| right(metric.heading.join("\n")))),
        );
    for case in &report.cases {
        let figures = ALL
            .iter()
            .map(|metric| right((metric.value)(report, case).map_or(MISSING.to_string(), short)));
        table.add_row(std::iter::once(Cell::new(printable(&case.name))).chain(figures));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 0));
    }
    table
}
