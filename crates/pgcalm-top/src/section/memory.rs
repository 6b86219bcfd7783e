//! Dirty memory of the host, and what the kernel will do about it.

use ratatui::text::Span;

use crate::row::Row;
use crate::section::{Context, listed};
use crate::{bar, format};

const GAUGE_WIDTH: usize = 10;

/// One row; its gauge shows what part of the amount at which writers are held is dirty.
pub fn rows(context: &Context) -> Vec<Row> {
    let Some(memory) = &context.host.memory else { return Vec::new() };
    let palette = context.palette();
    let mut spans = Vec::new();
    if let Some(limit) = memory.dirty_threshold_bytes.filter(|limit| *limit > 0) {
        let share = (memory.dirty_bytes + memory.writeback_bytes) as f64 / limit as f64;
        spans.push(Span::styled(bar::gauge(share, GAUGE_WIDTH), palette.of_share(share)));
        spans.push(Span::raw(" "));
    }
    let of = memory.dirty_threshold_bytes.map(|bytes| format!(" of {}", format::byte_count(bytes))).unwrap_or_default();
    spans.push(Span::raw(listed([
        Some(format!("{}{of}", format::byte_count(memory.dirty_bytes))),
        memory.background_threshold_bytes.map(|bytes| format!("flushed from {}", format::byte_count(bytes))),
        Some(format!("in writeback {}", format::byte_count(memory.writeback_bytes))),
    ])));
    vec![Row::new("Dirty pages", 3, spans)]
}
