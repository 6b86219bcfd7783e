//! Checkpoints as one HTML page.

use maud::Markup;
use maud::html;

use super::files;
use crate::checkpoint::report::Around;
use crate::checkpoint::report::Checkpoint;
use crate::checkpoint::report::Line;
use crate::checkpoint::report::Syncs;
use crate::checkpoint::report::Transactions;
use crate::checkpoint::report::text;
use crate::report::html as common;

/// All lines of a trace.
pub fn render(lines: &[Line]) -> String {
    common::page(
        "checkpoint",
        lines.iter().map(|line| match line {
            Line::Start(start) => common::start(start),
            Line::Checkpoint(checkpoint) => section(checkpoint),
            Line::End(end) => common::end(end),
        }),
    )
}

fn section(checkpoint: &Checkpoint) -> Markup {
    let total = checkpoint.total_s.unwrap_or(0.0);
    html! {
        section {
            h2 { (text::headline(checkpoint)) }
            table {
                thead { tr { th.text { "phase" } th { "s" } th.text { "share" } } }
                tbody {
                    @for (name, time) in checkpoint.phases.list() {
                        @if let Some(time) = time {
                            tr {
                                td.text { (name) }
                                td { (format!("{time:.3}")) }
                                td.text { (common::bar(if total > 0.0 { time / total } else { 0.0 })) }
                            }
                        }
                    }
                }
            }
            @for sentence in text::sentences(checkpoint) { p { (sentence) } }
            @if let Some(per_buffer) = &checkpoint.per_buffer {
                @for (name, histogram) in per_buffer.list() { (common::histogram(name, histogram)) }
            }
            @if let Some(sync) = &checkpoint.sync {
                (common::histogram("fsync", &sync.times))
                (slowest(sync))
            }
            @if let Some(files) = &checkpoint.files { (files::html(files)) }
            @if let Some(transactions) = &checkpoint.transactions { (commits(transactions)) }
        }
    }
}

fn slowest(syncs: &Syncs) -> Markup {
    html! {
        @if !syncs.slowest.is_empty() {
            table {
                thead { tr { th.text { "slowest file" } th.text { "relation" } th { "ms" } th { "at s" } th { "errno" } } }
                tbody {
                    @for file in &syncs.slowest {
                        tr {
                            td.text { (file.path) }
                            td.text { (file.relation.as_deref().unwrap_or("")) }
                            td { (format!("{:.3}", file.time_ms)) }
                            td { (format!("{:.3}", file.at_s)) }
                            td { @if let Some(errno) = file.errno { (errno) } }
                        }
                    }
                }
            }
        }
    }
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 160.0;

/// Commits as columns; the checkpoint's seconds are darker.
fn commits(transactions: &Transactions) -> Markup {
    let most = transactions.seconds.iter().map(|s| s.commits).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let width = WIDTH / transactions.seconds.len().max(1) as f64;
    html! {
        p { (text::transaction_sentence(transactions)) }
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="Commits per second" {
            @for (index, second) in transactions.seconds.iter().enumerate() {
                @let height = HEIGHT * second.commits as f64 / most;
                rect x=(format!("{:.2}", index as f64 * width)) y=(format!("{:.2}", HEIGHT - height))
                    width=(format!("{:.2}", width * 0.9)) height=(format!("{height:.2}"))
                    fill="currentColor" opacity=(if second.phase == Around::During { "0.9" } else { "0.35" }) {
                    title { (second.second) " s: " (second.commits) " commits, " (second.aborts) " aborts" }
                }
            }
        }
    }
}
