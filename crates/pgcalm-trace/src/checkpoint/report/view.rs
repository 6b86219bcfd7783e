//! Checkpoints for readers: phases, fsync calls, files, and what transactions did meanwhile.

use maud::{Markup, html};
use pgcalm_render::document::{Block, Column, Section, Table};

use crate::checkpoint::report::{Around, Checkpoint, FileTimes, Line, Syncs, Transactions};
use crate::report::view::{Shown, duration};
use crate::report::{Start, view};

/// Rows of a table in a terminal; the rest is in JSON and HTML.
const ROWS: usize = 40;

/// Size of the drawing of commits, in its own units.
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 160.0;

impl Shown for Line {
    fn as_start(&self) -> Option<&Start> {
        if let Line::Start(start) = self { Some(start) } else { None }
    }

    fn section(&self) -> Section {
        match self {
            Line::Start(_) => Section::default(),
            Line::Checkpoint(checkpoint) => of(checkpoint),
            Line::End(end) => view::end(end),
        }
    }
}

fn of(checkpoint: &Checkpoint) -> Section {
    let mut section = Section { heading: headline(checkpoint), ..Section::default() };
    let total = checkpoint.total_s.filter(|total| *total > 0.0);
    let mut phases = Table::new([Column::text("phase"), Column::figures("s"), view::bar()]);
    for (name, time) in checkpoint.phases.list() {
        let Some(time) = time else { continue };
        let share = total.map_or(0.0, |total| time / total);
        phases.row([name.to_string(), format!("{time:.3}"), share.to_string()]);
    }
    section.table(phases);
    for sentence in sentences(checkpoint) {
        section.text(sentence);
    }
    for (name, histogram) in checkpoint.per_buffer.iter().flat_map(super::PerBuffer::list) {
        view::histogram(&mut section, name, histogram);
    }
    if let Some(sync) = &checkpoint.sync {
        view::histogram(&mut section, "fsync", &sync.times);
        section.table(slowest(sync));
    }
    if let Some(files) = &checkpoint.files {
        section.text(format!("Files synced or hinted: {}", files.len())).table(each_file(files));
    }
    if let Some(transactions) = &checkpoint.transactions {
        section.text(transaction_sentence(transactions));
        section.add(Block::Page(commits(transactions))).add(Block::Elsewhere(worst_commits(transactions)));
    }
    section
}

/// What checkpoint it is and how long it took, in one line.
fn headline(checkpoint: &Checkpoint) -> String {
    let kind = if checkpoint.restartpoint { "Restartpoint" } else { "Checkpoint" };
    let flags = match checkpoint.flags.as_slice() {
        [] => String::new(),
        flags => format!(" [{}]", flags.join(" ")),
    };
    let total = checkpoint.total_s.map_or("total not known".to_string(), |total| format!("{total:.3} s"));
    format!("{kind} {} ({}){flags}: {total}", checkpoint.number, checkpoint.reason)
}

/// Buffers, WAL and fsync calls in words.
fn sentences(checkpoint: &Checkpoint) -> Vec<String> {
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
    if let (Some(all), Some(per_buffer)) = (checkpoint.phases.buffer_write_s, &checkpoint.per_buffer) {
        let (flush, after) = (per_buffer.flush.sum_ms / 1e3, per_buffer.flush_done_to_sync_written.sum_ms / 1e3);
        let rest = (all - flush - after).max(0.0);
        sentences.push(format!(
            "Buffer write: {all:.3} s, of which {flush:.3} s flushed buffers and {after:.3} s were flush hints and unlocking; {rest:.3} s \
             ({:.1} %) lie between buffers: sleeps of checkpoint_completion_target, and at first sorting.",
            if all > 0.0 { 100.0 * rest / all } else { 0.0 }
        ));
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

fn slowest(syncs: &Syncs) -> Table {
    let words = ["slowest file", "relation"].map(Column::text);
    let mut table = Table::new(words.into_iter().chain(["ms", "at s", "errno"].map(Column::figures)));
    for file in &syncs.slowest {
        table.row([
            file.path.clone(),
            file.relation.clone().unwrap_or_default(),
            format!("{:.3}", file.time_ms),
            format!("{:.3}", file.at_s),
            file.errno.map_or(String::new(), |errno| errno.to_string()),
        ]);
    }
    table
}

fn each_file(files: &[FileTimes]) -> Table {
    let figures = ["flush\nhints", "total", "longest", "fsyncs", "total", "longest"].map(Column::figures);
    let mut table = Table::new(["file", "relation"].map(Column::text).into_iter().chain(figures));
    table.most_in_terminal = Some(ROWS);
    let ms = |ms: f64| duration(ms * 1e6);
    for file in files {
        table.row([
            file.path.clone(),
            file.relation.clone().unwrap_or_default(),
            file.flush_hints.to_string(),
            ms(file.flush_hint_ms),
            ms(file.longest_flush_hint_ms),
            file.fsyncs.to_string(),
            ms(file.fsync_ms),
            ms(file.longest_fsync_ms),
        ]);
    }
    table
}

/// The means in words.
fn transaction_sentence(transactions: &Transactions) -> String {
    let figure = |value: Option<f64>| value.map_or("?".to_string(), |value| format!("{value:.0}"));
    format!(
        "Commits per second: {} before, {} during (worst second {}), {} after.",
        figure(transactions.before),
        figure(transactions.during),
        transactions.during_min.map_or("?".to_string(), |min| min.to_string()),
        figure(transactions.after)
    )
}

/// Commits of each second, or the worst of several where there are many.
fn worst_commits(transactions: &Transactions) -> Vec<Block> {
    let most = transactions.seconds.iter().map(|second| second.commits).max().unwrap_or(0).max(1);
    let step = transactions.seconds.len().div_ceil(ROWS).max(1);
    let figures = [Column::figures("commits"), view::bar(), Column::figures("aborted")];
    let mut table = Table::new([Column::figures("second"), Column::text("")].into_iter().chain(figures));
    for group in transactions.seconds.chunks(step) {
        let commits = group.iter().map(|second| second.commits).min().unwrap_or(0);
        table.row([
            group[0].second.to_string(),
            if group[0].phase == Around::During { "during".to_string() } else { String::new() },
            commits.to_string(),
            (commits as f64 / most as f64).to_string(),
            group.iter().map(|second| second.aborts).sum::<u64>().to_string(),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    if step > 1 {
        blocks.push(Block::Note(format!("Each row is the worst of {step} seconds.")));
    }
    blocks
}

/// Commits as columns; the checkpoint's seconds are darker.
fn commits(transactions: &Transactions) -> Markup {
    let most = transactions.seconds.iter().map(|s| s.commits).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let width = WIDTH / transactions.seconds.len().max(1) as f64;
    html! {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_from_sleep_where_buffers_were_timed() {
        let mut checkpoint = Checkpoint::default();
        checkpoint.phases.buffer_write_s = Some(268.8);
        assert_eq!(sentences(&checkpoint), Vec::<String>::new());
        let mut per_buffer = crate::checkpoint::report::PerBuffer::default();
        per_buffer.flush.sum_ms = 17_700.0;
        per_buffer.flush_done_to_sync_written.sum_ms = 1_100.0;
        checkpoint.per_buffer = Some(per_buffer);
        let said = sentences(&checkpoint).remove(0);
        assert!(
            said.starts_with("Buffer write: 268.800 s, of which 17.700 s flushed buffers and 1.100 s were"),
            "{said}"
        );
        assert!(said.contains("; 250.000 s (93.0 %) lie between"), "{said}");
    }
}
