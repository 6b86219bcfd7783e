//! The tables of a document as lines of cells with tabs between.

use super::terminal::plain;
use super::{Document, Table};
use crate::number::printable;

pub(super) fn document(document: &Document) -> String {
    document.tables().into_iter().map(table).collect::<Vec<_>>().join("\n")
}

fn table(table: &Table) -> String {
    let headings = table.columns.iter().map(super::Column::line).collect();
    let rows = table.rows.iter().map(|row| {
        let cells = table.columns.iter().zip(row);
        // A tab or a newline within a cell is none.
        cells.map(|(column, text)| printable(&plain(column.kind, text).replace('\n', " "))).collect()
    });
    let lines = std::iter::once(headings).chain(rows);
    lines.map(|cells: Vec<String>| format!("{}\n", cells.join("\t"))).collect()
}
