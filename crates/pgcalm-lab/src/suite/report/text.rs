//! The matrix for a terminal.

use pgcalm_render::document::{Block, Column, Document, Table, figure};

use super::reading::SHOWN;
use super::{Report, Row, order, reading};

/// The matrix, losses first, and what it says in words.
pub(super) fn document(report: &Report) -> Document {
    let mut document = Document::new("pgcalm lab", &report.title, "");
    document.conditions = [Some(report.about.clone()), reading::made_with(report)]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .map(|text| vec![text])
        .collect();
    document.readings = reading::lines(report);
    let section = document.section("Matrix");
    let failed = order::failed(report);
    if !failed.is_empty() {
        section.heading("Failed");
    }
    for (row, failure) in failed {
        section.text(format!("  {}: {failure}", row.name));
    }
    let groups = order::groups(report);
    if !groups.is_empty() {
        section.table(matrix(&groups));
        for note in reading::NOTES {
            section.note(note);
        }
    }
    for (row, other) in order::others(report) {
        let section = document.section("");
        section.text("");
        for line in row_heading(row) {
            section.text(line);
        }
        let other = other.shown().document();
        section.text(format!("{}, {}", other.subject, other.time));
        section.blocks.extend(other.conditions.iter().map(|line| Block::Text(line.join("; "))));
        let mut sections = other.sections.into_iter();
        section.text("").blocks.extend(sections.next().into_iter().flat_map(|first| first.blocks));
        section.blocks.extend(other.readings.into_iter().map(Block::Text));
        document.sections.extend(sections);
    }
    document
}

/// One table, so that all columns stand below each other, with the rows' names between its lines.
fn matrix(groups: &[order::Group<'_>]) -> Table {
    let mut columns = vec![Column::text("  contestant")];
    for shown in &SHOWN {
        columns.push(Column::figures(shown.heading.join("\n")));
        columns.extend(shown.compared.map(|_| Column::figures("x")));
    }
    let mut table = Table::new(columns);
    for group in groups {
        for (index, row) in group.rows.iter().enumerate() {
            let before = table.rows.len();
            let group = (index == 0).then(|| [String::new(), group.title.to_string()]);
            table.between.extend(group.into_iter().flatten().chain(row_heading(row)).map(|line| (before, line)));
            for contestant in row.report.iter().flat_map(|report| &report.contestants) {
                let mut cells = vec![format!("  {}", contestant.name)];
                for shown in &SHOWN {
                    cells.push(figure((shown.figure)(contestant)));
                    cells.extend(shown.compared.map(|metric| {
                        reading::ratio(row, &contestant.name, metric).map_or_else(String::new, |(text, _)| text)
                    }));
                }
                table.row(cells);
                let below = [reading::verdict(row, &contestant.name), reading::spread(contestant)];
                let below = below.into_iter().flatten().map(|line| (table.rows.len(), format!("    {line}")));
                table.between.extend(below);
            }
        }
    }
    table
}

fn row_heading(row: &Row) -> Vec<String> {
    let first = if row.name == row.title { row.name.clone() } else { format!("{}: {}", row.name, row.title) };
    let below = reading::cap(row)
        .into_iter()
        .chain(reading::start(row))
        .chain(reading::remarks(row))
        .map(|line| format!("  {line}"));
    std::iter::once(first).chain(below).collect()
}
