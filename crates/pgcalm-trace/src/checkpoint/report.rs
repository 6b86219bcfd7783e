//! The lines of `pgcalm trace checkpoint`.

pub(crate) mod view;

use serde::{Deserialize, Serialize};

use crate::report::histogram::Histogram;
use crate::report::{End, Start};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// A checkpoint that has ended.
    Checkpoint(Box<Checkpoint>),
    /// Last.
    End(End),
}

/// A checkpoint, or a restartpoint of a standby. What is absent was not seen; [`Start`] or [`End`] say why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// Number in this trace, from 1.
    pub number: u64,
    /// Whether it is a restartpoint.
    pub restartpoint: bool,
    /// When it began, seconds since 1970.
    pub time: f64,
    /// Why: `time`, `wal`, `shutdown`, `end of recovery` or `requested`.
    pub reason: String,
    /// CHECKPOINT_ flags of the server's xlog.h, e.g. `immediate`, `force`, `wait`.
    pub flags: Vec<String>,
    /// From start to end, s. A restartpoint has no probe at its end; it is taken to end with its fsync calls.
    pub total_s: Option<f64>,
    /// The time of each phase.
    pub phases: Phases,
    /// Buffers.
    pub buffers: Buffers,
    /// WAL segment files; as log_checkpoints tells.
    pub wal_segments: Option<WalSegments>,
    /// Times of single buffers; with --per-buffer.
    pub per_buffer: Option<PerBuffer>,
    /// fsync calls of the sync phase.
    pub sync: Option<Syncs>,
    /// fsync and fdatasync calls of the process outside the sync phase: slots, two-phase files, pg_control, WAL.
    pub other_syncs: Option<Syncs>,
    /// Each file that the process synced or gave flush hints for, the one that took longest first; with --files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileTimes>>,
    /// Transactions before, during and after.
    pub transactions: Option<Transactions>,
}

/// Time of the phases in their order, s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phases {
    /// Before anything is written: redo point, wait for commits, relation map, replication slots, snapshots, origins.
    pub begin_s: Option<f64>,
    /// Writing the commit log, pg_xact.
    pub clog_s: Option<f64>,
    /// Writing pg_subtrans.
    pub subtrans_s: Option<f64>,
    /// Writing pg_multixact.
    pub multixact_s: Option<f64>,
    /// Looking at every buffer for dirty ones. Holds the predicate lock SLRU, which has no probe.
    pub buffer_scan_s: Option<f64>,
    /// Sorting and writing buffers, with the sleeps of checkpoint_completion_target.
    pub buffer_write_s: Option<f64>,
    /// fsync of all files written since the last checkpoint.
    pub sync_s: Option<f64>,
    /// Writing files of prepared transactions; null where max_prepared_transactions is 0.
    pub twophase_s: Option<f64>,
    /// The checkpoint record, pg_control, removing and recycling WAL.
    pub finish_s: Option<f64>,
}

/// Buffers of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Buffers {
    /// shared_buffers.
    pub total: Option<u64>,
    /// Found dirty, to be written.
    pub dirty: Option<u64>,
    /// Of those, written; the others were written by somebody else in the meantime.
    pub written: Option<u64>,
    /// What log_checkpoints calls "wrote N buffers": up to PostgreSQL 17 with SLRU pages.
    pub logged: Option<u64>,
}

/// WAL segment files of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WalSegments {
    /// Created ahead.
    pub added: u64,
    /// Removed.
    pub removed: u64,
    /// Renamed for later use.
    pub recycled: u64,
}

/// Times of single buffers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PerBuffer {
    /// FlushBuffer: WAL flush if needed, checksum, write.
    pub flush: Histogram,
    /// The write alone (mdwrite); SLRU pages are not in it.
    pub write: Histogram,
    /// From one buffer written by BufferSync to the next, with the sleeps of checkpoint_completion_target.
    pub sync_written: Histogram,
    /// From FlushBuffer's end to the moment at which BufferSync counts the buffer as written: unlocking it and, where it is
    /// the turn of this buffer, the flush hints (sync_file_range) for all that are pending.
    #[serde(default)]
    pub flush_done_to_sync_written: Histogram,
}

