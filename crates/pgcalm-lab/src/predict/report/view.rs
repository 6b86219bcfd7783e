//! The grid for readers: predicted, measured and the error of each point, and what each point is.

use pgcalm_predict::report::text::verdict;
use pgcalm_render::document::{Column, Document, Table};
use pgcalm_render::number::{MISSING, short};

use super::{Report, reading};
use crate::report;
use crate::report::{Shown, settings};

/// Headings above predicted, measured and error of each figure.
const GROUPS: [&str; 3] = ["operations\nper transaction", "KiB\nper transaction", "TPS"];

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        document.title = Some("What was predicted from shadow mode, and what came with pg_calm on".to_string());
        document.readings = reading::lines(self);
        document
            .section("Points")
            .table(grid(self))
            .note("Operations and KiB are counts; TPS is linear, and an upper bound.");
        let section = document.section("What each point is");
        for point in &self.points {
            let stock = &point.prediction.stock;
            section.text(format!("{}: {}", point.name, settings::options(&point.settings, &[]).join(", ")));
            section.note(format!(
                "Stock, seen: {} operations and {} MiB per second, bound by {}; up to {} TPS. pg_calm: bound by {}. {}",
                short(stock.device_operations_per_s),
                short(stock.device_mib_per_s),
                stock.bound_by,
                short(stock.sustainable_tps),
                point.prediction.pg_calm.as_ref().map_or(MISSING, |outlook| outlook.bound_by.as_str()),
                verdict(&point.prediction)
            ));
        }
        document
    }
}

fn grid(report: &Report) -> Table {
    let headings = |group: &&str| [format!("{group}\npredicted"), "measured".to_string(), "error".to_string()];
    let figures_of = GROUPS.iter().flat_map(headings).map(Column::figures);
    let mut table = Table::new(std::iter::once(Column::text("point")).chain(figures_of));
    for point in &report.points {
        let figures = point.figures().into_iter().zip(point.errors());
        table.row(std::iter::once(point.name.clone()).chain(figures.flat_map(|((predicted, measured), error)| {
            [short(predicted), short(measured), reading::signed_percent(error)]
        })));
    }
    table
}
