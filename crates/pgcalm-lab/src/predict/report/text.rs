//! The grid for a terminal.

use comfy_table::Cell;
use comfy_table::Table;
use pgcalm_predict::report::text::limit;
use pgcalm_render::number::percent;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;
use pgcalm_render::text::new_table;
use pgcalm_render::text::paragraph;
use pgcalm_render::text::push_table;
use pgcalm_render::text::right;

use super::Point;
use super::Report;
use super::reading;
use crate::report::heading::heading;
use crate::report::settings;

/// Headings above predicted, measured and error of each figure.
pub(super) const GROUPS: [&str; 3] = ["operations/s", "MiB/s", "TPS"];

/// The grid: a row for each point under a heading with the conditions, then what it says in words.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    heading(&mut out, &report.scenario, &report.host, &conditions(report));
    out.push('\n');
    if !report.points.is_empty() {
        push_table(&mut out, grid(report), 2);
        out.push('\n');
    }
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    if report.points.iter().any(|point| point.held_back) {
        paragraph(&mut out, "*: held back from the model");
    }
    for point in &report.points {
        paragraph(&mut out, &format!("{}: {}", point.name, point_settings(point)));
        if let Some(text) = against_possible(point) {
            paragraph(&mut out, &format!("{}: {text}", point.name));
        }
    }
    out
}

/// What is possible at a point, and how much of it was measured.
pub(super) fn against_possible(point: &Point) -> Option<String> {
    let possible = point.prediction.possible.as_ref()?;
    Some(format!("{}; measured {} of it", limit(possible), percent(point.measured.tps / possible.tps)))
}

pub(super) fn conditions(report: &Report) -> Vec<String> {
    settings::options(&report.settings, &[])
}

/// In which options a point differs.
pub(super) fn point_settings(point: &Point) -> String {
    settings::options(&point.settings, &[]).join(", ")
}

/// Predicted and measured of each of [`GROUPS`].
pub(super) fn figures(point: &Point) -> [(f64, f64); 3] {
    let predicted = &point.prediction.pg_calm;
    let measured = &point.measured;
    [
        (predicted.device_operations_per_s, measured.device_operations_per_s),
        (predicted.device_mib_per_s, measured.device_mib_per_s),
        (predicted.sustainable_tps, measured.tps),
    ]
}

fn grid(report: &Report) -> Table {
    let mut table = new_table(std::iter::once(Cell::new("\npoint")).chain(
        GROUPS.iter().flat_map(|group| [right(format!("{group}\npredicted")), right("\nmeasured"), right("\nerror")]),
    ));
    for point in &report.points {
        let mark = if point.held_back { "*" } else { "" };
        table.add_row(std::iter::once(Cell::new(format!("{}{mark}", printable(&point.name)))).chain(
            figures(point).into_iter().zip(point.errors()).flat_map(|((predicted, measured), error)| {
                [right(short(predicted)), right(short(measured)), right(reading::signed_percent(error))]
            }),
        ));
    }
    table
}
