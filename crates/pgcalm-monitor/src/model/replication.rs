//! Replication: who is behind, and by how much.

use serde::{Deserialize, Serialize};

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

/// A standby, or another receiver of WAL, as its sender sees it: how far behind the end of the sender's durable WAL each
/// stage is.
///
/// Of a primary all is what `pgcalm_lag` makes of it, which remembers when the primary was where the standby is now: a
/// standby that stands still lags longer with each second. Without the rights for that, and of a cascading standby, the
/// times are those of pg_stat_replication: the delay of what was confirmed last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standby {
    /// application_name; that of the slot for one that is known by its slot only.
    pub name: String,
    /// `startup`, `catchup`, `streaming`, `backup`, `stopping`, `disconnected` or `other`.
    pub state: String,
    /// `async`, `potential`, `sync` or `quorum`; empty if not known.
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
    /// Since it has been disconnected.
    pub disconnected_seconds: Option<f64>,
    /// Where WAL on its way there is held up: a place of `pgcalm_lag::model::Place`, e.g. `network`.
    pub held_up_at: Option<String>,
    /// The network interface of this host by which WAL goes there; `None` for one on this host's Unix socket, and where the
    /// connection is not in the network namespace of pgcalm.
    pub interface: Option<String>,
    /// Bytes that its kernel confirmed, per second.
    pub network_bytes_per_second: Option<f64>,
    /// Packets sent there per second, as they are on the wire.
    pub network_packets_per_second: Option<f64>,
    /// Until WAL that it needs is removed, if rates stay; `None` if that is not foreseen.
    pub seconds_until_wal_removed: Option<f64>,
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
    /// Until it is lost, if rates stay; `None` if that is not foreseen.
    pub seconds_until_lost: Option<f64>,
}

/// The receiving side of a standby.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WalReceiver {
    /// Status of pg_stat_wal_receiver, `hidden` from a role that may not see it; `None` if no receiver runs, as when WAL comes from
    /// the archive.
    pub status: Option<String>,
    /// WAL received and not replayed.
    pub replay_lag_bytes: Option<u64>,
    /// Age of the last replayed commit; grows on an idle primary, too, unless everything received is replayed: then 0.
    pub replay_lag_seconds: Option<f64>,
}
