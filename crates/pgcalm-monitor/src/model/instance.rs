//! A PostgreSQL server.

use serde::{Deserialize, Serialize};

use crate::model::{
    Activity, Archive, Checkpoint, Counters, Group, Guard, Maintenance, Missing, Module, Rates, Replication,
    ShareMember, Stop, Unflushed, Volume,
};

/// An instance at one moment. All that comes from the server is `None` or empty unless it is reachable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Which it is.
    pub identity: Identity,
    /// Whether it answers.
    pub reachability: Reachability,
    /// Primary or standby.
    pub role: Option<ServerRole>,
    /// pg_calm: what it reports; `None` if it isn't there or can't be read, see `missing`.
    pub module: Option<Module>,
    /// Pages written and not flushed, of the module.
    pub unflushed: Option<Unflushed>,
    /// Checkpoints: the one under way and the last.
    pub checkpoint: Option<Checkpoint>,
    /// Sessions and what they wait for.
    pub activity: Option<Activity>,
    /// Counters of the server since its statistics were reset.
    pub counters: Option<Counters>,
    /// What these come to per second.
    pub rates: Option<Rates>,
    /// What its files lie on: data first, then WAL, tablespaces. Empty for a server that is not on this host, or that
    /// this user may not look at.
    pub volumes: Vec<Volume>,
    /// WAL archiving.
    pub archive: Option<Archive>,
    /// Standbys, slots, and what this server receives itself.
    pub replication: Option<Replication>,
    /// The module's guard.
    pub guard: Option<Guard>,
    /// Instances with which the module shares the device; empty where nothing is shared.
    pub share: Vec<ShareMember>,
    /// How long the sample took: from asking the first question to the last answer.
    pub sample_seconds: Option<f64>,
    /// What is missing of the above, and why.
    pub missing: Vec<Missing>,
    /// When the server was asked: milliseconds since 1970. Two samples of the host may have the same answer of a server.
    #[serde(default)]
    pub sampled_ms: Option<u64>,
    /// Since the server started.
    #[serde(default)]
    pub uptime_seconds: Option<f64>,
    /// What runs besides its users.
    #[serde(default)]
    pub maintenance: Vec<Maintenance>,
    /// Its control group; `None` for a server that is not on this host, or that this user may not look at.
    #[serde(default)]
    pub group: Option<Group>,
    /// How long a fast stop and recovery would take.
    #[serde(default)]
    pub stop: Option<Stop>,
}

/// Which server it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Names it uniquely in a sample and stays the same over its restarts: `5432` for an instance of this host;
    /// `5432:DIRECTORY`, of its data or, unless its processes may be looked at, its socket, for others that come to be
    /// beside it with the same port; `HOST:PORT` of a connection string.
    pub name: String,
    /// Setting cluster_name, if it has one and it is reachable.
    pub cluster_name: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Process id of the postmaster, for an instance of this host.
    pub pid: Option<i32>,
    /// As the server sees it; `None` for a server on another host unless it tells.
    pub data_directory: Option<String>,
    /// E.g. `15.20`; only the major version while it is not reachable.
    pub version: Option<String>,
}

/// Whether a server answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Reachability {
    /// It has answered all questions of this sample.
    Reachable,
    /// It was not asked yet, or the first answers are not there yet.
    #[default]
    Connecting,
    /// It could not be connected to, or refused.
    Unreachable {
        /// One line.
        why: String,
        /// Whether it takes no session of anybody, as it starts, recovers or stops.
        #[serde(default)]
        closed: bool,
        /// Whether it answers, and only does not let this role in, or not into this database.
        #[serde(default)]
        denied: bool,
    },
    /// It was connected to and doesn't answer.
    Hung {
        /// Since when, in seconds.
        seconds: f64,
    },
}

impl Reachability {
    /// Whether it answers.
    pub fn is_reachable(&self) -> bool {
        matches!(self, Self::Reachable)
    }
}

/// What a server is in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerRole {
    /// Takes writes.
    Primary,
    /// In recovery (`pg_is_in_recovery()`).
    Standby,
}

pgcalm_host::names! { pub fn name(ServerRole): Primary "primary", Standby "standby" }
