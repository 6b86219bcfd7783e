//! Contestants look the same in every report.

use pgcalm_render::chart::style;
use pgcalm_render::chart::style::Style;

/// Each has the look of its place.
const CONTESTANTS: [&str; 4] = ["pg_calm", "stock", "stock-tuned", "stock-uncapped"];

/// A look for each name, different ones as long as there are enough.
pub(crate) fn assign<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Style> {
    style::assign(&CONTESTANTS, names)
}
