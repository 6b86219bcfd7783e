//! `pgcalm trace connect` as one HTML page.

use maud::Markup;
use maud::html;
use pgcalm_render::number::short;

use crate::connect::report::Connection;
use crate::connect::report::Line;
use crate::connect::report::text;
use crate::report::html as common;
use crate::why::report::text::share_name;

/// All lines of a trace.
pub fn render(lines: &[Line]) -> String {
    common::page(
        "connect",
        lines.iter().map(|line| match line {
            Line::Start(start) => common::start(start),
            Line::Connection(connection) => connection_section(connection),
            Line::Hanging(hanging) => html! { p { (text::hanging_sentence(hanging)) } },
            Line::Summary(summary) => html! { h2 { (text::summary_sentence(summary)) } },
            Line::End(end) => common::end(end),
        }),
    )
}

fn connection_section(connection: &Connection) -> Markup {
    html! {
        section {
            h3 { (text::heading(connection)) }
            div.scroll {
                table {
                    thead {
                        tr {
                            th.text { "phase" } th { "ms" } th { "cpu ms" } th { "client ms" } th { "lost ms" }
                            th.text { "lost to" } th.text { "system calls" }
                        }
                    }
                    @for phase in &connection.phases {
                        tr {
                            td.text { (phase.phase.label()) }
                            td { (short(phase.ms)) }
                            td { (short(phase.on_cpu_ms)) }
                            td { (short(phase.client_ms)) }
                            td { (short(phase.lost_ms)) }
                            td.text {
                                @for share in &phase.shares {
                                    (share_name(share)) " " (short(share.seconds * 1e3)) " ms" br;
                                }
                            }
                            td.text {
                                @for calls in &phase.calls {
                                    (calls.calls) " " (calls.operation.label()) " " (calls.file.label()) ", "
                                    (short(calls.ms)) " ms" br;
                                }
                            }
                        }
                    }
                }
            }
            @for stack in &connection.stacks {
                p {
                    (short(stack.seconds * 1e3)) " ms in " (stack.syscall.as_deref().unwrap_or("a page fault")) ": "
                    @for frame in &stack.frames { code { (frame) } " " }
                }
            }
        }
    }
}
