//! What each file cost a checkpoint.

use std::collections::HashMap;

use crate::checkpoint::report::FileTimes;
use crate::probes::checkpoint::{Event, FileHints};

/// Files by their paths.
#[derive(Debug, Default)]
pub(super) struct FileBook(HashMap<String, FileTimes>);

impl FileBook {
    /// Takes an fsync.
    pub(super) fn take_fsync(&mut self, event: &Event) {
        let time_ms = event.arguments[0].max(0) as f64 / 1e6;
        let file = self.file(&event.path);
        file.fsyncs += 1;
        file.fsync_ms += time_ms;
        file.longest_fsync_ms = file.longest_fsync_ms.max(time_ms);
    }

    /// Takes a file's flush hints.
    pub(super) fn take_hints(&mut self, hints: &FileHints) {
        let ms = |ns: u64| ns as f64 / 1e6;
        let file = self.file(&hints.path);
        file.flush_hints += hints.count;
        file.flush_hint_ms += ms(hints.total_ns);
        file.longest_flush_hint_ms = file.longest_flush_hint_ms.max(ms(hints.longest_ns));
    }

    fn file(&mut self, path: &str) -> &mut FileTimes {
        self.0.entry(path.to_string()).or_insert_with(|| FileTimes { path: path.to_string(), ..FileTimes::default() })
    }

    /// The one that took longest first.
    pub(super) fn into_model(self) -> Vec<FileTimes> {
        let mut files: Vec<FileTimes> = self.0.into_values().collect();
        files.sort_by(|a, b| b.total_ms().total_cmp(&a.total_ms()).then_with(|| a.path.cmp(&b.path)));
        files
    }
}
