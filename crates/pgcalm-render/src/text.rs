//! Text for a terminal: tables and wrapped lines.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table, TableComponent};

use crate::number::printable;

/// No line is wider than this.
pub const WIDTH: u16 = 110;

/// A table with a line below its header only.
pub fn new_table(header: impl IntoIterator<Item = Cell>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_header(header.into_iter().collect::<Vec<_>>());
    table
}

/// A cell of figures.
pub fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Appends a table, with `gap` before each column but the first.
pub fn push_table(out: &mut String, mut table: Table, gap: u16) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { gap }, 0));
    }
    push_lines(out, &table.to_string());
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
    for line in textwrap::wrap(&printable(text), usize::from(WIDTH)) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
