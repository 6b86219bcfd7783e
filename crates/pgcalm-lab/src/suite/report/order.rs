//! In which order rows are shown: losses first.

use super::compare::COMPARED;
use super::{Report, Row, SUBJECT, Verdict};
use crate::document::Document;

/// Rows under one heading.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) title: &'static str,
    pub(super) rows: Vec<&'a Row>,
}

/// All rows that have a result, in groups, none of them empty.
pub(super) fn groups(report: &Report) -> Vec<Group<'_>> {
    let with_result = || report.rows.iter().filter(|row| row.report.is_some());
    let (steady, unsteady): (Vec<&Row>, Vec<&Row>) = with_result().partition(|row| row.objections().is_empty());
    let (mut losses, others): (Vec<&Row>, Vec<&Row>) = steady.into_iter().partition(|row| loss(row).is_some());
    // The largest first; the sort is stable.
    losses.sort_by(|a, b| {
        let size = |row: &Row| loss(row).unwrap_or(1.0);
        size(a).total_cmp(&size(b))
    });
    let title = if losses.is_empty() { "pg_calm is worse than stock in nothing compared" } else { "Others" };
    [("pg_calm is worse than stock in something", losses), (title, others), (NOT_STEADY, unsteady)]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(title, rows)| Group { title, rows })
        .collect()
}

/// Rows of scenarios other than `checkpoint` that have a result, in the file's order.
pub(super) fn others(report: &Report) -> Vec<(&Row, Document)> {
    report.rows.iter().filter_map(|row| Some((row, row.other()?))).collect()
}

/// The heading of rows in which there is nothing to compare.
pub(super) const NOT_STEADY: &str = "Not steady: no verdict";

/// Rows that failed in this run of the suite.
pub(super) fn failed(report: &Report) -> Vec<(&Row, &str)> {
    report.rows.iter().filter_map(|row| Some((row, row.failure.as_deref()?))).collect()
}

/// Rows without a result that did not fail either.
pub(super) fn missing(report: &Report) -> Vec<&Row> {
    let has_result = |row: &Row| row.report.is_some() || row.document.is_some();
    report.rows.iter().filter(|row| !has_result(row) && row.failure.is_none()).collect()
}

/// The worst of the subject's losses as a share of stock's figure, below one; none if it loses nothing.
fn loss(row: &Row) -> Option<f64> {
    COMPARED
        .iter()
        .filter_map(|compared| row.comparison(SUBJECT, compared.name))
        .filter(|comparison| comparison.verdict == Verdict::Worse)
        .map(|comparison| match comparison.ratio {
            Some(ratio) if ratio > 1.0 => 1.0 / ratio,
            Some(ratio) => ratio,
            // Latency where stock has none.
            None => 0.0,
        })
        .min_by(f64::total_cmp)
}
