//! What is known of a primary's replication at one moment, and since the moment before.
//!
//! Text, JSON lines and the metrics of the exporter are rendered from this. Conventions: `_bytes` bytes, `_s` seconds,
//! `_per_s` a mean since the sample before. `None` means that it isn't known or doesn't exist; it never means 0.
//! All positions are read by one statement.

use serde::{Deserialize, Serialize};

use crate::lsn::Lsn;

/// A line of `pgcalm lag --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// Each interval.
    Sample(Box<Sample>),
    /// Last; a run that was killed has none.
    End(End),
}

/// First line: which server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Start {
    /// Version of pgcalm.
    pub pgcalm: String,
    /// When, seconds since 1970, by the server's clock.
    pub time: f64,
    /// The server's `server_version`, e.g. `15.20 (Debian 15.20-0+deb12u1)`.
    pub server_version: String,
    /// The server's `cluster_name`; empty if it has none.
    pub cluster_name: String,
    /// Port that the server listens on.
    pub port: u16,
    /// Time between samples that was asked for, s.
    pub interval_s: f64,
}

/// Last line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct End {
    /// When, seconds since 1970, by the clock of pgcalm's host.
    pub time: f64,
    /// Samples taken.
    pub samples: u64,
}

/// A primary at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// When, seconds since 1970, by the server's clock (`clock_timestamp()`).
    pub time: f64,
    /// Since the sample before, s; none in the first.
    pub interval_s: Option<f64>,
    /// WAL that the primary makes.
    pub wal: Wal,
    /// Checkpoints, at whose end WAL is removed.
    pub checkpoint: Checkpoint,
    /// WAL that the primary keeps.
    pub kept: KeptWal,
    /// Who streams WAL, and who did and is gone. Base backups are not among them. By `application_name`, client, slot.
    pub standbys: Vec<Standby>,
    /// All replication slots, logical ones too, by name.
    pub slots: Vec<Slot>,
    /// The interfaces of this host that WAL leaves by: those of the standbys' connections. Empty where no connection is known.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// What could not be read, and why; the fields of it are none.
    pub missing: Vec<Missing>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Missing {
    /// What is not known, e.g. `oldest WAL segment`.
    pub what: String,
    /// Why, and what would change it.
    pub reason: String,
}

/// WAL that the primary makes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Wal {
    /// End of the WAL that is in the WAL buffers (`pg_current_wal_insert_lsn()`).
    pub insert_lsn: Lsn,
    /// End of the WAL that was given to the kernel (`pg_current_wal_lsn()`).
    pub write_lsn: Lsn,
    /// End of the WAL that is on disk (`pg_current_wal_flush_lsn()`). Walsenders send no more than this.
    pub flush_lsn: Lsn,
    /// From the flush to the insert position, a page's header apart: WAL that can't be sent yet, since the primary's disk does
    /// not have it.
    pub unflushed_bytes: u64,
    /// Rate of the insert position, bytes/s: the rate at which WAL is made.
    pub generation_bytes_per_s: Option<f64>,
    /// The same over all the history, at most [`WINDOW_S`](crate::history::WINDOW_S); what predictions go by.
    pub generation_window_bytes_per_s: Option<f64>,
    /// Rate of the flush position, bytes/s.
    pub flush_bytes_per_s: Option<f64>,
    /// Times per second that a backend had to write WAL since the WAL buffers were full (`wal_buffers_full` of
    /// `pg_stat_wal`).
    pub buffers_full_per_s: Option<f64>,
    /// Processes that waited for WAL to be written or synced at that moment: wait events `WALWrite`, `WALSync` and
    /// `WALInitSync`, `WALInitWrite`, and the lock `WALWrite`, in `pg_stat_activity`. None without the rights of
    /// `pg_read_all_stats`.
    pub waiting_processes: Option<u32>,
    /// Bytes that the walwriter made the disks write, per second (`write_bytes` of /proc/PID/io). Backends write WAL, too;
    /// only on the primary's host, as root or as the server's user.
    pub walwriter_disk_bytes_per_s: Option<f64>,
    /// Size of a segment (`wal_segment_size`).
    pub segment_bytes: u64,
}

/// Checkpoints. WAL before the redo position is removed or recycled at a checkpoint's end (`RemoveOldXlogFiles` in xlog.c),
/// unless something else keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// Redo position of the last complete checkpoint (`pg_control_checkpoint()`).
    pub redo_lsn: Lsn,
    /// Since the last complete checkpoint began, s (`checkpoint_time`; whole seconds).
    pub age_s: f64,
    /// `checkpoint_timeout`, s.
    pub timeout_s: f64,
    /// WAL since a redo position at which the server begins a checkpoint on its own: `max_wal_size` divided by 1 +
    /// `checkpoint_completion_target`, in whole segments (`CalculateCheckpointSegments` in xlog.c).
    pub trigger_bytes: u64,
    /// Mean duration of checkpoints since statistics were reset, s: time of writing and of syncing (`pg_stat_bgwriter`; since
    /// PostgreSQL 17 `pg_stat_checkpointer`). None before the first.
    pub mean_duration_s: Option<f64>,
    /// When the next one is over, by the rate of WAL, s; 0 if it could be at any moment.
    pub next_end_s: Option<f64>,
}

