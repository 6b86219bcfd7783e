//! Instances on one device as one self-contained HTML file.

use maud::Markup;
use maud::html;
use pgcalm_render::number::short;

use super::Report;
use super::text::FIGURES;
use super::text::conditions;
use crate::contest::report::html::charts;
use crate::contest::report::html::scripts;
use crate::contest::report::html::tables;
use crate::report::page;
use crate::report::page::Heading;
use crate::report::style;

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    let contest = report.as_contest();
    let sections = html! {
        section {
            h2 { "Comparison" }
            (comparison(report))
        }
        (charts(&contest))
        section {
            h2 { "Instances" }
            (instances(report))
        }
        section {
            h2 { "Contestants" }
            (tables::contestants(&contest))
        }
        section {
            h2 { "Blocked processes" }
            (tables::blocked(&contest))
        }
        section.columns {
            div {
                h2 { "Host" }
                (tables::host(&contest))
            }
        }
    };
    page::scenario(
        &Heading {
            scenario: &report.scenario,
            host: &report.host,
            headline: &headline(report),
            readings: &[],
            conditions: &[conditions(report)],
        },
        &sections,
        Some(&scripts(&contest)),
    )
}

fn headline(report: &Report) -> String {
    let parts: Vec<String> = report
        .contestants
        .iter()
        .map(|c| format!("{}: {} of {} instances with zero seconds", c.name, c.instances_zero(), c.instances.len()))
        .collect();
    parts.join(", ")
}

fn head(report: &Report, first: &str) -> Markup {
    let styles = style::assign(report.contestants.iter().map(|c| c.name.as_str()));
    html! {
        thead {
            tr {
                th { (first) }
                @for (contestant, style) in report.contestants.iter().zip(styles) {
                    th scope="col" { span.name.(style.class()) { (contestant.name) } }
                }
            }
        }
    }
}

fn comparison(report: &Report) -> Markup {
    html! {
        div.scroll {
            table.comparison {
                (head(report, ""))
                @for (name, figure) in FIGURES {
                    tr {
                        th scope="row" { (name) }
                        @for contestant in &report.contestants { td { (figure(contestant)) } }
                    }
                }
            }
        }
    }
}

fn instances(report: &Report) -> Markup {
    let count = report.contestants.iter().map(|c| c.instances.len()).max().unwrap_or(0);
    html! {
        p.note { "Worst second in transactions, seconds at zero, and 99th percentile of the latency." }
        div.scroll {
            table.comparison {
                (head(report, "instance"))
                @for index in 0..count {
                    tr {
                        th scope="row" { (index + 1) }
                        @for contestant in &report.contestants {
                            td {
                                @if let Some(instance) = contestant.instances.get(index) {
                                    (short(instance.tps_min)) ", " (instance.seconds_zero) " s, "
                                    (short(instance.latency_ms.p99)) " ms"
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
