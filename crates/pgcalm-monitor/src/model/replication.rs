//! Replication: who is behind, and by how much.

use serde::Deserialize;
use serde::Serialize;

/// Both directions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Replication {
    /// What is connected to this server (pg_stat_replication), by name.
    pub standbys: Vec<Standby>,
    /// Replication slots (pg_replication_slots), by name.
    pub slots: Vec<Slot>,
    /// On a standby: what it receives and replays itself.
    pub receiver: Option<WalReceiver>,
}

/// A standby as its sender sees it: how much WAL of the sender's end each stage has not come to.
///
/// The times are those of pg_stat_replication: the delay that a commit would see, measured when WAL last came by; `None`
/// while there is nothing to measure, as on an idle primary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standby {
    /// application_name.
    pub name: String,
    /// `startup`, `catchup`, `streaming`, `backup` or `stopping`.
    pub state: String,
    /// `async`, `potential`, `sync` or `quorum`.
    pub sync_state: String,
    /// WAL not sent yet.
    pub sent_lag_bytes: Option<u64>,
    /// WAL not written there yet.
    pub write_lag_bytes: Option<u64>,
    /// WAL not durable there yet.
    pub flush_lag_bytes: Option<u64>,
    /// WAL not replayed there yet.
    pub replay_lag_bytes: Option<u64>,
    /// Until written there.
    pub write_lag_seconds: Option<f64>,
    /// Until durable there.
    pub flush_lag_seconds: Option<f64>,
    /// Until replayed there.
    pub replay_lag_seconds: Option<f64>,
}

/// A replication slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// slot_name.
    pub name: String,
    /// Whether anybody uses it.
    pub active: bool,
    /// `reserved`, `extended`, `unreserved` or `lost`; `None` for a slot that reserves nothing yet.
    pub wal_status: Option<String>,
    /// WAL that is kept because of it.
    pub retained_bytes: Option<u64>,
}

/// The receiving side of a standby.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WalReceiver {
    /// Status of pg_stat_wal_receiver; `None` if no receiver runs, as when WAL comes from the archive.
    pub status: Option<String>,
    /// WAL received and not replayed.
    pub replay_lag_bytes: Option<u64>,
    /// Age of the last replayed commit; grows on an idle primary, too, unless everything received is replayed: then 0.
    pub replay_lag_seconds: Option<f64>,
}
