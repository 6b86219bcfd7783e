//! Sessions: how many, what they get done, what they wait for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Sessions at one moment, from pg_stat_activity. Those of pgcalm itself are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Client connections by state.
    pub connections: Connections,
    /// Setting max_connections.
    pub max_connections: u64,
    /// Active client sessions by what they wait for, most first: a look at one moment. Those that run on a CPU, or wait
    /// for something that the server has no event for, are among them with cause `cpu`.
    pub waits: Vec<Wait>,
    /// Time of all active client sessions by what they waited for, added up over the samples since the collector
    /// started: seconds of sessions. An estimate by sampling, as waits come and go between two looks.
    pub wait_session_seconds: BTreeMap<WaitCause, f64>,
    /// Age of the oldest transaction of a client (`xact_start`).
    pub oldest_transaction_seconds: Option<f64>,
    /// Active client sessions whose statement has run for more than a second, those left out that wait for their client or
    /// for a time, dumps, and statements of maintenance.
    #[serde(default)]
    pub slow_sessions: u64,
    /// Age of the oldest of their statements.
    #[serde(default)]
    pub slow_seconds: Option<f64>,
    /// Who waits for a heavyweight lock of whom, longest first, if at least two do: ten at most.
    #[serde(default)]
    pub blocked: Vec<Blocked>,
}

impl Activity {
    /// Sessions of [`Activity::waits`] by cause.
    pub fn sessions_by_cause(&self) -> BTreeMap<WaitCause, u64> {
        let mut causes = BTreeMap::new();
        for wait in &self.waits {
            *causes.entry(wait.cause).or_default() += wait.sessions;
        }
        causes
    }
}

/// A session that waits for a heavyweight lock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blocked {
    /// Its process.
    pub pid: i32,
    /// The process that holds the lock, or is before it in the queue; 0 is a prepared transaction.
    pub by: i32,
    /// What that one does: a state of pg_stat_activity, or that it is a prepared transaction.
    pub by_state: String,
    /// Kind of the lock, as `transactionid`.
    pub lock: String,
    /// Since it began to wait.
    pub seconds: f64,
}

/// Client connections by state (`state` of pg_stat_activity, backend_type `client backend`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Run a statement.
    pub active: u64,
    /// Wait for their client, no transaction open.
    pub idle: u64,
    /// Wait for their client inside a transaction, failed ones included.
    pub idle_in_transaction: u64,
    /// Anything else: fastpath, starting (since PostgreSQL 18), or hidden from this user.
    pub other: u64,
}

impl Connections {
    /// All.
    pub fn total(&self) -> u64 {
        self.active + self.idle + self.idle_in_transaction + self.other
    }
}

/// Active sessions that wait for the same event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The group of the event.
    pub cause: WaitCause,
    /// wait_event_type; empty with cause `cpu`.
    pub event_type: String,
    /// wait_event; empty with cause `cpu`.
    pub event: String,
    /// How many.
    pub sessions: u64,
}

/// What a wait comes down to. The list is closed, so that labels are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// No event: on a CPU, or waiting for something that the server doesn't name, as in `balance_dirty_pages`.
    Cpu,
    /// Reading or writing data files.
    DataIo,
    /// fsync of data files.
    DataSync,
    /// Reading, writing or syncing WAL.
    Wal,
    /// Another session's WAL flush (LWLock WALWrite, WALInsert).
    WalLock,
    /// Any other I/O: SLRU files, temporary files, control file, …
    OtherIo,
    /// Heavyweight locks: rows, relations.
    Lock,
    /// Lightweight locks inside the server.
    LightweightLock,
    /// A buffer that another session has pinned.
    BufferPin,
    /// A synchronous standby.
    SynchronousReplication,
    /// pg_calm_guard.
    Guard,
    /// Another process of the server.
    OtherProcess,
    /// The client.
    Client,
    /// A pause that was asked for, as pg_sleep or vacuum_cost_delay.
    Timeout,
    /// An extension or anything that is not known here.
    Other,
}

pgcalm_host::names! {
    pub fn name(WaitCause), ALL:
        Cpu "cpu",
        DataIo "data_io",
        DataSync "data_sync",
        Wal "wal",
        WalLock "wal_lock",
        OtherIo "other_io",
        Lock "lock",
        LightweightLock "lightweight_lock",
        BufferPin "buffer_pin",
        SynchronousReplication "synchronous_replication",
        Guard "guard",
        OtherProcess "other_process",
        Client "client",
        Timeout "timeout",
        Other "other",
}

/// Counters of the server since its statistics were reset. Sessions report them at the end of a transaction, once a
/// second at most (`pgstat_report_stat()`). Sums over databases don't fall when one is dropped or reset, nor does the position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Transactions committed, of all databases (pg_stat_database). pgcalm's own are among them, one per sample.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Bytes of WAL: the insert position (`pg_current_wal_insert_lsn()`), on a standby the replay position. Grows over
    /// restarts: where it fell, as to where replay begins anew, that is added.
    pub wal_position_bytes: u64,
    /// Full-page images (pg_stat_wal).
    pub wal_full_page_images: u64,
    /// Buffers written by checkpoints.
    pub buffers_written_by_checkpoints: u64,
    /// Buffers written by the background writer.
    pub buffers_written_by_background_writer: u64,
    /// Buffers written by anybody else (`buffers_backend`; since PostgreSQL 17 the sum of pg_stat_io).
    pub buffers_written_by_backends: u64,
    /// Checkpoints started because of checkpoint_timeout; those that were skipped for idleness included.
    pub checkpoints_timed: u64,
    /// Checkpoints asked for, by max_wal_size or a command.
    pub checkpoints_requested: u64,
    /// Time that checkpoints spent in the write phase.
    pub checkpoint_write_seconds: f64,
    /// Time that checkpoints spent in the sync phase.
    pub checkpoint_sync_seconds: f64,
    /// Transactions lost to deadlocks.
    pub deadlocks: u64,
    /// Bytes written to temporary files.
    pub temporary_bytes: u64,
    /// Sessions that were begun.
    #[serde(default)]
    pub sessions: u64,
    /// Blocks that were not in shared_buffers.
    #[serde(default)]
    pub blocks_read: u64,
}

/// What [`Counters`] come to per second, between the last two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Transactions committed.
    pub commits_per_second: f64,
    /// Transactions rolled back.
    pub rollbacks_per_second: f64,
    /// Bytes of WAL.
    pub wal_bytes_per_second: f64,
    /// Full-page images.
    pub wal_full_page_images_per_second: f64,
    /// Buffers written by checkpoints.
    pub buffers_written_by_checkpoints_per_second: f64,
    /// Buffers written by the background writer.
    pub buffers_written_by_background_writer_per_second: f64,
    /// Buffers written by anybody else.
    pub buffers_written_by_backends_per_second: f64,
    /// Bytes written to temporary files, counted when a file is closed.
    #[serde(default)]
    pub temporary_bytes_per_second: f64,
    /// Sessions begun.
    #[serde(default)]
    pub sessions_per_second: f64,
    /// Blocks that were not in shared_buffers.
    #[serde(default)]
    pub blocks_read_per_second: f64,
}
