//! The grid as one self-contained HTML file, in the style of the other reports: no network, no script.

use maud::Markup;
use maud::html;
use pgcalm_predict::report::text::verdict;
use pgcalm_render::number::short;

use super::Point;
use super::Report;
use super::reading;
use super::text::GROUPS;
use super::text::against_possible;
use super::text::conditions;
use super::text::figures;
use super::text::point_settings;
use crate::report::page;
use crate::report::page::Heading;
use crate::report::settings;

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    let sections = html! {
        section { h2 { "Points" } (table(report)) }
        section {
            h2 { "What each point is" }
            @for point in &report.points { (point_section(point)) }
        }
    };
    page::scenario(
        &Heading {
            scenario: &report.scenario,
            host: &report.host,
            headline: "What was predicted from shadow mode, and what came with pg_calm on",
            readings: &reading::lines(report),
            conditions: &[conditions(report), settings::host(&report.host)],
        },
        &sections,
        None,
    )
}

fn table(report: &Report) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.text scope="col" { "point" }
                        @for group in GROUPS {
                            th scope="col" { (group) " predicted" }
                            th scope="col" { "measured" }
                            th scope="col" { "error" }
                        }
                    }
                }
                @for point in &report.points {
                    tr {
                        td.text { strong { (point.name) } @if point.held_back { " (held back)" } }
                        @for ((predicted, measured), error) in figures(point).into_iter().zip(point.errors()) {
                            td { (short(predicted)) }
                            td { (short(measured)) }
                            td { (reading::signed_percent(error)) }
                        }
                    }
                }
            }
        }
    }
}

fn point_section(point: &Point) -> Markup {
    let stock = &point.prediction.stock;
    html! {
        h3 { (point.name) }
        p { (point_settings(point)) }
        p.note {
            "Predicted for stock: " (short(stock.device_operations_per_s)) " operations and "
            (short(stock.device_mib_per_s)) " MiB per second, " (short(stock.sustainable_tps)) " TPS, bound by "
            (stock.bound_by) ". For pg_calm: bound by " (point.prediction.pg_calm.bound_by) ". "
            (verdict(&point.prediction))
        }
        @if let Some(text) = against_possible(point) { p.note { (text) } }
    }
}