/// WAL that the primary keeps in `pg_wal`, and the settings that say how much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KeptWal {
    /// Name of the oldest segment (`pg_ls_waldir()`); none without the rights of `pg_monitor`.
    pub oldest_segment: Option<String>,
    /// Position at which it begins.
    pub oldest_lsn: Option<Lsn>,
    /// From there to the write position.
    pub bytes: Option<u64>,
    /// `max_wal_size`.
    pub max_wal_size_bytes: u64,
    /// `wal_keep_size`: kept for standbys without a slot in any case.
    pub wal_keep_size_bytes: u64,
    /// `max_slot_wal_keep_size`: kept for slots at most; none means without limit.
    pub max_slot_wal_keep_size_bytes: Option<u64>,
    /// Time until WAL is removed that some standby or slot needs: the least of theirs, s. None if that is not foreseen.
    pub seconds_until_needed_removed: Option<f64>,
}

/// How a standby is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StandbyState {
    /// The walsender is starting.
    Startup,
    /// The standby gets old WAL, up to where the primary is.
    Catchup,
    /// The standby had caught up once since it connected. It may be far behind nevertheless.
    Streaming,
    /// The walsender is stopping.
    Stopping,
    /// Not connected: its slot is inactive, or it was connected in an earlier sample.
    Disconnected,
    /// A state that this version does not know.
    Other,
}

/// One who receives WAL: a standby, `pg_receivewal`, or a logical subscriber.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Standby {
    /// Its `application_name`; empty if it is known by its slot only.
    pub application_name: String,
    /// Address of its client; none for a Unix socket, or if it is known by its slot only.
    pub client_address: Option<String>,
    /// Port of its client.
    pub client_port: Option<u16>,
    /// Its replication slot.
    pub slot: Option<String>,
    /// Process id of its walsender, as the server numbers it; none if it is not connected.
    pub pid: Option<i32>,
    /// How it is connected.
    pub state: StandbyState,
    /// `async`, `potential`, `sync` or `quorum`; as last seen.
    pub sync_state: Option<String>,
    /// Since it has been disconnected, s: since the last sample that saw it, or since its slot's `inactive_since`
    /// (PostgreSQL 17 and later).
    pub disconnected_s: Option<f64>,
    /// Up to where WAL was given to the connection.
    pub sent: Position,
    /// Up to where the standby wrote it.
    pub write: Position,
    /// Up to where the standby has it on disk.
    pub flush: Position,
    /// Up to where the standby replayed it.
    pub replay: Position,
    /// Age of the standby's last message, by its own clock, s (`reply_time`).
    pub reply_age_s: Option<f64>,
    /// What its walsender waited for, e.g. `WalSenderMain`; none while it runs, or without the rights of
    /// `pg_read_all_stats`.
    pub wait_event: Option<String>,
    /// The connection, as the kernel of the primary's host sees it; only when pgcalm runs there, in the server's network
    /// namespace, and the connection is TCP.
    pub connection: Option<Connection>,
    /// Bytes that its walsender made the disks read, per second (`read_bytes` of /proc/PID/io); only on the primary's host,
    /// as root or as the server's user.
    pub walsender_disk_bytes_per_s: Option<f64>,
    /// WAL that it needs to go on.
    pub need: WalNeed,
    /// Where it is held up.
    pub bottleneck: Bottleneck,
}

/// A position that a standby has reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Position {
    /// The position; the last known of one that is disconnected. None if the receiver does not tell, as `pg_receivewal`
    /// does not replay.
    pub lsn: Option<Lsn>,
    /// From there to the primary's flush position.
    pub lag_bytes: Option<u64>,
    /// Age of the oldest WAL beyond the position, s: 0 if it is the primary's flush position.
    pub lag_s: Option<f64>,
    /// Where [`lag_s`](Self::lag_s) comes from.
    pub lag_source: Option<LagSource>,
    /// Rate of the position, bytes/s.
    pub bytes_per_s: Option<f64>,
    /// What the server says (`write_lag`, `flush_lag`, `replay_lag` of `pg_stat_replication`), s. It is the delay of what
    /// was confirmed last: it stands still when the standby does. Shown for comparison only.
    pub server_lag_s: Option<f64>,
}

/// Where a lag in seconds comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LagSource {
    /// There is nothing beyond the position: no lag, however long ago the last WAL was made.
    CaughtUp,
    /// When the primary was at that position, by the history of its flush position: exact to an interval.
    History,
    /// The history does not reach back so far: the lag is at least this.
    AtLeast,
}

/// WAL that a standby needs, and whether it will be there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WalNeed {
    /// Position from which it needs WAL: that of its slot, else where it has WAL on disk.
    pub lsn: Option<Lsn>,
    /// Name of the segment with that position.
    pub segment: Option<String>,
    /// Whether the segment is gone: the standby ends with `requested WAL segment ... has already been removed` unless it
    /// restores from an archive. None if the segments could not be listed.
    pub removed: Option<bool>,
    /// Time until the segment is removed, if rates stay what they are, s. None if that is not foreseen: it keeps up, or a
    /// slot keeps WAL without limit.
    pub seconds_until_removed: Option<f64>,
}

