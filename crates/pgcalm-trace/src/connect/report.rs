//! The lines of `pgcalm trace connect`: where new connections spend their time until they are ready for a query.

pub(crate) mod view;

use serde::{Deserialize, Serialize};

use crate::io::report::Operation;
use crate::report::file_kind::FileKind;
use crate::report::{End, Start};
use crate::why::report::{Share, Stack};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// A connection that is ready, or has ended before.
    Connection(Connection),
    /// A connection that has taken longer than the threshold and is not ready.
    Hanging(Hanging),
    /// All connections of the trace.
    Summary(Summary),
    /// Last.
    End(End),
}

/// A part of the way to the first query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// From the fork: startup packet, TLS, shared memory.
    Start,
    /// `ClientAuthentication`: pg_hba.conf, the exchange with the client, LDAP or the like.
    Authentication,
    /// The rest of `InitPostgres`: the role and the database in the catalogs, the relation cache.
    Database,
    /// Until the first `ReadyForQuery`: settings, session_preload_libraries.
    Session,
}

/// All phases in their order.
pub const PHASES: [PhaseName; 4] =
    [PhaseName::Start, PhaseName::Authentication, PhaseName::Database, PhaseName::Session];

pgcalm_host::names! {
    pub fn label(PhaseName):
        Start "start", Authentication "authentication", Database "database", Session "session"
}

/// A new connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Connection {
    /// Process id of its backend.
    pub pid: u32,
    /// When its process was forked, seconds since 1970.
    pub time: f64,
    /// From the fork until it was ready for a query or ended, ms.
    pub total_ms: f64,
    /// Whether it was ready; else it ended before.
    pub ready: bool,
    /// The phases that it reached.
    pub phases: Vec<Phase>,
    /// Where it slept uninterruptibly, longest first, at most ten.
    pub stacks: Vec<Stack>,
}

/// A phase of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phase {
    /// Which.
    pub phase: PhaseName,
    /// How long, ms.
    pub ms: f64,
    /// Of that on a processor, ms.
    pub on_cpu_ms: f64,
    /// Of that waiting for the client, ms.
    pub client_ms: f64,
    /// Of that lost, ms.
    pub lost_ms: f64,
    /// What it was lost to, largest first.
    pub shares: Vec<Share>,
    /// System calls.
    pub calls: Vec<PhaseCalls>,
}

/// Calls of one operation on one kind of file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseCalls {
    /// What they do.
    pub operation: Operation,
    /// On what.
    pub file: FileKind,
    /// How many, failed ones among them.
    pub calls: u64,
    /// How many failed.
    pub errors: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Time, ms.
    pub ms: f64,
}

/// A connection that is not ready yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hanging {
    /// Process id of its backend.
    pub pid: u32,
    /// Since its fork, ms.
    pub so_far_ms: f64,
    /// The phase that it is in.
    pub phase: PhaseName,
    /// The system call that it is in; none if it is in none.
    pub syscall: Option<String>,
    /// Kind of the file that the call works on.
    pub file: FileKind,
    /// What it sleeps in, innermost first, if it does so uninterruptibly.
    pub frames: Vec<String>,
}

/// All connections of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// Connections that became ready.
    pub ready: u64,
    /// Connections that ended before.
    pub ended: u64,
    /// Mean time until ready, ms; 0 without any.
    pub mean_ms: f64,
    /// Longest, ms; 0 without any.
    pub max_ms: f64,
}
