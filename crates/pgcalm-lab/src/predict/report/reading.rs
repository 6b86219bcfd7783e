//! What predictions and their errors say, in words; the same in text and HTML.

use pgcalm_render::number::{MISSING, percent};

use super::{Report, median_error};

/// Names of the figures whose errors [`Point::errors`](super::Point::errors) gives.
pub(super) const FIGURES: [&str; 3] = ["operations per transaction", "bytes per transaction", "TPS"];

/// A sentence for the errors of all points.
pub(super) fn lines(report: &Report) -> Vec<String> {
    if report.points.is_empty() {
        return Vec::new();
    }
    let of = |index: usize| median_error(report.points.iter().map(|point| point.errors()[index]));
    let figures: Vec<String> =
        FIGURES.iter().enumerate().map(|(index, name)| format!("{name} {}", percent(of(index).abs()))).collect();
    vec![format!("median error of {} points: {}", report.points.len(), figures.join(", "))]
}

/// `+12 %`, `-3 %`.
pub(super) fn signed_percent(part: f64) -> String {
    if part.is_finite() { format!("{:+.0} %", part * 100.0) } else { MISSING.to_string() }
}
