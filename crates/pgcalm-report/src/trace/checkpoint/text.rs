//! Checkpoints for a terminal.

use crate::trace::checkpoint::Line;
use crate::trace::text;

/// One line of the model; every line of text ends in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => text::start(start),
        Line::End(end) => text::end(end),
    }
}
