//! What the lines of all verbs have alike, and its renderings.
//!
//! Each verb writes JSON lines: a [`Start`], records of the types in its own `report`, an [`End`]. Text and HTML are rendered
//! from the same values.

pub mod file_kind;
pub mod histogram;
pub mod view;

use serde::{Deserialize, Serialize};

/// First line: which server, how it is traced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Start {
    /// The verb, e.g. `checkpoint`.
    pub verb: String,
    /// Version of pgcalm.
    pub pgcalm: String,
    /// When the probes were attached, seconds since 1970.
    pub time: f64,
    /// The server.
    pub server: Server,
    /// Options that change what is measured, e.g. `per-buffer`.
    pub options: Vec<String>,
    /// Whether eBPF is in use; else the answers come from the server's log and views.
    pub ebpf: bool,
    /// Answers that can't be given, and why. What turns out later is in [`End`].
    pub missing: Vec<Missing>,
}

/// The server that is traced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Server {
    /// Process id of the postmaster.
    pub pid: i32,
    /// E.g. `PostgreSQL 15.20 (Debian 15.20-0+deb12u1)`.
    pub version: String,
    /// Data directory as the server names it.
    pub data_directory: String,
    /// Port of its sockets.
    pub port: Option<u16>,
    /// Kernel release of the host.
    pub kernel: String,
}

/// An answer that can't be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Missing {
    /// What is not known, e.g. `time of each fsync`.
    pub answer: String,
    /// Why, and what would change it.
    pub reason: String,
}

/// What could not be kept; figures are too small by that much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Drops {
    /// Events that found the ring buffer full.
    pub events: u64,
    /// Entries that found their map full.
    pub entries: u64,
}

impl Drops {
    /// Adds another group's.
    pub fn add(&mut self, other: Self) {
        self.events += other.events;
        self.entries += other.entries;
    }
}

/// Last line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct End {
    /// When, seconds since 1970.
    pub time: f64,
    /// Why it ended.
    pub reason: EndReason,
    /// What could not be kept.
    pub drops: Drops,
    /// Answers that can't be given, and why; all of them, those of [`Start`] too.
    pub missing: Vec<Missing>,
}

/// Who takes the lines of a trace as they come.
pub type Take<'a, L> = &'a mut dyn FnMut(L) -> anyhow::Result<()>;

/// Why a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// As many records as asked for.
    Count,
    /// The time asked for is over.
    Duration,
    /// A signal.
    Interrupted,
    /// The server ended.
    ServerEnded,
}
