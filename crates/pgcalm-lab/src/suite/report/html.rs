//! The matrix and all its runs as one self-contained HTML file.

use maud::{Markup, html};
use pgcalm_render::chart::figure;
use pgcalm_render::document::{Document, Section};
use pgcalm_render::number::{MISSING, short};
use pgcalm_render::page::{page, series_data, tooltip};

use super::order::Group;
use super::reading::SHOWN;
use super::{Report, Row, Verdict, order, reading};
use crate::contest;
use crate::contest::report::{conditions, tables, view};
use crate::report::{settings, style};

/// The whole suite as an HTML document.
pub(super) fn render(report: &Report) -> String {
    let groups = order::groups(report);
    let main = html! {
        header {
            p.kicker { "pgcalm lab · suite" }
            h1 { (report.title) }
            @for line in reading::lines(report) { p.reading { (line) } }
            @if let Some(with) = reading::made_with(report) { p.conditions { (with) } }
            @if !report.about.is_empty() { p.conditions { (report.about) } }
        }
        (failures(report))
        @if !groups.is_empty() { (matrix(&groups)) }
        @for group in &groups {
            @for row in &group.rows {
                @if let Some(result) = &row.report { (run(row, result)) }
            }
        }
        @for (row, result) in order::others(report) { (other(row, &result.shown().document())) }
    };
    let title = format!("pgcalm: {}", report.title);
    page(&title, include_str!("suite.css"), &main, Some(&tooltip()))
}

fn failures(report: &Report) -> Markup {
    let failed = order::failed(report);
    html! {
        @if !failed.is_empty() {
            section {
                h2 { "Failed" }
                @for (row, failure) in failed { p { strong { (row.name) } ": " (failure) } }
            }
        }
    }
}

fn matrix(groups: &[Group<'_>]) -> Markup {
    html! {
        section {
            h2 { "Matrix" }
            p.note { "Every figure leads to its run." }
            div.scroll {
                table.matrix {
                    thead {
                        tr {
                            th {}
                            @for shown in &SHOWN { th scope="col" { (shown.heading[0]) br; (shown.heading[1]) } }
                        }
                    }
                    @for group in groups {
                        tr.part { th scope="colgroup" colspan=(SHOWN.len() + 1) { span { (group.title) } } }
                        @for row in &group.rows { (lines(row)) }
                    }
                }
            }
            @for note in reading::NOTES { p.note { (note) } }
        }
    }
}

/// A row of the suite: a line with its name, and one for each contestant.
fn lines(row: &Row) -> Markup {
    let contestants = row.report.as_ref().map_or(&[][..], |report| &report.contestants);
    let styles = style::assign(contestants.iter().map(|c| c.name.as_str()));
    html! {
        tbody {
            tr.row {
                th scope="rowgroup" colspan=(SHOWN.len() + 1) {
                    span {
                        a href={ "#" (anchor(row)) } { (row.name) }
                        @if row.title != row.name { ": " (row.title) }
                        @for line in reading::cap(row).into_iter().chain(reading::start(row)) { small { (line) } }
                        @for remark in reading::remarks(row) { small.mark { (remark) } }
                    }
                }
            }
            @for (contestant, style) in contestants.iter().zip(styles) {
                tr {
                    th scope="row" { span.name.(style.class()) { (contestant.name) } }
                    @for shown in &SHOWN {
                        td {
                            a href={ "#" (anchor(row)) } {
                                ((shown.figure)(contestant).map_or_else(|| MISSING.to_string(), short))
                            }
                            @if let Some((ratio, verdict)) = shown.compared
                                .and_then(|metric| reading::ratio(row, &contestant.name, metric)) {
                                small.(class(verdict)) { (ratio) }
                            }
                        }
                    }
                }
                @for line in [reading::verdict(row, &contestant.name), reading::spread(contestant)].into_iter().flatten() {
                    tr { td.text colspan=(SHOWN.len() + 1) { small { (line) } } }
                }
            }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    verdict.name()
}

fn anchor(row: &Row) -> String {
    format!("row-{}", row.name)
}

/// A run of another scenario.
fn other(row: &Row, result: &Document) -> Markup {
    html! {
        section.run id=(anchor(row)) {
            h2 { (row.title) }
            p.note { code { (row.command) } }
            @for line in &result.conditions { p.conditions { (line.join(" · ")) } }
            @for line in &result.readings { p.reading { (line) } }
        }
        @for section in &result.sections { (section.markup()) }
    }
}

/// A run: its chart in sight, the rest of its report folded.
fn run(row: &Row, result: &contest::report::Report) -> Markup {
    html! {
        section.run id=(anchor(row)) {
            h2 { (row.title) }
            p.note { code { (row.command) } }
            p.conditions { (conditions::conditions(result).join(" · ")) }
            p.conditions { (settings::machine(&result.host).join(" · ")) }
            @if let Some(line) = reading::start(row) { p { (line) } }
            @for remark in reading::remarks(row) { p.mark { (remark) } }
            @for line in crate::contest::report::reading::lines(result) { p.reading { (line) } }
            (figure::render(&view::tps_chart(result)))
            details {
                summary { "The whole run" }
                (tables::comparison(result))
                (Section { blocks: view::other_charts(result), ..Section::default() }.markup())
                @for section in view::sections(result) { (section.markup()) }
            }
            (series_data(&view::series(result)))
        }
    }
}
