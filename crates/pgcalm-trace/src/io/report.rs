//! The lines of `pgcalm trace io`: what each process of the server reads, writes and syncs.

pub(crate) mod view;

use serde::{Deserialize, Serialize};

use crate::report::file_kind::FileKind;
use crate::report::histogram::Histogram;
use crate::report::{End, Start};

/// What a system call does. The numbers are those of `enum operation` in bpf/syscall_table.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Operation {
    /// None of the following.
    Other = 0,
    /// read, pread64, recvfrom and their like.
    Read = 1,
    /// write, pwrite64, sendto and their like.
    Write = 2,
    /// fsync, fdatasync, syncfs: what a crash must not lose.
    Sync = 3,
    /// openat and its like.
    Open = 4,
    /// close.
    Close = 5,
    /// fallocate, ftruncate.
    Allocate = 6,
    /// rename, unlink, link, mkdir and their like.
    Name = 7,
    /// sync_file_range: the server's flush hints (checkpoint_flush_after and its kin), which promise nothing.
    SyncRange = 8,
}

pgcalm_host::names! {
    pub fn label(Operation), ALL:
        Other "other", Read "read", Write "write", Sync "sync", Open "open", Close "close", Allocate "allocate",
        Name "name", SyncRange "flush hint"
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// An interval.
    Interval(Interval),
    /// The whole trace.
    Total(Interval),
    /// Last.
    End(End),
}

/// The system calls of a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interval {
    /// When it began, seconds since 1970.
    pub time: f64,
    /// Its length, s.
    pub length_s: f64,
    /// Processes that made any, busiest in calls first.
    pub processes: Vec<Process>,
}

/// The system calls of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    /// Process id; in a total, 0 is all of this role that have ended.
    pub pid: u32,
    /// E.g. `checkpointer`.
    pub role: String,
    /// Address of its client, `[local]` for a Unix socket; of backends and walsenders.
    pub client: Option<String>,
    /// System calls that returned.
    pub syscalls: u64,
    /// Bytes sent over sockets, per second. Unix sockets are among them.
    pub sent_bytes_per_s: f64,
    /// Bytes received, likewise.
    pub received_bytes_per_s: f64,
    /// By operation and kind of file.
    pub operations: Vec<Calls>,
}

/// Calls of one operation on one kind of file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Calls {
    /// What they do.
    pub operation: Operation,
    /// On what; `none` for operations without a descriptor.
    pub file: FileKind,
    /// Calls that returned, failed ones among them.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// How long they took. In an interval, the smallest and largest value are those of the trace so far.
    pub duration: Histogram,
}
