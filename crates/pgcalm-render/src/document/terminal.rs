//! A document for a terminal.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, TableComponent};

use super::{Block, Document, Kind, Section, Table};
use crate::number::printable;
use crate::text::{paragraph, push_lines, width};

pub(super) fn document(document: &Document) -> String {
    let mut out = String::new();
    let when = if document.time.is_empty() { String::new() } else { format!(", {}", document.time) };
    paragraph(&mut out, &format!("{}{when}", document.subject));
    for line in document.conditions.iter().filter(|line| !line.is_empty()) {
        paragraph(&mut out, &line.join("; "));
    }
    let mut sections = document.sections.iter().filter(|section| !section.only_on_page);
    out.push('\n');
    out.push_str(&sections.next().map_or(String::new(), |first| blocks(&first.blocks)));
    for line in &document.readings {
        paragraph(&mut out, line);
    }
    for other in sections {
        out.push_str(&section(other));
    }
    out
}

pub(super) fn section(section: &Section) -> String {
    let heading = &section.heading;
    let above = if heading.is_empty() { String::new() } else { format!("\n{}\n", printable(heading)) };
    format!("{above}{}", blocks(&section.blocks))
}

fn blocks(shown: &[Block]) -> String {
    let mut out = String::new();
    for block in shown {
        match block {
            Block::Heading(text) => out.push_str(&format!("\n{}\n", printable(text))),
            Block::Text(text) | Block::Note(text) => paragraph(&mut out, text),
            Block::Command(text) => push_lines(&mut out, &format!("    {}", printable(text))),
            Block::Table(table) if !table.rows.is_empty() => {
                let most = table.most_in_terminal.unwrap_or(usize::MAX);
                if table.rows.len() > most {
                    let first = Table { rows: table.rows[..most].to_vec(), ..Table::new(table.columns.clone()) };
                    push_lines(&mut out, &drawn(&first));
                    out.push_str(&format!("... and {} more, which JSON and HTML have\n", table.rows.len() - most));
                } else {
                    push_lines(&mut out, &drawn(table));
                }
                out.push('\n');
            }
            Block::Elsewhere(within) => out.push_str(&blocks(within)),
            Block::Table(_) | Block::Charts(_) | Block::Details(..) | Block::Page(_) => (),
        }
    }
    out
}

/// With two blanks between columns, else one. What is wider than a line even so goes on below, beside the same names; where words
/// make it so wide, they are wrapped.
fn drawn(table: &Table) -> String {
    let fits = |text: &String| text.lines().all(|line| line.trim_end().chars().count() <= usize::from(width()));
    let narrow = [2, 1].map(|gap| spaced(table, gap, ContentArrangement::Disabled)).into_iter().find(fits);
    if let Some(narrow) = narrow {
        return narrow;
    }
    let names = table.columns.iter().take_while(|column| column.kind == Kind::Text).count();
    let figures = table.columns.len() - names;
    if figures < 2 || table.columns[names..].iter().any(|column| column.kind != Kind::Figure) {
        return spaced(table, 1, ContentArrangement::Dynamic);
    }
    let part = |skip: usize, most: usize| {
        fn of<T: Clone>(all: &[T], names: usize, skip: usize, most: usize) -> Vec<T> {
            all[..names].iter().chain(all[names + skip..].iter().take(most)).cloned().collect()
        }
        let rows = table.rows.iter().map(|row| of(row, names, skip, most)).collect();
        let between = if skip == 0 { table.between.clone() } else { Vec::new() };
        Table { columns: of(&table.columns, names, skip, most), rows, between, ..Table::default() }
    };
    let first = (1..figures).rev().find(|most| fits(&spaced(&part(0, *most), 1, ContentArrangement::Disabled)));
    let first = first.unwrap_or(1);
    format!("{}\n\n{}", spaced(&part(0, first), 1, ContentArrangement::Dynamic), drawn(&part(first, figures)))
}

fn spaced(table: &Table, gap: u16, arrangement: ContentArrangement) -> String {
    let lines = |heading: &str| heading.lines().count().max(1);
    let tallest = table.columns.iter().map(|column| lines(&column.heading)).max().unwrap_or(1);
    let header = table.columns.iter().map(|column| {
        let above = "\n".repeat(tallest - lines(&column.heading));
        cell(column.kind, format!("{above}{}", column.heading.lines().map(printable).collect::<Vec<_>>().join("\n")))
    });
    let mut drawn = comfy_table::Table::new();
    drawn.load_preset(NOTHING).set_style(TableComponent::HeaderLines, '─').set_header(header.collect::<Vec<_>>());
    drawn.set_content_arrangement(arrangement).set_width(width());
    for row in &table.rows {
        let shown = |(column, text): (&super::Column, &String)| cell(column.kind, plain(column.kind, text));
        drawn.add_row(table.columns.iter().zip(row).map(shown));
    }
    for (index, column) in drawn.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { gap }, 0));
    }
    with_between(table, &drawn.to_string(), tallest + 1)
}

/// With what is said between rows, of which each is a line where there is any.
fn with_between(table: &Table, drawn: &str, header: usize) -> String {
    let mut out = String::new();
    let mut between = table.between.iter().peekable();
    for (index, line) in drawn.lines().enumerate() {
        while let Some((_, text)) = between.next_if(|(before, _)| before + header <= index) {
            paragraph(&mut out, text);
        }
        push_lines(&mut out, line);
    }
    between.for_each(|(_, text)| paragraph(&mut out, text));
    out
}

fn cell(kind: Kind, text: String) -> Cell {
    let cell = Cell::new(text);
    if kind == Kind::Figure { cell.set_alignment(CellAlignment::Right) } else { cell }
}

/// What a cell shows where there is nothing but characters.
pub(super) fn plain(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Figure | Kind::Text => text.lines().map(printable).collect::<Vec<_>>().join("\n"),
        Kind::Stack => text.lines().map(printable).collect::<Vec<_>>().join(" < "),
        Kind::Bar => bar(text.parse().unwrap_or(0.0), 40),
    }
}

/// A bar of at most `width` characters; something that is not nothing is at least a mark.
fn bar(share: f64, width: usize) -> String {
    match (share.clamp(0.0, 1.0) * width as f64).round() as usize {
        0 if share > 0.0 => "·".to_string(),
        length => "█".repeat(length),
    }
}
