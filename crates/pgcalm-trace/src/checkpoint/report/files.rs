//! Each file of a checkpoint, as a table.

use maud::Markup;
use maud::html;
use pgcalm_render::number::printable;

use crate::checkpoint::report::FileTimes;
use crate::report::text::duration;

/// Rows in a terminal; the rest is in JSON and HTML.
const ROWS: usize = 40;

fn ms(ms: f64) -> String {
    duration(ms * 1e6)
}

/// For a terminal; every line ends in a newline.
pub fn text(files: &[FileTimes]) -> String {
    let mut out = format!("  Files synced or hinted: {}\n", files.len());
    if files.is_empty() {
        return out;
    }
    out.push_str(&format!(
        "  {:>7} {:>9} {:>9} {:>7} {:>9} {:>9}  file\n",
        "hints", "total", "longest", "fsyncs", "total", "longest"
    ));
    for file in files.iter().take(ROWS) {
        let line = format!(
            "  {:>7} {:>9} {:>9} {:>7} {:>9} {:>9}  {:<24} {}",
            file.flush_hints,
            ms(file.flush_hint_ms),
            ms(file.longest_flush_hint_ms),
            file.fsyncs,
            ms(file.fsync_ms),
            ms(file.longest_fsync_ms),
            file.path,
            file.relation.as_deref().unwrap_or("")
        );
        out.push_str(&printable(line.trim_end()));
        out.push('\n');
    }
    if files.len() > ROWS {
        out.push_str(&format!("  ... and {} more, which JSON and HTML have\n", files.len() - ROWS));
    }
    out
}

/// For a page.
pub fn html(files: &[FileTimes]) -> Markup {
    html! {
        p { "Files synced or hinted: " (files.len()) }
        @if !files.is_empty() {
            table {
                thead {
                    tr {
                        th { "file" } th { "relation" } th { "flush hints" } th { "total" } th { "longest" }
                        th { "fsyncs" } th { "total" } th { "longest" }
                    }
                }
                tbody {
                    @for file in files {
                        tr {
                            td { (file.path) }
                            td { (file.relation.as_deref().unwrap_or("")) }
                            td { (file.flush_hints) }
                            td { (ms(file.flush_hint_ms)) }
                            td { (ms(file.longest_flush_hint_ms)) }
                            td { (file.fsyncs) }
                            td { (ms(file.fsync_ms)) }
                            td { (ms(file.longest_fsync_ms)) }
                        }
                    }
                }
            }
        }
    }
}
