//! What predictions and their errors say, in words; the same in text and HTML.

use pgcalm_render::number::MISSING;
use pgcalm_render::number::percent;

use super::Point;
use super::Report;
use super::median_error;

/// Names of the figures whose errors [`Point::errors`] gives.
pub(super) const FIGURES: [&str; 3] = ["device operations", "bandwidth", "TPS"];

/// A sentence for the errors of all points, one for those held back if there are, and for those that shaped the model.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let all: Vec<&Point> = report.points.iter().collect();
    let (held_back, others): (Vec<&Point>, Vec<&Point>) = all.iter().partition(|point| point.held_back);
    lines.extend(line("all points", &all));
    if !held_back.is_empty() && !others.is_empty() {
        lines.extend(line("points held back from the model", &held_back));
        lines.extend(line("points that the model was made with", &others));
    }
    lines
}

fn line(which: &str, points: &[&Point]) -> Option<String> {
    if points.is_empty() {
        return None;
    }
    let of = |index: usize| median_error(points.iter().map(|point| point.errors()[index]));
    let figures: Vec<String> =
        FIGURES.iter().enumerate().map(|(index, name)| format!("{name} {}", percent(of(index).abs()))).collect();
    let in_all = median_error(points.iter().flat_map(|point| point.errors()));
    Some(format!("median error, {which} ({}): {}; of all three {}", points.len(), figures.join(", "), percent(in_all)))
}

/// `+12 %`, `-3 %`.
pub(super) fn signed_percent(part: f64) -> String {
    if part.is_finite() { format!("{:+.0} %", part * 100.0) } else { MISSING.to_string() }
}
