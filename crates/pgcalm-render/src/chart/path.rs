//! SVG path data.

use std::fmt::Write;

use super::Chart;

/// A rectangle in SVG units that a chart is drawn into.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// From the left edge to the right one.
    pub width: f64,
    /// From the upper edge to the lower one.
    pub height: f64,
}

impl Area {
    /// Left to right, as a fraction.
    pub fn x(&self, fraction: f64) -> f64 {
        self.left + fraction * self.width
    }

    /// Bottom to top, as a fraction.
    pub fn y(&self, fraction: f64) -> f64 {
        self.top + (1.0 - fraction) * self.height
    }
}

/// The line through `values`, one per second and each in the middle of its second; broken where there is none.
pub fn line(chart: &Chart, values: &[Option<f64>], area: Area) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for (second, value) in values.iter().enumerate() {
        let Some(value) = value else {
            pen_down = false;
            continue;
        };
        let x = area.x(chart.time.place(second as f64 + 0.5));
        let y = area.y(chart.values.place(*value));
        let command = if pen_down { 'L' } else { 'M' };
        // Writing to a String cannot fail.
        let _ = write!(path, "{command}{} {}", coordinate(x), coordinate(y));
        let alone = !pen_down && values.get(second + 1).is_none_or(Option::is_none);
        if alone {
            // With round caps this shows as a dot; a lone M would show as nothing.
            path.push_str("h.1");
        }
        pen_down = true;
    }
    path
}

/// One decimal: a fraction of a pixel at any size a report is looked at.
pub fn coordinate(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // No "-0".
    format!("{}", rounded + 0.0)
}
