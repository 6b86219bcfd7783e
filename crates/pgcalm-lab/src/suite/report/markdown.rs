//! A document with one section for each row: its command and its table.

use super::Report;
use super::Row;
use crate::contest::report::text;

/// The document. Rows that are not to be renewed, or have no result, keep the section with their title of `old`, the
/// document as it was; those without one have none.
///
/// Not every result that is there should get in: it may be of a trial that was never meant for the document.
pub fn render(report: &Report, old: &str, is_renewed: impl Fn(&Row) -> bool) -> String {
    let mut out = format!("# {}\n", report.title);
    if !report.about.is_empty() {
        out.push_str(&format!("\n{}\n", report.about));
    }
    for row in &report.rows {
        match row.report.as_ref().filter(|_| is_renewed(row)) {
            Some(result) => out.push_str(&format!(
                "\n## {}\n\n`{}`\n\n```text\n{}```\n",
                row.title,
                row.command,
                text::render(result)
            )),
            None => {
                if let Some(section) = section(old, &row.title) {
                    out.push_str(&format!("\n## {}\n{section}", row.title));
                }
            }
        }
    }
    out
}

/// The lines between the heading and the next one, without empty lines at the end.
fn section(document: &str, title: &str) -> Option<String> {
    let heading = format!("## {title}");
    let mut lines = document.lines().skip_while(|line| *line != heading);
    lines.next()?;
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let section = section.join("\n");
    let section = section.trim_end();
    (!section.is_empty()).then(|| format!("{section}\n"))
}
