//! An incident: seconds in which users of an instance were held, and why. What the store keeps and `--json` writes.

use pgcalm_trace::why::report::Samples;
use serde::{Deserialize, Serialize};

/// What held users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A disk did nothing at all.
    VolumeHung,
    /// Memory had to be reclaimed first.
    MemoryReclaim,
    /// The control group's quota of CPU was used up.
    CpuQuota,
    /// The hypervisor gave the processors to others.
    CpuSteal,
    /// A heavyweight lock, with a queue behind it.
    LockPileUp,
    /// A synchronous standby did not confirm.
    SlowSynchronousStandby,
    /// The archive took no WAL.
    ArchiveBlocks,
    /// Many sessions were begun at once.
    ConnectionStorm,
    /// Temporary files.
    TemporaryFiles,
    /// The checkpoint that a base backup asked for.
    BackupCheckpoint,
    /// fsync of a checkpoint.
    CheckpointSync,
    /// WAL on a disk that is at its cap.
    WalAtCap,
    /// The kernel's limit of dirty memory.
    DirtyLimit,
    /// The journal of the file system.
    Journal,
    /// A backup or dump that reads.
    BackupReads,
    /// Reads of what is not cached.
    ColdCache,
    /// A checkpoint that writes.
    CheckpointWrite,
    /// The kernel's flusher.
    KernelFlusher,
    /// A lightweight lock of the server.
    LwlockConvoy,
    /// A disk at its cap, by whatever.
    DeviceAtCap,
    /// No processor was free.
    CpuBusy,
    /// The server took no sessions: it stopped, started or recovered.
    ServerRestarted,
    /// None of these can be shown.
    Unknown,
}

impl Cause {
    /// As documents and labels name it.
    pub fn name(self) -> String {
        // A variant without fields is a string.
        serde_json::to_value(self).ok().and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
    }
}

/// One incident. It has no row data, no query text and no names of users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Incident {
    /// Version of pgcalm that wrote it.
    pub pgcalm: String,
    /// Number in its store, for `pgcalm incident`; `None` before it is stored.
    pub id: Option<u64>,
    /// Name of the instance, as `pgcalm top` lists it.
    pub server: String,
    /// Its data directory.
    pub data_directory: Option<String>,
    /// Its version.
    pub server_version: Option<String>,
    /// First bad second: milliseconds since 1970.
    pub started_ms: u64,
    /// Last bad second.
    pub ended_ms: u64,
    /// How long users were held.
    pub seconds: f64,
    /// Why it ended, where not by itself: `server_away`, `recorder_gap` or `became_usual`; `goes_on` before.
    pub ended_by: Option<String>,
    /// Commits per second that are usual for this server; `None` if that was not known yet.
    pub usual_commits_per_second: Option<f64>,
    /// Commits per second in the worst second; `None` if the server told none.
    pub worst_commits_per_second: Option<f64>,
    /// Commits fewer than usual, over all of it.
    pub lost_commits: f64,
    /// Most sessions that waited at once.
    pub held_sessions: u64,
    /// Age of the oldest statement that was seen, or time without any answer.
    pub longest_wait_seconds: f64,
    /// What held them: the first of the verdicts that could be shown.
    pub cause: Cause,
    /// That in a sentence.
    pub sentence: String,
    /// From what began it to whom it held.
    pub chain: Vec<String>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// What else could be shown to hold users at the same time.
    pub also: Vec<Verdict>,
    /// What sessions waited for, longest together first.
    pub waits: Vec<WaitTime>,
    /// Who waited for a lock of whom.
    pub blocked: Vec<LockWait>,
    /// Processes of the server that slept uninterruptibly, longest first.
    pub stuck: Vec<Stuck>,
    /// Who waited for whom, as `trace why` samples it, up to the last bad second; `None` if it was over too soon to begin.
    pub samples: Option<Samples>,
    /// What else began or ended then.
    pub changes: Vec<Change>,
    /// What to do about it.
    pub cure: Cure,
    /// The minute before, the incident, and what followed, by second.
    pub timeline: Vec<Moment>,
}

/// What [`Incident::ended_by`] says of one that has not.
pub const GOES_ON: &str = "goes_on";

/// A cause that could be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Which.
    pub cause: Cause,
    /// In a sentence.
    pub sentence: String,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

/// A figure during the incident against the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Of what.
    pub what: String,
    /// In the bad seconds.
    pub during: String,
    /// In the minute before; empty if it means nothing there.
    pub before: String,
}

/// Time of sessions by what they waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct WaitTime {
    /// `type:event` of pg_stat_activity, or `cpu`.
    pub event: String,
    /// Most sessions at once.
    pub sessions: u64,
    /// Seconds of all sessions together, by one look per second.
    pub session_seconds: f64,
}

/// A session that waited for a lock of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LockWait {
    /// Process that waited.
    pub pid: i32,
    /// Process that it waited for; 0 is a prepared transaction.
    pub by: i32,
    /// What that one did, as pg_stat_activity has it, or that it is a prepared transaction.
    pub by_state: String,
    /// Kind of the lock.
    pub lock: String,
    /// Longest it was seen to wait.
    pub seconds: f64,
}

/// A process in uninterruptible sleep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Stuck {
    /// What the server calls it, as `checkpointer` or `backend`.
    pub process: String,
    /// Kernel functions that it slept in, innermost first; without root one alone.
    pub stack: Vec<String>,
    /// How long such processes slept there, added up, by two looks each second.
    #[serde(default)]
    pub seconds: f64,
    /// The one of these functions that tells what for, else the innermost; empty where the kernel tells none.
    #[serde(default)]
    pub function: String,
    /// What it waits for, in words; `None` if that is not known.
    #[serde(default)]
    pub waits_for: Option<String>,
}

/// Something that began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Change {
    /// When: milliseconds since 1970.
    pub time_ms: u64,
    /// What.
    pub what: String,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Cure {
    /// The rule of `pgcalm doctor` that is about it; `None` if there is none.
    pub rule: Option<String>,
    /// In a sentence.
    pub text: String,
    /// The command that says more, or does it.
    pub command: String,
}

/// A second of the timeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Moment {
    /// When: milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it is one of the bad seconds.
    pub bad: bool,
    /// Commits per second; `None` if the server told none.
    pub commits: Option<f64>,
    /// Sessions that waited.
    pub held: u64,
    /// Operations per second of the disk below the data directory.
    pub data_operations: Option<f64>,
    /// Operations per second of the disk below pg_wal, where it is another.
    pub wal_operations: Option<f64>,
    /// The checkpoint's phase, if one was under way.
    pub checkpoint: Option<String>,
}
