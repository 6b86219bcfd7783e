//! A document as a page.

use maud::{Markup, html};

use super::{Block, Column, Document, Kind, Section, Table};
use crate::chart::figure;
use crate::page::page;

pub(super) fn document(document: &Document) -> String {
    let mut readings = document.readings.iter();
    let title = document.title.as_ref().or_else(|| readings.next());
    let main = html! {
        header {
            p.kicker { (document.by) " · " (document.subject) @if !document.time.is_empty() { " · " (document.time) } }
            h1 { (title.map_or("", String::as_str)) }
            @for line in readings { p.reading { (line) } }
            @for line in &document.conditions { p.conditions { (line.join(" · ")) } }
        }
        @for one in &document.sections { (section(one)) }
        (terms(document))
    };
    let title = format!("pgcalm: {}, {}", document.subject, document.time);
    page(&title, "", &main, document.scripts.as_ref())
}

pub(super) fn section(section: &Section) -> Markup {
    if section.heading.is_empty() && section.blocks.is_empty() {
        return html! {};
    }
    html! {
        section {
            @if !section.heading.is_empty() { h2 { (section.heading) } }
            (blocks(&section.blocks))
        }
    }
}

fn blocks(blocks: &[Block]) -> Markup {
    html! { @for one in blocks { (block(one)) } }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Heading(text) => html! { h3 { (text) } },
        Block::Text(text) => html! { p { (text) } },
        Block::Note(text) => html! { p.note { (text) } },
        Block::Command(text) => html! { pre { code { (text) } } },
        Block::Table(one) => table(one),
        Block::Charts(charts) => {
            let drawn = html! { @for chart in charts { (figure::render(chart)) } };
            html! { @if charts.len() > 1 { div.pair { (drawn) } } @else { (drawn) } }
        }
        Block::Details(summary, within) => html! { details { summary { (summary) } (blocks(within)) } },
        Block::Page(markup) => markup.clone(),
        Block::Elsewhere(_) => html! {},
    }
}

fn table(table: &Table) -> Markup {
    let rows = html! {
        @for row in &table.rows {
            tr { @for (index, (column, text)) in table.columns.iter().zip(row).enumerate() { (cell(column, text, index == 0)) } }
        }
    };
    if table.rows.is_empty() {
        return html! {};
    }
    if table.is_pairs {
        return html! { table.pairs { (rows) } };
    }
    html! {
        div.scroll {
            table {
                thead { tr { @for column in &table.columns { (heading(column)) } } }
                (rows)
            }
        }
    }
}

fn heading(column: &Column) -> Markup {
    let title = Some(column.meaning).filter(|meaning| !meaning.is_empty());
    let class = if column.kind == Kind::Figure { None } else { Some("text") };
    html! {
        th class=[class] scope="col" title=[title] {
            @if let Some(class) = &column.class { span.name.(class) { (column.line()) } } @else { (column.line()) }
        }
    }
}

fn cell(column: &Column, text: &str, is_first: bool) -> Markup {
    match column.kind {
        Kind::Text if is_first => html! { th.text scope="row" { (text) } },
        Kind::Text => html! { td.text { (text) } },
        Kind::Figure => html! { td { (text) } },
        Kind::Stack => html! { td.stack { @for line in text.lines() { code { (line) } " " } } },
        Kind::Bar => html! { td.text { (bar(text.parse().unwrap_or(0.0))) } },
    }
}

fn bar(share: f64) -> Markup {
    html! {
        svg viewBox="0 0 200 10" width="200" height="10" role="presentation" {
            rect x="0" y="0" width=(format!("{:.1}", share.clamp(0.0, 1.0) * 200.0)) height="10" fill="currentColor" opacity="0.6" {}
        }
    }
}

/// What the figures of the tables mean.
fn terms(document: &Document) -> Markup {
    let columns = document.tables().into_iter().flat_map(|table| &table.columns);
    // Tables may have some in common.
    let mut named = std::collections::BTreeSet::new();
    let told: Vec<&Column> =
        columns.filter(|column| !column.meaning.is_empty() && named.insert(column.line())).collect();
    html! {
        @if !told.is_empty() || !document.terms.is_empty() {
            section {
                h2 { "Terms" }
                dl {
                    @for (term, meaning) in document.terms { dt { (term) } dd { (meaning) } }
                    @for column in told { dt { (column.line()) } dd { (column.meaning) } }
                }
            }
        }
    }
}
