//! Lock waits as one HTML page.

use maud::Markup;
use maud::html;

use crate::locks::report::AroundCheckpoint;
use crate::locks::report::Line;
use crate::locks::report::Period;
use crate::locks::report::text;
use crate::report::html as common;
use crate::report::text::duration;

/// All lines of a trace.
pub fn render(lines: &[Line]) -> String {
    common::page(
        "locks",
        lines.iter().map(|line| match line {
            Line::Start(start) => common::start(start),
            Line::Checkpoint(checkpoint) => section(checkpoint),
            Line::Total(period) => html! {
                section {
                    h2 { "In all" }
                    (table("", period))
                    @for lock in &period.locks {
                        (common::histogram(&text::title(lock), &lock.waits))
                    }
                }
            },
            Line::End(end) => common::end(end),
        }),
    )
}

fn section(checkpoint: &AroundCheckpoint) -> Markup {
    html! {
        section {
            h2 { (text::headline(checkpoint)) }
            (table("Before ", &checkpoint.before))
            (table("First ", &checkpoint.first))
            (table("During ", &checkpoint.during))
            (table("After ", &checkpoint.after))
        }
    }
}

fn table(name: &str, period: &Period) -> Markup {
    html! {
        p { (name) (text::sentence(period)) }
        @if !period.locks.is_empty() {
            table {
                thead {
                    tr {
                        th { "lock" } th { "mode" } th { "relation" } th { "process type" } th { "waits" }
                        th { "total" } th { "mean" } th { "longest, at most" } th { "acquisitions" }
                    }
                }
                tbody {
                    @for lock in &period.locks {
                        tr {
                            td { (lock.class.name()) " " (lock.name) }
                            td { (lock.mode) }
                            td { @if let Some(relation) = lock.relation { (relation) } }
                            td { (lock.process_type) }
                            td { (lock.waits.count) }
                            td { (duration(lock.total_ms() * 1e6)) }
                            td { @if let Some(mean) = lock.waits.mean_ms() { (duration(mean * 1e6)) } }
                            td { @if let Some(bound) = lock.waits.upper_bound_ms() { (duration(bound * 1e6)) } }
                            td { @if let Some(number) = lock.acquisitions { (number) } }
                        }
                    }
                }
            }
        }
    }
}
