//! Checkpoints and restartpoints.

use serde::{Deserialize, Serialize};

/// What the checkpointer does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Where it is.
    pub phase: CheckpointPhase,
    /// From where the phase is known.
    pub source: CheckpointSource,
    /// `checkpoint` or `restartpoint`; `None` if none is under way, or without the module.
    pub kind: Option<String>,
    /// Why it was started: `time`, `wal`, `requested`, … as pg_calm_checkpoints has it; `None` likewise.
    pub reason: Option<String>,
    /// How long it has been under way; `None` likewise. Without the module: since it was first seen.
    pub running_seconds: Option<f64>,
    /// Buffers that this checkpoint has written so far, by the server's count, which an immediate one brings up to date at
    /// its end only; `None` if none is under way or its beginning was not seen.
    pub buffers_written: Option<u64>,
    /// Files whose fsync is done, of the one under way; `None` without the module.
    pub files_synced: Option<u64>,
    /// WAL since the redo point of the last complete one: `max_wal_size` starts the next.
    pub wal_since_redo_bytes: Option<u64>,
    /// Setting max_wal_size.
    pub max_wal_size_bytes: Option<u64>,
    /// Setting checkpoint_timeout.
    pub timeout_seconds: Option<f64>,
    /// Time since the last complete one started or, without the module, since its record was made (`checkpoint_time` of
    /// `pg_control_checkpoint()`).
    pub since_last_seconds: Option<f64>,
    /// The last complete one since the server started; `None` without the module or if there was none.
    pub last: Option<CompletedCheckpoint>,
}

/// Where a checkpoint is: the order of `CheckPointGuts()` in the server's xlog.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointPhase {
    /// None is under way.
    Idle,
    /// Replication slots and what else precedes the first write, SLRU files, and finding dirty buffers.
    Prepare,
    /// Writes buffers, pauses of checkpoint_completion_target included.
    Write,
    /// Waits for unflushed pages before the first fsync; with the module only.
    Drain,
    /// Calls fsync for all files written.
    Sync,
    /// After the sync phase: checkpoint record, control file, removal of WAL.
    End,
    /// One is under way, and it can't be told where it is.
    Unknown,
}

pgcalm_host::names! {
    pub fn name(CheckpointPhase), ALL:
        Idle "idle", Prepare "prepare", Write "write", Drain "drain", Sync "sync", End "end", Unknown "unknown"
}

/// From where the phase is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointSource {
    /// pg_calm_checkpoints.
    Module,
    /// The checkpointer's wait event in pg_stat_activity, at one moment: what has no wait of its own passes for the phase seen
    /// before, or is `unknown`.
    WaitEvent,
}

/// A checkpoint that is over, from pg_calm_checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompletedCheckpoint {
    /// Number since the server started.
    pub id: u64,
    /// As [`Checkpoint::reason`].
    pub reason: String,
    /// When it ended: milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// From start to end.
    pub total_seconds: Option<f64>,
    /// From the start to the sync phase: writing, pauses included.
    pub write_seconds: Option<f64>,
    /// The sync phase as the server measures it, drain and fsync calls included.
    pub sync_seconds: Option<f64>,
    /// Of that, waiting for unflushed pages; `None` if that was not done.
    pub drain_seconds: Option<f64>,
    /// Of that, fsync calls.
    pub fsync_seconds: Option<f64>,
    /// The slowest fsync.
    pub slowest_file_seconds: Option<f64>,
    /// Its file.
    pub slowest_file: Option<String>,
    /// Buffers that the checkpointer wrote.
    pub buffers_written: Option<u64>,
    /// Pages written and not flushed when the first file was about to be synced.
    pub unflushed_pages_at_sync: Option<u64>,
}
