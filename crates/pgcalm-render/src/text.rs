//! Text for a terminal: wrapped lines.

use crate::number::printable;

/// No line is wider than this.
pub const WIDTH: u16 = 110;

/// Appends lines, without the blanks at their ends.
pub fn push_lines(out: &mut String, text: &str) {
    for line in text.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Appends wrapped text.
pub fn paragraph(out: &mut String, text: &str) {
    for line in textwrap::wrap(&printable(text), usize::from(WIDTH)) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
