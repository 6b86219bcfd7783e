//! The grid as one self-contained HTML file, in the style of the other reports: no network, no script.

use maud::DOCTYPE;
use maud::Markup;
use maud::PreEscaped;
use maud::html;

use super::Point;
use super::Report;
use super::reading;
use super::text::GROUPS;
use super::text::against_possible;
use super::text::conditions;
use super::text::figures;
use super::text::point_settings;
use super::text::verdict;
use crate::number::short;
use crate::settings;

/// Nothing may be loaded or run, whatever the report's strings say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { "pgcalm: " (report.scenario) ", " (report.host.started_at) }
                style { (PreEscaped(include_str!("../html/report.css"))) }
            }
            body {
                main {
                    header {
                        p.kicker { "pgcalm lab · " (report.scenario) " · " (report.host.started_at) }
                        h1 { "What was predicted from shadow mode, and what came with pg_calm on" }
                        @for line in reading::lines(report) { p.reading { (line) } }
                        p.conditions { (conditions(report).join(" · ")) }
                        p.conditions { (settings::host(&report.host).join(" · ")) }
                    }
                    section { h2 { "Points" } (table(report)) }
                    section {
                        h2 { "What each point is" }
                        @for point in &report.points { (point_section(point)) }
                    }
                }
            }
        }
    }
    .into_string()
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
