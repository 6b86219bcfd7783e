//! The matrix for a terminal.

use comfy_table::Cell;
use pgcalm_render::number::{MISSING, printable, short};
use pgcalm_render::text::{new_table, paragraph, right};

use super::reading::SHOWN;
use super::{Report, Row, order, reading};

/// What is printed between the lines of the table, before the line with this index.
struct Heading {
    before: usize,
    lines: Vec<String>,
}

/// The matrix, losses first, and what it says in words; every line ends in a newline.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    paragraph(&mut out, &report.title);
    if !report.about.is_empty() {
        paragraph(&mut out, &report.about);
    }
    if let Some(with) = reading::made_with(report) {
        paragraph(&mut out, &with);
    }
    let failed = order::failed(report);
    if !failed.is_empty() {
        out.push_str("\nFailed\n");
        for (row, failure) in failed {
            paragraph(&mut out, &format!("  {}: {failure}", row.name));
        }
    }
    let groups = order::groups(report);
    if !groups.is_empty() {
        out.push('\n');
        matrix(&mut out, &groups);
        out.push('\n');
        for note in reading::NOTES {
            paragraph(&mut out, note);
        }
    }
    for (row, other) in order::others(report) {
        out.push('\n');
        for line in row_heading(row) {
            paragraph(&mut out, &line);
        }
        out.push_str(&other.shown().text());
    }
    out.push('\n');
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    out
}

/// One table, so that all columns stand below each other, with the rows' names printed between its lines.
fn matrix(out: &mut String, groups: &[order::Group<'_>]) {
    const HEADER_LINES: usize = 3;
    let mut header = vec![Cell::new("\n  contestant")];
    for shown in &SHOWN {
        header.push(right(shown.heading.join("\n")));
        if shown.compared.is_some() {
            header.push(right("\nx"));
        }
    }
    let mut table = new_table(header);
    let mut headings = Vec::new();
    let mut lines = HEADER_LINES;
    for group in groups {
        for (index, row) in group.rows.iter().enumerate() {
            let mut heading = row_heading(row);
            if index == 0 {
                heading.insert(0, format!("\n{}", group.title));
            }
            headings.push(Heading { before: lines, lines: heading });
            for contestant in row.report.iter().flat_map(|report| &report.contestants) {
                let mut cells = vec![Cell::new(format!("  {}", printable(&contestant.name)))];
                for shown in &SHOWN {
                    let figure = (shown.figure)(contestant);
                    cells.push(right(figure.map_or_else(|| MISSING.to_string(), short)));
                    if let Some(metric) = shown.compared {
                        let ratio = reading::ratio(row, &contestant.name, metric);
                        cells.push(right(ratio.map_or_else(String::new, |(text, _)| text)));
                    }
                }
                table.add_row(cells);
                lines += 1;
                let below: Vec<String> = [reading::verdict(row, &contestant.name), reading::spread(contestant)]
                    .into_iter()
                    .flatten()
                    .flat_map(|line| indented(&line))
                    .collect();
                headings.push(Heading { before: lines, lines: below });
            }
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 1 }, 0));
    }
    let mut headings = headings.into_iter().peekable();
    let text = table.to_string();
    for (index, line) in text.lines().enumerate() {
        while let Some(heading) = headings.next_if(|heading| heading.before == index) {
            push(out, &heading.lines);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for heading in headings {
        push(out, &heading.lines);
    }
}

/// Below a contestant, in as many lines as it takes.
fn indented(line: &str) -> Vec<String> {
    let mut text = String::new();
    paragraph(&mut text, &format!("    {line}"));
    text.lines().map(String::from).collect()
}

fn push(out: &mut String, lines: &[String]) {
    for line in lines {
        out.push_str(line);
        out.push('\n');
    }
}

fn row_heading(row: &Row) -> Vec<String> {
    let name = printable(&row.name);
    let title = printable(&row.title);
    let mut text = String::new();
    let first = if name == title { name } else { format!("{name}: {title}") };
    paragraph(&mut text, &first);
    if let Some(cap) = reading::cap(row) {
        paragraph(&mut text, &format!("  {cap}"));
    }
    for remark in reading::remarks(row) {
        paragraph(&mut text, &format!("  {remark}"));
    }
    text.lines().map(String::from).collect()
}
