//! A document with the matrix, and one section for each row: its command, its conditions and its tables.

use pgcalm_render::number::{MISSING, short};

use super::compare::COMPARED;
use super::{BASELINE, Report, Row, SUBJECT, Verdict, order, reading};
use crate::report::Shown;

/// The document. Rows that are not to be renewed, or have no result, keep the section with their title of `old`, the
/// document as it was; those without one have none.
///
/// Not every result that is there should get in: it may be of a trial that was never meant for the document.
pub fn render(report: &Report, old: &str, is_renewed: impl Fn(&Row) -> bool) -> String {
    if let Some(pooled) = report.pooled() {
        return pooled.document().markdown();
    }
    let mut out = format!("# {}\n", report.title);
    if !report.about.is_empty() {
        out.push_str(&format!("\n{}\n", report.about));
    }
    if let Some(with) = reading::made_with(report) {
        out.push_str(&format!("\nMeasured with {with}.\n"));
    }
    for group in order::groups(report) {
        out.push_str(&format!("\n**{}**\n\n", group.title));
        out.push_str(&table(&group.rows));
    }
    for (row, failure) in order::failed(report) {
        out.push_str(&format!("\n**Failed**: {}: {}\n", row.name, cell(failure)));
    }
    for row in &report.rows {
        let other = row.other();
        let result = row
            .report
            .as_ref()
            .map(|result| result as &dyn Shown)
            .or(other.as_ref().map(crate::document::Document::shown));
        match result.filter(|_| is_renewed(row)) {
            Some(result) => out.push_str(&format!(
                "\n## {}\n\n`{}`\n\n```text\n{}```\n",
                row.title,
                row.command,
                figures(row, result)
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

/// Conditions and tables of a row. What the sentences say of steadiness is in the matrix, and the rest in the JSON document.
fn figures(row: &Row, result: &dyn Shown) -> String {
    let mut document = result.document();
    if row.report.is_some() {
        document.readings.clear();
    }
    document.text()
}

/// Stock's figure and pg_calm's of each row, and what they come to.
fn table(rows: &[&Row]) -> String {
    let mut out = String::from("| row |");
    for compared in &COMPARED {
        out.push_str(&format!(" {} |", compared.title));
    }
    out.push_str(" checkpoints | verdict |\n|---|---|---|---|---|---|---|\n");
    for row in rows {
        let contestants = row.report.iter().flat_map(|report| &report.contestants);
        let named = |name: &str| contestants.clone().find(|c| c.name == name);
        let both = [named(BASELINE), named(SUBJECT)];
        out.push_str(&format!("| {} |", cell(&row.title)));
        for compared in &COMPARED {
            let [stock, ours] = both.map(|contestant| {
                contestant
                    .and_then(|contestant| compared.metric.median_of(contestant))
                    .map_or_else(|| MISSING.to_string(), short)
            });
            let mark = match row.comparison(SUBJECT, compared.name).map(|c| c.verdict) {
                Some(Verdict::Worse) => "**",
                _ => "",
            };
            out.push_str(&format!(" {stock} / {mark}{ours}{mark} |"));
        }
        let [stock, ours] = both.map(|contestant| {
            contestant.map_or_else(|| MISSING.to_string(), |contestant| contestant.checkpoints().to_string())
        });
        let verdict = match &row.objections()[..] {
            [] => reading::verdict(row, SUBJECT).unwrap_or_else(|| reading::failed_troubles(row).join("; ")),
            objections => {
                let texts: Vec<String> =
                    objections.iter().map(|(name, objection)| format!("{name}: {objection}")).collect();
                texts.join("; ")
            }
        };
        out.push_str(&format!(" {stock} / {ours} | {} |\n", cell(&verdict)));
    }
    out.push_str(
        "\nstock / pg_calm; TPS and ms, medians of the runs, [lowest..highest run]. Where lengths of runs differ by \
         more than a quarter, the verdict compares worst second and longest over that of the shortest.\n",
    );
    out
}

/// A text that ends no cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
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
