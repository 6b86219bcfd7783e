//! `pgcalm trace why` as one HTML page.

use maud::Markup;
use maud::PreEscaped;
use maud::html;
use pgcalm_render::number::percent;
use pgcalm_render::number::short;

use crate::report::html as common;
use crate::why::report::Cause;
use crate::why::report::Line;
use crate::why::report::Second;
use crate::why::report::Summary;
use crate::why::report::Totals;
use crate::why::report::Verdict;
use crate::why::report::by_cause;
use crate::why::report::text;

/// Colours of report.css that columns are drawn in; the causes beyond share the last one.
const COLOURS: usize = 8;
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 200.0;

/// All lines of a trace.
pub fn render(lines: &[Line]) -> String {
    let seconds: Vec<&Second> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Second(second) => Some(second),
            _ => None,
        })
        .collect();
    common::page(
        "why",
        lines.iter().filter_map(|line| match line {
            Line::Start(start) => Some(html! { (common::start(start)) (columns(&seconds)) }),
            Line::Second(_) => None,
            Line::Verdict(verdict) => Some(verdict_section(verdict, &seconds)),
            Line::Summary(summary) => Some(summary_section(summary)),
            Line::End(end) => Some(common::end(end)),
        }),
    )
}

/// A column for each second: the lost time by cause.
fn columns(seconds: &[&Second]) -> Markup {
    let all: Vec<_> = seconds.iter().flat_map(|second| second.shares.iter().cloned()).collect();
    let causes: Vec<Cause> = by_cause(&all).into_iter().map(|(cause, _)| cause).collect();
    let most = seconds.iter().map(|second| second.lost_s).fold(0.0, f64::max);
    if most <= 0.0 {
        return html! { p.empty { "No time was lost." } };
    }
    let step = WIDTH / seconds.len() as f64;
    let mut shapes = String::new();
    for (index, second) in seconds.iter().enumerate() {
        let mut top = HEIGHT;
        for (cause, lost) in by_cause(&second.shares) {
            let height = lost / most * HEIGHT;
            top -= height;
            let colour = colour(&causes, cause);
            let x = index as f64 * step;
            let width = step * 0.9;
            let title =
                format!("second {}, {} commits: {} {} s", second.number, second.commits, cause.label(), short(lost));
            shapes.push_str(&format!(
                "<rect class=\"k{colour}\" fill=\"currentColor\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"><title>{title}</title></rect>"
            ));
        }
    }
    html! {
        section {
            h2 { "Backend time lost, by second" }
            p.note { "Highest column: " (short(most)) " backend seconds in a second." }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width="100%" role="img" aria-label="lost time by second" {
                (PreEscaped(shapes))
            }
            p {
                @for (index, cause) in causes.iter().enumerate() {
                    span class=(format!("k{}", index.min(COLOURS - 1))) { "■ " }
                    (cause.label()) " "
                }
            }
        }
    }
}

fn colour(causes: &[Cause], cause: Cause) -> usize {
    causes.iter().position(|known| *known == cause).unwrap_or(COLOURS).min(COLOURS - 1)
}

fn verdict_section(verdict: &Verdict, seconds: &[&Second]) -> Markup {
    let second = seconds.iter().find(|second| second.number == verdict.second);
    html! {
        section {
            h3 { (text::sentence(verdict)) }
            @if let Some(second) = second {
                p {
                    (second.commits) " commits"
                    @if let Some(median) = second.median_commits_per_s { ", median " (short(median)) }
                    "; lost " (short(second.lost_s)) " s of " (second.backends) " backends; " (text::wal(second))
                    @for disk in &second.disks {
                        "; " (disk.name) " " (percent(disk.busy)) " busy, " (disk.requests) " requests, "
                        (disk.throttled_bios) " held back by the block cgroup"
                    }
                }
                (shares(&second.shares))
            }
            @for call in &verdict.long_syscalls {
                p {
                    "pid " (call.pid) " " (if call.under_way { "is in " } else { "was in " })
                    code { (call.syscall) } " on " (call.file.label()) ": " (short(call.seconds)) " s"
                }
            }
            @if !verdict.stacks.is_empty() || !verdict.kernel_threads.is_empty() {
                details {
                    summary { "Kernel stacks" }
                    div.scroll {
                        table {
                            @for stack in &verdict.stacks {
                                tr {
                                    td { (short(stack.seconds)) "\u{a0}s" }
                                    td.text { (stack.role) " in " (stack.syscall.as_deref().unwrap_or("a page fault"))
                                        " on " (stack.file.label()) }
                                    td.text { (stack.cause.label()) }
                                    td.stack { @for frame in &stack.frames { code { (frame) } } }
                                }
                            }
                            @for thread in &verdict.kernel_threads {
                                tr {
                                    td { "–" }
                                    td.text { (thread.name) }
                                    td.text { "kernel thread" }
                                    td.stack { @for frame in &thread.frames { code { (frame) } } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn shares(shares: &[crate::why::report::Share]) -> Markup {
    html! {
        table {
            @for share in shares {
                tr {
                    td { (percent(share.share).replace(' ', "\u{a0}")) }
                    td { (short(share.seconds)) "\u{a0}s" }
                    td.text { (text::share_name(share)) }
                }
            }
        }
    }
}

fn summary_section(summary: &Summary) -> Markup {
    html! {
        section {
            h2 { "Sums" }
            (totals("All seconds", &summary.all))
            @if summary.with_verdict.seconds > 0 {
                (totals("Seconds with a verdict", &summary.with_verdict))
            }
        }
    }
}

fn totals(heading: &str, totals: &Totals) -> Markup {
    html! {
        h3 { (heading) }
        p {
            (totals.seconds) " s, " (totals.commits) " commits; backends ran " (short(totals.on_cpu_s))
            " s, waited for clients " (short(totals.client_s)) " s, lost " (short(totals.lost_s)) " s to"
        }
        (shares(&totals.shares))
    }
}
