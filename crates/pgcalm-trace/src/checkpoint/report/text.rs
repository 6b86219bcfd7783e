//! Checkpoints for a terminal.

use pgcalm_render::text::paragraph;

use super::files;
use crate::checkpoint::report::Around;
use crate::checkpoint::report::Checkpoint;
use crate::checkpoint::report::Line;
use crate::checkpoint::report::Syncs;
use crate::checkpoint::report::Transactions;
use crate::report::text;

/// One line of the model; every line of text ends in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => text::start(start),
        Line::Checkpoint(checkpoint) => render_checkpoint(checkpoint),
        Line::End(end) => text::end(end),
    }
}

fn render_checkpoint(checkpoint: &Checkpoint) -> String {
    let mut out = String::from("\n");
    paragraph(&mut out, &headline(checkpoint));
    let total = checkpoint.total_s.unwrap_or(0.0);
    for (name, time) in checkpoint.phases.list() {
        let Some(time) = time else { continue };
        let share = if total > 0.0 { time / total } else { 0.0 };
        out.push_str(&format!("  {name:<14}{time:>10.3} s  {}\n", text::bar(share, 40)));
    }
    for sentence in sentences(checkpoint) {
        paragraph(&mut out, &format!("  {sentence}"));
    }
    if let Some(per_buffer) = &checkpoint.per_buffer {
        for (name, histogram) in per_buffer.list() {
            out.push_str(&text::histogram(name, histogram));
        }
    }
    if let Some(sync) = &checkpoint.sync {
        out.push_str(&text::histogram("fsync", &sync.times));
        out.push_str(&slowest(sync));
    }
    if let Some(files) = &checkpoint.files {
        out.push_str(&files::text(files));
    }
    if let Some(transactions) = &checkpoint.transactions {
        out.push_str(&render_transactions(transactions));
    }
    out
}

/// What checkpoint it is and how long it took, in one line.
pub(crate) fn headline(checkpoint: &Checkpoint) -> String {
    let kind = if checkpoint.restartpoint { "Restartpoint" } else { "Checkpoint" };
    let flags = match checkpoint.flags.as_slice() {
        [] => String::new(),
        flags => format!(" [{}]", flags.join(" ")),
    };
    let total = checkpoint.total_s.map_or("total not known".to_string(), |total| format!("{total:.3} s"));
    format!("{kind} {} ({}){flags}: {total}", checkpoint.number, checkpoint.reason)
}

/// Buffers, WAL and fsync calls in words.
pub(crate) fn sentences(checkpoint: &Checkpoint) -> Vec<String> {
    let mut sentences = Vec::new();
    let buffers = &checkpoint.buffers;
    let mut parts = Vec::new();
    for (count, what) in [
        (buffers.total, "in all"),
        (buffers.dirty, "dirty"),
        (buffers.written, "written"),
        (buffers.logged, "written by log_checkpoints' count"),
    ] {
        parts.extend(count.map(|count| format!("{count} {what}")));
    }
    if !parts.is_empty() {
        sentences.push(format!("Buffers: {}.", parts.join(", ")));
    }
    if let Some(wal) = checkpoint.wal_segments {
        sentences.push(format!("WAL files: {} added, {} removed, {} recycled.", wal.added, wal.removed, wal.recycled));
    }
    for (name, syncs) in
        [("fsync calls of the sync phase", &checkpoint.sync), ("fsync calls outside it", &checkpoint.other_syncs)]
    {
        if let Some(syncs) = syncs {
            sentences.push(format!("{name}: {}, {:.3} s in all.", syncs.times.count, syncs.times.sum_ms / 1000.0));
        }
    }
    sentences
}

fn slowest(syncs: &Syncs) -> String {
    let mut out = String::new();
    if syncs.slowest.is_empty() {
        return out;
    }
    out.push_str("  Slowest files:\n");
    for file in &syncs.slowest {
        let relation = file.relation.as_deref().unwrap_or("");
        let error = file.errno.map_or(String::new(), |errno| format!(" FAILED, errno {errno}"));
        let line = format!("  {:>12.3} ms at {:>8.3} s  {:<24} {relation}{error}", file.time_ms, file.at_s, file.path);
        out.push_str(&pgcalm_render::number::printable(line.trim_end()));
        out.push('\n');
    }
    out
}

/// The means in words.
pub(crate) fn transaction_sentence(transactions: &Transactions) -> String {
    let figure = |value: Option<f64>| value.map_or("?".to_string(), |value| format!("{value:.0}"));
    format!(
        "Commits per second: {} before, {} during (worst second {}), {} after.",
        figure(transactions.before),
        figure(transactions.during),
        transactions.during_min.map_or("?".to_string(), |min| min.to_string()),
        figure(transactions.after)
    )
}

/// Rows of the listing; longer times are drawn together.
const ROWS: usize = 40;

fn render_transactions(transactions: &Transactions) -> String {
    let mut out = String::new();
    paragraph(&mut out, &format!("  {}", transaction_sentence(transactions)));
    let most = transactions.seconds.iter().map(|second| second.commits).max().unwrap_or(0).max(1);
    let step = transactions.seconds.len().div_ceil(ROWS).max(1);
    for group in transactions.seconds.chunks(step) {
        let (Some(first), commits, aborts) = (
            group.first(),
            group.iter().map(|s| s.commits).min().unwrap_or(0),
            group.iter().map(|s| s.aborts).sum::<u64>(),
        ) else {
            continue;
        };
        let aborts = if aborts > 0 { format!("  {aborts} aborted") } else { String::new() };
        out.push_str(&format!(
            "  {:>5} s {:<6} {commits:>8} {}{aborts}\n",
            first.second,
            around(first.phase),
            text::bar(commits as f64 / most as f64, 50)
        ));
    }
    if step > 1 {
        paragraph(&mut out, &format!("  Each row is the worst of {step} seconds."));
    }
    out
}

/// Where a second lies; nothing outside a checkpoint.
fn around(phase: Around) -> &'static str {
    match phase {
        Around::Before => "",
        Around::During => "during",
        Around::After => "after",
    }
}
