//! `pgcalm trace io` as one HTML page: the total of the trace.

use maud::Markup;
use maud::html;
use pgcalm_render::number::short;

use crate::io::report::Interval;
use crate::io::report::Line;
use crate::io::report::text;
use crate::report::html as common;

/// All lines of a trace.
pub fn render(lines: &[Line]) -> String {
    common::page(
        "io",
        lines.iter().filter_map(|line| match line {
            Line::Start(start) => Some(common::start(start)),
            Line::Interval(_) => None,
            Line::Total(total) => Some(total_section(total)),
            Line::End(end) => Some(common::end(end)),
        }),
    )
}

fn total_section(total: &Interval) -> Markup {
    html! {
        section {
            h2 { "System calls by process, " (short(total.length_s)) " s" }
            @for process in &total.processes {
                h3 { (text::process_line(process)) }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th.text { "operation" } th.text { "file" } th { "calls" } th { "failed" } th { "bytes" }
                                th { "mean ms" } th { "p99 ms" } th { "max ms" }
                            }
                        }
                        @for calls in &process.operations {
                            tr {
                                td.text { (calls.operation.label()) }
                                td.text { (calls.file.label()) }
                                td { (calls.calls) }
                                td { (calls.errors) }
                                td { (calls.bytes) }
                                td { (short(calls.duration.mean_ms().unwrap_or(0.0))) }
                                td { (short(text::p99_ms(&calls.duration))) }
                                td { (short(calls.duration.max_ms.unwrap_or(0.0))) }
                            }
                        }
                    }
                }
            }
        }
    }
}
