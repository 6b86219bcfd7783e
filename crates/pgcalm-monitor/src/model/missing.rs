//! What is not there, and why.

use serde::{Deserialize, Serialize};

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What.
    pub subject: Subject,
    /// Why, in one line.
    pub reason: String,
    /// What to do about it, in one line; `None` where nothing helps.
    pub remedy: Option<String>,
}

/// What can be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A connection to the server, and so all that it would tell.
    Connection,
    /// Instances of other users on this host, which only root sees.
    Instances,
    /// The module pg_calm, and so unflushed pages, phases' progress, guard, histograms.
    Module,
    /// Waits and states of other users' sessions.
    Activity,
    /// The phase of the checkpoint.
    Checkpoint,
    /// The queue of the archiver.
    ArchiveQueue,
    /// Replication lag.
    Replication,
    /// The disks of an instance and their counters.
    Devices,
    /// Limits of control groups.
    Caps,
    /// Dirty memory.
    Memory,
}

pgcalm_host::names! {
    pub fn name(Subject):
        Connection "connection", Instances "instances", Module "module", Activity "activity", Checkpoint "checkpoint",
        ArchiveQueue "archive_queue", Replication "replication", Devices "devices", Caps "caps", Memory "memory"
}
