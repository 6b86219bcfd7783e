//! Cases for a terminal.

use comfy_table::Cell;
use comfy_table::Table;
use pgcalm_render::number::MISSING;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;
use pgcalm_render::text::new_table;
use pgcalm_render::text::paragraph;
use pgcalm_render::text::push_table;
use pgcalm_render::text::right;

use super::Report;
use super::metric::ALL;
use super::reading;
use crate::report::heading::heading;
use crate::report::settings;

/// The cases under a heading with the conditions, and what the table says in words; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    heading(&mut out, &report.scenario, &report.host, &conditions(report));
    out.push('\n');
    if !report.cases.is_empty() {
        push_table(&mut out, table(report), 1);
        out.push('\n');
    }
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    out
}

/// The options of the run, one phrase each; the cases are in the table.
pub(super) fn conditions(report: &Report) -> Vec<String> {
    settings::options(&report.settings, &["cases"])
}

fn table(report: &Report) -> Table {
    let mut table = new_table(
        std::iter::once(Cell::new("\ncase")).chain(ALL.iter().map(|metric| right(metric.heading.join("\n")))),
    );
    for case in &report.cases {
        let figures = ALL.iter().map(|metric| right((metric.value)(report, case).map_or(MISSING.to_string(), short)));
        table.add_row(std::iter::once(Cell::new(printable(&case.name))).chain(figures));
    }
    table
}
