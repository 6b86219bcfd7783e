//! Layouts as one self-contained HTML file, in the style of the other reports: no network, no script.

use maud::Markup;
use maud::html;
use pgcalm_render::number::short;

use super::Layout;
use super::Phase;
use super::Report;
use super::reading;
use super::text::FIGURES;
use super::text::conditions;
use crate::report::page;
use crate::report::page::Heading;
use crate::report::settings;

/// Size of a drawing of transactions per second, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 80.0;

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    let sections = html! {
        section { h2 { "Layouts" } (table(report)) }
        section {
            h2 { "Transactions per second, and where processes hung" }
            @for layout in &report.layouts { (layout_section(layout)) }
        }
    };
    page::scenario(
        &Heading {
            scenario: &report.scenario,
            host: &report.host,
            headline: "What a capped neighbour does to an instance beside it",
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
                        th.text scope="col" { "layout" }
                        th.text scope="col" { "neighbour" }
                        @for (heading, _) in FIGURES { th scope="col" { (heading.replace('\n', " ")) } }
                    }
                }
                @for layout in &report.layouts {
                    tr { td.text rowspan="2" { strong { (layout.name) } } (cells("idle", &layout.alone)) }
                    tr { (cells("noisy", &layout.noisy)) }
                }
            }
        }
    }
}

fn cells(neighbour: &str, phase: &Phase) -> Markup {
    html! {
        td.text { (neighbour) }
        @for (_, figure) in FIGURES { td { (short(figure(phase))) } }
    }
}

fn layout_section(layout: &Layout) -> Markup {
    let top = layout.alone.tps.iter().chain(&layout.noisy.tps).fold(1.0_f64, |top, tps| top.max(*tps));
    html! {
        h3 { (layout.name) }
        p { (layout.description) }
        @if !layout.mount_options.is_empty() { p.note { "Mounted with " code { (layout.mount_options) } } }
        div.pair {
            @for (name, phase) in [("neighbour idle", &layout.alone), ("neighbour noisy", &layout.noisy)] {
                div.chart {
                    (drawing(phase, top))
                    p.note { (name) ": up to " (short(top)) " transactions per second" }
                }
            }
        }
        @if !layout.hangs.is_empty() {
            details open {
                summary { "Seen in uninterruptible sleep" }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th scope="col" { "samples" }
                                @for heading in ["who", "process", "call", "file", "kernel stack, innermost first"] {
                                    th.text scope="col" { (heading) }
                                }
                            }
                        }
                        @for hang in &layout.hangs {
                            tr {
                                td { (hang.samples) }
                                td.text { (hang.who) }
                                td.text { (hang.process) }
                                td.text { (hang.call.as_deref().unwrap_or("")) }
                                td.text { (hang.file.as_deref().unwrap_or("")) }
                                td.stack { @for function in &hang.stack { code { (function) } " " } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A bar for each second.
fn drawing(phase: &Phase, top: f64) -> Markup {
    let width = WIDTH / phase.tps.len().max(1) as f64;
    html! {
        svg.k0 viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" style="width:100%;height:80px"
            role="img" aria-label="transactions per second" {
            path.grid d={ "M0 " (HEIGHT) "H" (WIDTH) } {}
            @for (second, tps) in phase.tps.iter().enumerate() {
                @let height = HEIGHT * tps / top;
                rect x=(format!("{:.2}", second as f64 * width)) y=(format!("{:.2}", HEIGHT - height))
                    width=(format!("{:.2}", width * 0.9)) height=(format!("{height:.2}")) fill="currentColor" {}
            }
        }
    }
}
