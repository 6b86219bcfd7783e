//! What the server and the kernel said at one moment, before anything is made of it.

use crate::interface::InterfaceReading;
use crate::lsn::Lsn;
use crate::model::{Missing, StandbyState, WalStatus};

/// One answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// When, seconds since 1970, by the server's clock.
    pub time: f64,
    /// The cluster (`system_identifier`) and its timeline: after a change of either nothing said before counts.
    pub cluster: (i64, i32),
    /// `pg_current_wal_insert_lsn()`.
    pub insert_lsn: Lsn,
    /// `pg_current_wal_lsn()`.
    pub write_lsn: Lsn,
    /// `pg_current_wal_flush_lsn()`.
    pub flush_lsn: Lsn,
    /// Settings that say how much WAL is kept.
    pub settings: Settings,
    /// Of the last complete checkpoint.
    pub redo_lsn: Lsn,
    /// Since that began, s.
    pub checkpoint_age_s: f64,
    /// Mean duration of checkpoints, s.
    pub checkpoint_duration_s: Option<f64>,
    /// Duration of all checkpoints together, s; one is added when it ends.
    pub checkpoints_s: f64,
    /// Their number; before PostgreSQL 18 one is added when it begins.
    pub checkpoints: i64,
    /// `wal_buffers_full` of `pg_stat_wal`.
    pub buffers_full: i64,
    /// Processes that wait for WAL to be written or synced.
    pub waiting_processes: Option<u32>,
    /// Oldest file in `pg_wal`.
    pub oldest_segment: Option<String>,
    /// Walsenders, other than those of base backups.
    pub senders: Vec<Sender>,
    /// Slots by name.
    pub slots: Vec<SlotReading>,
    /// `port`.
    pub port: u16,
    /// Process id of the walwriter, as the server numbers it.
    pub walwriter_pid: Option<i32>,
    /// Bytes that the walwriter made the disks write since it started.
    pub walwriter_disk_bytes: Option<u64>,
    /// The interfaces that the walsenders' connections go by.
    pub interfaces: Vec<InterfaceReading>,
    /// What could not be read.
    pub missing: Vec<Missing>,
}

/// Size of a page of WAL, unless the server was built with another (`XLOG_BLCKSZ`).
const PAGE_BYTES: u64 = 8192;

/// Size of the header of a segment's first page (`SizeOfXLogLongPHD`); those of other pages are smaller.
const PAGE_HEADER_BYTES: u64 = 40;

impl Reading {
    /// End of the WAL that there is. The insert position is where the next record begins, which at the beginning of a page is
    /// behind its header: that is no WAL that somebody lacks.
    pub fn end(&self) -> Lsn {
        let beyond = self.insert_lsn.bytes_since(self.flush_lsn);
        if self.flush_lsn.0.is_multiple_of(PAGE_BYTES) && beyond <= PAGE_HEADER_BYTES {
            self.flush_lsn
        } else {
            self.insert_lsn
        }
    }
}

/// Settings that say how much WAL is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Settings {
    /// `wal_segment_size`.
    pub segment_bytes: u64,
    /// `max_wal_size`.
    pub max_wal_size_bytes: u64,
    /// `wal_keep_size`.
    pub wal_keep_size_bytes: u64,
    /// `max_slot_wal_keep_size`; none if it is -1.
    pub max_slot_wal_keep_size_bytes: Option<u64>,
    /// `idle_replication_slot_timeout`, s; since PostgreSQL 18, none if it is 0.
    pub idle_slot_timeout_s: Option<f64>,
    /// `checkpoint_timeout`, s.
    pub checkpoint_timeout_s: f64,
    /// `checkpoint_completion_target`.
    pub checkpoint_completion_target: f64,
}

impl Settings {
    /// See [`Checkpoint::trigger_bytes`](crate::model::Checkpoint::trigger_bytes).
    pub fn trigger_bytes(&self) -> u64 {
        if self.segment_bytes == 0 {
            return 0;
        }
        let segments =
            (self.max_wal_size_bytes / self.segment_bytes) as f64 / (1.0 + self.checkpoint_completion_target);
        (segments as u64).max(1) * self.segment_bytes
    }
}

/// A row of `pg_stat_replication`, with what the kernel knows of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Sender {
    /// Process id of the walsender.
    pub pid: i32,
    /// `application_name`.
    pub application_name: String,
    /// `client_addr`.
    pub client_address: Option<String>,
    /// `client_port`; none for a Unix socket.
    pub client_port: Option<u16>,
    /// `state`.
    pub state: StandbyState,
    /// `sync_state`.
    pub sync_state: Option<String>,
    /// `sent_lsn`, `write_lsn`, `flush_lsn`, `replay_lsn`.
    pub lsn: [Option<Lsn>; 4],
    /// None for `sent_lsn`, then `write_lag`, `flush_lag`, `replay_lag`, s.
    pub server_lag_s: [Option<f64>; 4],
    /// Age of `reply_time`, s.
    pub reply_age_s: Option<f64>,
    /// `wait_event`.
    pub wait_event: Option<String>,
    /// Bytes that the walsender made the disks read since it started.
    pub disk_read_bytes: Option<u64>,
    /// Its connection.
    pub tcp: Option<Tcp>,
    /// The interface that the connection goes by.
    pub interface: Option<String>,
}

/// Counters of a TCP connection, since it was made (`struct tcp_info`, linux/tcp.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tcp {
    /// `tcpi_bytes_acked`.
    pub acknowledged_bytes: u64,
    /// In the socket, not confirmed by the other side: `idiag_wqueue` of sock_diag(7), as SIOCOUTQ.
    pub unacknowledged_bytes: u64,
    /// `tcpi_busy_time`, µs.
    pub busy_us: u64,
    /// `tcpi_rwnd_limited`, µs.
    pub receiver_limited_us: u64,
    /// `tcpi_total_retrans`.
    pub retransmits: u64,
    /// `tcpi_segs_out`: segments as they are on the wire, those sent again and those without data included.
    pub sent_packets: u64,
    /// `tcpi_segs_in`.
    pub received_packets: u64,
}

/// A row of `pg_replication_slots`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlotReading {
    /// `slot_name`.
    pub name: String,
    /// `slot_type` is `physical`.
    pub physical: bool,
    /// `temporary`: it ends with its connection.
    pub temporary: bool,
    /// `active`.
    pub active: bool,
    /// `active_pid`.
    pub active_pid: Option<i32>,
    /// `restart_lsn`.
    pub restart_lsn: Option<Lsn>,
    /// `confirmed_flush_lsn`, of logical slots.
    pub confirmed_flush_lsn: Option<Lsn>,
    /// `wal_status`.
    pub wal_status: Option<WalStatus>,
    /// `safe_wal_size`.
    pub safe_wal_size_bytes: Option<i64>,
    /// `invalidation_reason`, since PostgreSQL 17.
    pub invalidation_reason: Option<String>,
    /// Since `inactive_since`, s; since PostgreSQL 17.
    pub inactive_s: Option<f64>,
}
