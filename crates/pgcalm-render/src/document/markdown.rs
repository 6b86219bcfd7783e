//! A document as Markdown.

use super::terminal::plain;
use super::{Block, Document, Kind, Table};
use crate::number::printable;

pub(super) fn document(document: &Document) -> String {
    let mut readings = document.readings.iter();
    let title = document.title.as_ref().or_else(|| readings.next()).unwrap_or(&document.subject);
    let mut out = format!("# {}\n", escaped(title));
    for line in readings {
        out.push_str(&format!("\n{}\n", escaped(line)));
    }
    out.push_str(&format!("\n{} {}, {}\n", document.by, escaped(&document.subject), document.time));
    for line in document.conditions.iter().filter(|line| !line.is_empty()) {
        out.push_str(&format!("\n{}\n", escaped(&line.join("; "))));
    }
    for section in &document.sections {
        if !section.heading.is_empty() {
            out.push_str(&format!("\n## {}\n", escaped(&section.heading)));
        }
        blocks(&mut out, &section.blocks);
    }
    out
}

fn blocks(out: &mut String, blocks_: &[Block]) {
    for block in blocks_ {
        match block {
            Block::Heading(text) => out.push_str(&format!("\n### {}\n", escaped(text))),
            Block::Text(text) | Block::Note(text) => out.push_str(&format!("\n{}\n", escaped(text))),
            Block::Command(text) => out.push_str(&format!("\n    {}\n", printable(text))),
            Block::Table(one) => table(out, one),
            Block::Details(summary, within) => {
                out.push_str(&format!("\n**{}**\n", escaped(summary)));
                blocks(out, within);
            }
            Block::Elsewhere(within) => blocks(out, within),
            Block::Charts(_) | Block::Page(_) => (),
        }
    }
}

fn table(out: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let headings: Vec<String> = table.columns.iter().map(|column| escaped(&column.line())).collect();
    let rules = table.columns.iter().map(|column| if column.kind == Kind::Figure { "---:" } else { "---" });
    out.push_str(&format!("\n| {} |\n|{}|\n", headings.join(" | "), rules.collect::<Vec<_>>().join("|")));
    for row in &table.rows {
        let cells = table.columns.iter().zip(row).map(|(column, text)| match column.kind {
            Kind::Stack => escaped(&text.replace('\n', ", ")),
            kind => escaped(&plain(kind, text)),
        });
        out.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
}

/// A text that ends no cell and begins no element.
fn escaped(text: &str) -> String {
    let line = text.lines().map(printable).collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;")
}
