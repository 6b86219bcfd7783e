//! WAL that waits to be archived.

use pgcalm_monitor::model::ArchiveState;

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};

/// One row, and one more when archiving fails.
pub fn rows(context: &Context) -> Vec<Row> {
    let Some(archive) = &context.instance.archive else { return Vec::new() };
    let palette = context.palette();
    let full = archive
        .time_to_full_seconds
        .map(|seconds| format!("pg_wal's disk is full in {}", format::whole_seconds(seconds)));
    if archive.state == ArchiveState::Off {
        return vec![match full {
            // For a slot.
            Some(full) => Row::text("Archive", 1, format!("off; {full}"), palette.alarm()),
            None => Row::text("Archive", 5, "off", palette.secondary()),
        }];
    }
    let queue = archive.queue_files.map(|files| {
        let bytes = archive.queue_bytes.map(|bytes| format!(", {}", format::byte_count(bytes)));
        match files {
            0 => "nothing waits".to_string(),
            1 => format!("1 file waits{}", bytes.unwrap_or_default()),
            _ => format!("{} files wait{}", format::count(files), bytes.unwrap_or_default()),
        }
    });
    let text = listed([
        queue.or(Some("what waits is not known".to_string())),
        archive.oldest_seconds.map(|seconds| format!("oldest {}", format::whole_seconds(seconds))),
        archive.archived_bytes_per_second.map(|rate| format!("archives {}", format::byte_rate(rate))),
        archive.last_archived_seconds.map(|seconds| format!("last archived {} ago", format::whole_seconds(seconds))),
        full,
        archive.free_bytes.map(|bytes| format!("{} free", format::byte_count(bytes))),
    ]);
    let style = if archive.time_to_full_seconds.is_some() { palette.alarm() } else { ratatui::style::Style::new() };
    let mut rows = vec![Row::text("Archive", 1, text, style)];
    if archive.failing {
        let since = archive
            .last_failed_seconds
            .map(|seconds| format!(" {} ago", format::whole_seconds(seconds)))
            .unwrap_or_default();
        rows.push(Row::text(
            "Archive",
            1,
            format!("the last attempt failed{since}; the server's log has the reason"),
            palette.alarm(),
        ));
    }
    rows
}
