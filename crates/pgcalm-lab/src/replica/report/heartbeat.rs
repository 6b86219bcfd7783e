//! A row that is updated each second on the primary and looked for on the standby, and what a failover manager would have
//! made of it.

use serde::{Deserialize, Serialize};

/// Beats of one case. Failover managers differ in what they look at: each thing is judged by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Heartbeat {
    /// How long such a manager waits, `--patience`.
    pub patience_s: f64,
    /// Beats that the primary confirmed.
    pub written: u32,
    /// Time since the primary confirmed a beat: what a manager sees that writes to the primary.
    pub primary: Silence,
    /// Time since the standby showed a beat that it had not shown before.
    pub standby: Silence,
    /// Age of the beat that the standby shows: that of the data that its clients read.
    pub age: Silence,
    /// Connections that `wal_sender_timeout` ended, by the primary's log.
    pub sender_timeouts: u32,
    /// Connections that `wal_receiver_timeout` ended, by the standby's log.
    pub receiver_timeouts: u32,
}

/// A time without what is waited for. One that lasts at the end of the watch counts as far as it was watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Silence {
    /// The longest.
    pub longest_s: f64,
    /// When that ended, since the load began.
    pub ended_s: f64,
    /// When patience would have ended, and a manager have failed over; null if it would not.
    pub failover_s: Option<f64>,
    /// WAL on the primary's disk that the standby did not have at that moment: a failover loses it, if the primary's disk
    /// is lost or it is rewound.
    pub behind_bytes: Option<u64>,
}

impl Heartbeat {
    /// The silences by what they are of, for people.
    pub(super) fn silences(&self) -> [(&'static str, Silence); 3] {
        [
            ("no beat written on the primary", self.primary),
            ("no new beat on the standby", self.standby),
            ("age of the standby's beat", self.age),
        ]
    }
}