/// State of WAL that a slot needs (`wal_status`, by `GetWALAvailability` in xlog.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WalStatus {
    /// Within `max_wal_size`.
    Reserved,
    /// Beyond that; kept by the slot or by `wal_keep_size`.
    Extended,
    /// No longer kept; the next checkpoint removes it unless the slot comes on.
    Unreserved,
    /// Removed; the slot is of no use any more.
    Lost,
    /// A status that this version does not know.
    Other,
}

/// A replication slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// Whether it is physical: of a standby. Else it is logical.
    pub physical: bool,
    /// Whether a walsender uses it.
    pub active: bool,
    /// Process id of that walsender.
    pub active_pid: Option<i32>,
    /// Oldest WAL that it needs; none if it never reserved any. Of a lost one none, either.
    pub restart_lsn: Option<Lsn>,
    /// Rate of that position, bytes/s.
    pub restart_bytes_per_s: Option<f64>,
    /// From there to the primary's insert position: WAL that it keeps.
    pub retained_bytes: Option<u64>,
    /// Growth of that, bytes/s; negative when it shrinks.
    pub retained_growth_bytes_per_s: Option<f64>,
    /// State of the WAL that it needs.
    pub wal_status: Option<WalStatus>,
    /// WAL that can be written before the slot is in danger of being lost; none without `max_slot_wal_keep_size`.
    pub safe_wal_size_bytes: Option<i64>,
    /// Why the server gave it up (`invalidation_reason`, PostgreSQL 17 and later), e.g. `wal_removed`.
    pub invalidation_reason: Option<String>,
    /// Time until it is lost, if rates stay what they are, s: 0 when it is. None if that is not foreseen.
    pub seconds_until_lost: Option<f64>,
}

/// A TCP connection of a walsender (`struct tcp_info`, linux/tcp.h).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Connection {
    /// Bytes that the standby's kernel confirmed, per second (`tcpi_bytes_acked`).
    pub acknowledged_bytes_per_s: Option<f64>,
    /// Bytes that the walsender gave to its socket and the standby's kernel has not confirmed.
    pub unacknowledged_bytes: Option<u64>,
    /// Part of the time in which data was to be sent, 0 to 1 (`tcpi_busy_time`).
    pub busy: Option<f64>,
    /// Part of the time in which the standby's kernel had no room, since the walreceiver did not read, 0 to 1
    /// (`tcpi_rwnd_limited`).
    pub receiver_limited: Option<f64>,
    /// Segments sent again, per second (`tcpi_total_retrans`).
    pub retransmits_per_s: Option<f64>,
    /// Name of the interface that has this end's address, `lo` where the other end is on this host; see
    /// [`interfaces`](Sample::interfaces).
    #[serde(default)]
    pub interface: Option<String>,
    /// Packets sent per second, as they are on the wire, those without data included (`tcpi_segs_out`).
    #[serde(default)]
    pub sent_packets_per_s: Option<f64>,
    /// Packets received per second, confirmations mostly (`tcpi_segs_in`).
    #[serde(default)]
    pub received_packets_per_s: Option<f64>,
}

/// A network interface of the primary's host, with all that goes by it, whoever sends it (/proc/thread-self/net/dev). Its
/// packets are counted before they are cut into those of the wire, and after those are put together (GSO, GRO).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interface {
    /// E.g. `eth0`.
    pub name: String,
    /// Bytes sent per second, link-layer headers included.
    pub sent_bytes_per_s: Option<f64>,
    /// Packets sent per second.
    pub sent_packets_per_s: Option<f64>,
    /// Bytes received per second.
    pub received_bytes_per_s: Option<f64>,
    /// Packets received per second.
    pub received_packets_per_s: Option<f64>,
    /// What its link carries in either direction, bytes/s, as the driver says (/sys/class/net/NAME/speed). None where it says
    /// nothing, as those of virtual interfaces; a cloud's limit may be less.
    pub link_bytes_per_s: Option<u64>,
}

/// Where WAL on its way to a standby is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// No WAL is made, and none is on its way.
    Idle,
    /// Nothing holds it up: it arrives as it is made.
    Generation,
    /// The disk with the primary's WAL: WAL waits to be flushed, or the walsender to read it.
    PrimaryWalDisk,
    /// The network.
    Network,
    /// The standby's walreceiver does not take it: it writes or flushes, or stands still.
    StandbyWrite,
    /// The standby wrote it and does not get it to disk.
    StandbyFlush,
    /// The standby has it on disk and does not replay it, or the subscriber does not apply it.
    Replay,
    /// The standby is not connected.
    Disconnected,
    /// The evidence does not tell.
    Unknown,
}

/// Where a standby is held up, and what says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The place.
    pub place: Place,
    /// What was seen that says so, a sentence each; for [`Place::Unknown`] what is not known.
    pub evidence: Vec<String>,
}
