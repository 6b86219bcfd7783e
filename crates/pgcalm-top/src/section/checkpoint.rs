//! The checkpoint that is under way, how far it is, and the last one.

use pgcalm_monitor::model::{Checkpoint, CheckpointPhase, CompletedCheckpoint};
use ratatui::text::Span;

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};

const SECTION: &str = "Checkpoint";

/// The phase; how soon the next one is due; the last one.
pub fn rows(context: &Context) -> Vec<Row> {
    let Some(checkpoint) = &context.instance.checkpoint else { return Vec::new() };
    let mut rows = vec![under_way(context, checkpoint)];
    rows.extend(due(context, checkpoint));
    rows.extend(
        checkpoint
            .last
            .as_ref()
            .map(|last| Row::text(SECTION, 4, format!("last: {}", completed(last)), context.palette().secondary())),
    );
    rows
}

fn under_way(context: &Context, checkpoint: &Checkpoint) -> Row {
    let palette = context.palette();
    if checkpoint.phase == CheckpointPhase::Idle {
        let since = checkpoint
            .since_last_seconds
            .map(|seconds| format!("the last began {} ago", format::whole_seconds(seconds)));
        return Row::text(SECTION, 0, listed([Some("idle".to_string()), since]), palette.secondary());
    }
    let phase = match checkpoint.phase {
        CheckpointPhase::Unknown => "in an unknown phase",
        phase => phase.name(),
    };
    let mut spans = vec![Span::styled(format!("{phase} "), palette.heading())];
    let buffers = checkpoint.buffers_written.map(|written| format!("{} buffers", format::count(written)));
    let synced = matches!(checkpoint.phase, CheckpointPhase::Sync | CheckpointPhase::End);
    spans.push(Span::raw(listed([
        checkpoint.running_seconds.map(format::whole_seconds),
        buffers,
        checkpoint.files_synced.filter(|_| synced).map(|files| format!("{} files synced", format::count(files))),
        checkpoint.reason.clone(),
        checkpoint.kind.clone().filter(|kind| kind != "checkpoint"),
    ])));
    Row::new(SECTION, 0, spans)
}

/// The next begins when either is used up: `max_wal_size` by WAL, `checkpoint_timeout` by time. While one is under way,
/// the time is that since the one before, and says nothing.
fn due(context: &Context, checkpoint: &Checkpoint) -> Option<Row> {
    let wal = match (checkpoint.wal_since_redo_bytes, checkpoint.max_wal_size_bytes) {
        (Some(wal), Some(max)) => {
            Some(format!("max_wal_size: {} of {}", format::byte_count(wal), format::byte_count(max)))
        }
        (Some(wal), None) => Some(format!("WAL {}", format::byte_count(wal))),
        _ => None,
    };
    let idle = checkpoint.phase == CheckpointPhase::Idle;
    let time = match (checkpoint.since_last_seconds, checkpoint.timeout_seconds) {
        (Some(since), Some(timeout)) if idle => {
            Some(format!("checkpoint_timeout: {} of {}", format::whole_seconds(since), format::whole_seconds(timeout)))
        }
        _ => None,
    };
    let text = listed([wal, time]);
    (!text.is_empty()).then(|| Row::text(SECTION, 3, text, context.palette().secondary()))
}

fn completed(last: &CompletedCheckpoint) -> String {
    let phase =
        |name: &str, seconds: Option<f64>| seconds.map(|seconds| format!("{name} {}", format::seconds(seconds)));
    let slowest = last.slowest_file_seconds.map(|seconds| {
        let file = last.slowest_file.as_deref().unwrap_or("a file");
        format!("slowest fsync {} ({file})", format::seconds(seconds))
    });
    listed([
        last.total_seconds.map(format::seconds),
        phase("write", last.write_seconds),
        phase("drain", last.drain_seconds),
        phase("fsync", last.fsync_seconds),
        last.buffers_written.map(|buffers| format!("{} buffers", format::count(buffers))),
        Some(last.reason.clone()),
        slowest,
    ])
}
