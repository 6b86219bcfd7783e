//! Checkpoints as one HTML page.

use crate::trace::checkpoint::Line;
use crate::trace::html;

/// All lines of a trace.
pub fn render(lines: &[Line]) -> String {
    html::page(
        "checkpoint",
        lines.iter().map(|line| match line {
            Line::Start(start) => html::start(start),
            Line::End(end) => html::end(end),
        }),
    )
}