/// fsync calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Syncs {
    /// Their times; count is the number of calls.
    pub times: Histogram,
    /// The slowest ones, slowest first.
    pub slowest: Vec<SyncedFile>,
}

/// One fsync call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SyncedFile {
    /// The last three parts of its path, e.g. `base/5/16427.1`.
    pub path: String,
    /// Database and relation, e.g. `shop: public.orders`, if the database was asked and knows.
    pub relation: Option<String>,
    /// When, s since the checkpoint began.
    pub at_s: f64,
    /// How long, ms.
    pub time_ms: f64,
    /// Number of the error if it failed, e.g. 5 for EIO; 0 if it is not known: the error was not one of writeback, and the
    /// call was seen in the C library.
    pub errno: Option<i32>,
}

/// What a file cost a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileTimes {
    /// The last three parts of its path, e.g. `base/5/16427.1`.
    pub path: String,
    /// Database and relation, if the database was asked and knows.
    pub relation: Option<String>,
    /// Flush hints (checkpoint_flush_after): calls of sync_file_range. Where pg_calm does not pass a hint on there is none.
    pub flush_hints: u64,
    /// How long they took, ms.
    pub flush_hint_ms: f64,
    /// The longest of them, ms.
    pub longest_flush_hint_ms: f64,
    /// Calls of fsync and fdatasync, in the sync phase and outside of it.
    pub fsyncs: u64,
    /// How long they took, ms.
    pub fsync_ms: f64,
    /// The longest of them, ms.
    pub longest_fsync_ms: f64,
}

/// Transactions of the whole server, second by second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Transactions {
    /// Mean of commits per second before it began.
    pub before: Option<f64>,
    /// Mean while it ran.
    pub during: Option<f64>,
    /// Mean after it ended.
    pub after: Option<f64>,
    /// Fewest commits in a second while it ran.
    pub during_min: Option<u64>,
    /// Each second, in order; the first and the last ones may belong to a checkpoint before or after.
    pub seconds: Vec<Second>,
}

/// A second of the server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Second {
    /// Number of the second, 0 being the one in which the checkpoint began.
    pub second: i64,
    /// Where it lies.
    pub phase: Around,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted.
    pub aborts: u64,
}

/// Before, during or after a checkpoint; a second in which it began or ended is during.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Around {
    /// Before it.
    Before,
    /// While it ran.
    During,
    /// After it.
    After,
}

impl Phases {
    /// All phases in their order, with what they are called.
    pub fn list(&self) -> [(&'static str, Option<f64>); 9] {
        [
            ("begin", self.begin_s),
            ("clog", self.clog_s),
            ("subtrans", self.subtrans_s),
            ("multixact", self.multixact_s),
            ("buffer scan", self.buffer_scan_s),
            ("buffer write", self.buffer_write_s),
            ("sync", self.sync_s),
            ("twophase", self.twophase_s),
            ("finish", self.finish_s),
        ]
    }
}

impl FileTimes {
    /// All of its calls, ms.
    pub fn total_ms(&self) -> f64 {
        self.flush_hint_ms + self.fsync_ms
    }
}

impl PerBuffer {
    /// All times, with what they are called.
    pub fn list(&self) -> [(&'static str, &Histogram); 4] {
        [
            ("Buffer flush", &self.flush),
            ("Buffer write", &self.write),
            ("Flush done to sync written", &self.flush_done_to_sync_written),
            ("Sync written", &self.sync_written),
        ]
    }
}

impl Transactions {
    /// From the seconds.
    pub fn of(seconds: Vec<Second>) -> Self {
        let commits =
            |phase: Around| seconds.iter().filter(move |second| second.phase == phase).map(|second| second.commits);
        let mean = |phase: Around| {
            let count = commits(phase).count();
            (count > 0).then(|| commits(phase).sum::<u64>() as f64 / count as f64)
        };
        Self {
            before: mean(Around::Before),
            during: mean(Around::During),
            after: mean(Around::After),
            during_min: commits(Around::During).min(),
            seconds,
        }
    }
}
