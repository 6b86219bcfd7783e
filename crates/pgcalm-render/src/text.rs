//! Text for a terminal: wrapped lines.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use crate::number::printable;

/// Lines are no wider than this even where there is room: they are read.
const WIDEST: u16 = 110;

/// In less nothing can be laid out.
const NARROWEST: u16 = 40;

static WIDTH: AtomicU16 = AtomicU16::new(WIDEST);

/// No line is wider than this.
pub fn width() -> u16 {
    WIDTH.load(Relaxed)
}

/// Lets lines be no wider than a terminal of `columns`.
pub fn fit(columns: u16) {
    WIDTH.store(columns.clamp(NARROWEST, WIDEST), Relaxed);
}

/// Appends lines, without the blanks at their ends.
pub fn push_lines(out: &mut String, text: &str) {
    for line in text.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Appends wrapped text.
pub fn paragraph(out: &mut String, text: &str) {
    for line in textwrap::wrap(&printable(text), usize::from(width())) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
