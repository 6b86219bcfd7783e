//! What pg_calm would gain on a server, as data: the document of `pgcalm predict --json`.
//!
//! Units are in the field names: `_s` seconds, `_mib` MiB (2^20 bytes). A page is a block of the server's. How the figures
//! are computed is told in the `model` module.

pub mod text;

use serde::{Deserialize, Serialize};

/// [`Device::caps_source`] of caps that were given by options, with which it begins where others count, too.
pub(crate) const OPTIONS: &str = "options";

/// The same of caps that there may be: the reason follows.
pub(crate) const NOT_KNOWN: &str = "not known";

/// What pg_calm would gain on a server: the document written by `pgcalm predict --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// What was seen of the server, from which all else follows.
    pub observation: Observation,
    /// PostgreSQL without pg_calm, with the same settings.
    pub stock: Outlook,
    /// With pg_calm, by what the module has counted in shadow mode; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pg_calm: Option<Outlook>,
    /// Whether pg_calm is worth loading here; absent if that can't be told, as without its count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helps: Option<bool>,
    /// Why, in one sentence.
    pub reason: String,
    /// What makes the figures less certain, a sentence each; empty if nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

/// What data files cost, and how many transactions the caps leave room for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outlook {
    /// Write operations per second for data files at the observed rate of transactions, without those of WAL: of stock as the
    /// device has counted them, of pg_calm as the module has.
    pub device_operations_per_s: f64,
    /// MiB per second likewise.
    pub device_mib_per_s: f64,
    /// Transactions per second that the caps leave room for if each costs what it costs now, at most those that the server reached when
    /// nothing held it up, unless the device is what holds it up; an upper bound.
    pub sustainable_tps: f64,
    /// What sets the rate: `server` (CPU, WAL, clients), `operations` or `bandwidth` of the data device.
    pub bound_by: String,
}

/// What was seen of a server, its host and its device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// How long the server was looked at.
    pub seconds: f64,
    /// Transactions per second, mean; of all databases, rolled back ones included.
    pub tps: f64,
    /// Transactions per second, mean of the seconds in which nothing held them up.
    pub unhindered_tps: f64,
    /// Pages per second that the checkpointer wrote to data files.
    pub checkpointer_pages_per_s: f64,
    /// Pages per second that the background writer wrote.
    pub background_writer_pages_per_s: f64,
    /// Pages per second that other processes wrote, files' extensions included.
    pub backend_pages_per_s: f64,
    /// Bytes of WAL per second.
    pub wal_bytes_per_s: f64,
    /// Whether some pages may not have been told: from PostgreSQL 17 on by transactions that were open when it began or ended, and by
    /// recovery.
    #[serde(default)]
    pub writes_are_late: bool,
    /// Settings of the server.
    pub settings: Settings,
    /// The device below the data directory.
    pub device: Device,
    /// What the module in shadow mode has counted; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Counted>,
}

impl Observation {
    /// Pages per second that the server wrote to data files.
    pub fn pages_per_s(&self) -> f64 {
        self.checkpointer_pages_per_s + self.background_writer_pages_per_s + self.backend_pages_per_s
    }
}

/// Settings of the server that say how often it checkpoints, and whether pg_calm may write clean pages along.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// `checkpoint_timeout`.
    pub checkpoint_timeout_s: f64,
    /// `checkpoint_completion_target`.
    pub checkpoint_completion_target: f64,
    /// `max_wal_size`.
    pub max_wal_bytes: u64,
    /// `full_page_writes`; pg_calm bridges no gaps without.
    pub full_page_writes: bool,
    /// `pg_calm.bridge`.
    pub bridge: bool,
    /// `block_size`: bytes of a page.
    #[serde(default = "usual_page")]
    pub page_bytes: u64,
}

fn usual_page() -> u64 {
    8192
}

/// The device below the data directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// E.g. `nvme1n1`; empty if the data directory is on no block device, or can't be seen from here.
    pub name: String,
    /// Write operations per second that it takes; absent if there is no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<f64>,
    /// Bytes per second that it takes; absent if there is no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
    /// Operations per second, reads and writes together; absent if reads don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_iops: Option<f64>,
    /// Bytes per second, read and written together; absent if reads don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_bytes_per_s: Option<f64>,
    /// Where the caps were found.
    pub caps_source: String,
    /// Whether it could be seen what it does; if not, stock is taken to need an operation for each page.
    #[serde(default)]
    pub counted: bool,
    /// Write operations per second that it completed while the server was looked at, without flushes.
    pub operations_per_s: f64,
    /// MiB per second likewise.
    pub mib_per_s: f64,
    /// Read operations per second likewise, or as was asked for.
    #[serde(default)]
    pub reads_per_s: f64,
    /// MiB per second read, likewise.
    #[serde(default)]
    pub read_mib_per_s: f64,
    /// Writes of WAL per second, without their flushes; 0 if it is on another device, or if that can't be seen.
    #[serde(default)]
    pub wal_writes_per_s: f64,
    /// Whether WAL is written to it that no server counts: what a standby receives, before PostgreSQL 18.
    #[serde(default)]
    pub wal_is_uncounted: bool,
}

/// What the module has counted, per second, in `pg_calm_status`: what it wrote, or in shadow mode what it would have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// `device_operations`: what its own writes and those of the server's fsyncs take.
    pub device_operations_per_s: f64,
    /// `written_bytes`, likewise.
    pub mib_per_s: f64,
    /// `flushed_pages` and `fsynced_pages` together.
    pub flushed_pages_per_s: f64,
    /// `fsynced_pages` alone: what the server's fsyncs found.
    #[serde(default)]
    pub fsynced_pages_per_s: f64,
    /// `kernel_flushed_pages`: what the kernel had written before pg_calm came to it.
    #[serde(default)]
    pub kernel_flushed_pages_per_s: f64,
    /// `bridged_pages`: clean pages written along.
    #[serde(default)]
    pub bridged_pages_per_s: f64,
}
