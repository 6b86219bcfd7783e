//! The grid for readers: predicted, measured and the error of each point, and what each point is.

use pgcalm_predict::report::text::limit;
use pgcalm_predict::report::text::verdict;
use pgcalm_render::document::Column;
use pgcalm_render::document::Document;
use pgcalm_render::document::Table;
use pgcalm_render::number::percent;
use pgcalm_render::number::short;

use super::Point;
use super::Report;
use super::reading;
use crate::report;
use crate::report::Shown;
use crate::report::settings;

/// Headings above predicted, measured and error of each figure.
const GROUPS: [&str; 3] = ["operations/s", "MiB/s", "TPS"];

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        document.title = Some("What was predicted from shadow mode, and what came with pg_calm on".to_string());
        document.readings = reading::lines(self);
        let section = document.section("Points").table(grid(self));
        if self.points.iter().any(|point| point.held_back) {
            section.note("*: held back from the model");
        }
        let section = document.section("What each point is");
        for point in &self.points {
            let stock = &point.prediction.stock;
            section.text(format!("{}: {}", point.name, settings::options(&point.settings, &[]).join(", ")));
            section.note(format!(
                "Predicted for stock: {} operations and {} MiB per second, {} TPS, bound by {}. For pg_calm: bound by {}. {}",
                short(stock.device_operations_per_s),
                short(stock.device_mib_per_s),
                short(stock.sustainable_tps),
                stock.bound_by,
                point.prediction.pg_calm.bound_by,
                verdict(&point.prediction)
            ));
            if let Some(text) = against_possible(point) {
                section.note(text);
            }
        }
        document
    }
}

/// What is possible at a point, and how much of it was measured.
fn against_possible(point: &Point) -> Option<String> {
    let possible = point.prediction.possible.as_ref()?;
    Some(format!("{}; measured {} of it", limit(possible), percent(point.measured.tps / possible.tps)))
}

/// Predicted and measured of each of [`GROUPS`].
fn figures(point: &Point) -> [(f64, f64); 3] {
    let predicted = &point.prediction.pg_calm;
    let measured = &point.measured;
    [
        (predicted.device_operations_per_s, measured.device_operations_per_s),
        (predicted.device_mib_per_s, measured.device_mib_per_s),
        (predicted.sustainable_tps, measured.tps),
    ]
}

fn grid(report: &Report) -> Table {
    let headings = |group: &&str| [format!("{group}\npredicted"), "measured".to_string(), "error".to_string()];
    let figures_of = GROUPS.iter().flat_map(headings).map(Column::figures);
    let mut table = Table::new(std::iter::once(Column::text("point")).chain(figures_of));
    for point in &report.points {
        let name = format!("{}{}", point.name, if point.held_back { "*" } else { "" });
        let figures = figures(point).into_iter().zip(point.errors());
        table.row(std::iter::once(name).chain(figures.flat_map(|((predicted, measured), error)| {
            [short(predicted), short(measured), reading::signed_percent(error)]
        })));
    }
    table
}
