//! What pg_calm would gain on a server, as data: the document of `pgcalm predict --json`.
//!
//! Units are in the field names: `_s` seconds, `_mib` MiB (2^20 bytes). A page is PostgreSQL's block of 8 KiB. How the figures
//! are computed is told in the `model` module.

pub mod text;

use serde::Deserialize;
use serde::Serialize;

/// What pg_calm would gain on a server: the document written by `pgcalm predict --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// What was seen of the server, from which all else follows.
    pub observation: Observation,
    /// PostgreSQL without pg_calm, with the same settings.
    pub stock: Outlook,
    /// With pg_calm.
    pub pg_calm: Outlook,
    /// What is possible at all here; absent in documents of 0.1 that are older, and where no transactions were seen or nothing is
    /// written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible: Option<Possible>,
    /// Whether pg_calm is worth loading here.
    pub helps: bool,
    /// Why, in one sentence.
    pub reason: String,
    /// What makes the figures less certain, a sentence each; empty if nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

/// What is expected in the long run, with the caps in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outlook {
    /// Transactions per second that the device can keep up with, at most those that the server reached when nothing held
    /// it up.
    pub sustainable_tps: f64,
    /// Write operations per second on the data device at that rate, as its cap counts them; without those of WAL.
    pub device_operations_per_s: f64,
    /// MiB per second written to the data device at that rate, likewise.
    pub device_mib_per_s: f64,
    /// What sets the rate: `server` (CPU, WAL, clients), `operations` or `bandwidth` of the data device.
    pub bound_by: String,
}

/// What server and volume make possible at the density with which pg_calm's worker writes, if nobody else wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Possible {
    /// Transactions per second: what the volume sustains, or what the server reached when nothing held it up if that is less.
    pub tps: f64,
    /// Transactions per second that the volume sustains at that density, with what reads use where they count; absent if nothing caps
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_tps: Option<f64>,
    /// That density: dirty pages for each operation of the device.
    pub pages_per_operation: f64,
    /// Whether the server makes more than the volume sustains, so that writers have to be held: evenly, by pg_calm_guard, or in
    /// stalls, by the kernel.
    pub holds_writers: bool,
}

/// What was seen of a server, its host and its device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Where the density of dirty pages was taken from: `shadow` (pg_calm's own map) or `cachestat` (the page cache).
    pub source: String,
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
    /// Settings of the server.
    pub settings: Settings,
    /// How the kernel treats dirty pages.
    pub kernel: Kernel,
    /// The device below the data directory.
    pub device: Device,
    /// Pages that a checkpoint writes.
    pub checkpoint_pages: f64,
    /// The regions (8 MiB) of data files that are written to, in classes of those that get dirty alike.
    pub regions: Vec<RegionClass>,
    /// Segment files, of a GiB at most, in which those regions lie; 0 in documents of 0.1.
    #[serde(default)]
    pub files: f64,
    /// What the module in shadow mode has counted; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Counted>,
}

/// Settings of the server that decide what is flushed when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// `server_version_num`.
    pub server_version: u32,
    /// `checkpoint_timeout`.
    pub checkpoint_timeout_s: f64,
    /// `checkpoint_completion_target`.
    pub checkpoint_completion_target: f64,
    /// `max_wal_size`.
    pub max_wal_bytes: u64,
    /// `shared_buffers`.
    pub shared_buffers_bytes: u64,
    /// `checkpoint_flush_after`.
    pub checkpoint_flush_after_bytes: u64,
    /// `bgwriter_flush_after`.
    pub bgwriter_flush_after_bytes: u64,
    /// `backend_flush_after`.
    pub backend_flush_after_bytes: u64,
    /// `full_page_writes`; pg_calm bridges no gaps without.
    pub full_page_writes: bool,
    /// Time after which a page is flushed, where a test of the model sets it; 0: as the module chooses it.
    #[serde(skip)]
    pub flush_age_s: f64,
    /// Bytes that may be unflushed, likewise.
    #[serde(skip)]
    pub unflushed_limit_bytes: u64,
    /// `pg_calm.bridge`.
    pub bridge: bool,
    /// `pg_calm.clean_buffers`; true if absent.
    #[serde(default = "yes")]
    pub clean_buffers: bool,
}

fn yes() -> bool {
    true
}

/// How the kernel treats dirty pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// Dirty bytes at which its flusher starts: `nr_dirty_background_threshold` of /proc/vmstat.
    pub background_bytes: u64,
    /// Dirty bytes that it allows: `nr_dirty_threshold`.
    pub limit_bytes: u64,
    /// Age at which a dirty file is flushed: `vm.dirty_expire_centisecs`; 0 is never.
    pub expire_s: f64,
    /// How often the flusher looks: `vm.dirty_writeback_centisecs`; 0 is never.
    pub interval_s: f64,
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
    /// Bytes of a contiguous write that count as one operation.
    pub operation_bytes: u64,
    /// Pieces of memory that one operation may be made of: `queue/max_segments`; 0 if it is not known.
    #[serde(default)]
    pub max_segments: u32,
    /// Where the caps were found.
    pub caps_source: String,
    /// Write operations per second that it completed while the server was looked at.
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
    /// MiB per second written to other disks of the host, not counting what this one hands on.
    pub other_mib_per_s: f64,
    /// On how many disks of the host a byte written to this device is counted: 2 if it is a loop device.
    pub counted_times: u32,
}

/// Regions of data files that get dirty alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionClass {
    /// How many.
    pub regions: f64,
    /// Pages that get dirty in the first second after a flush, by background writer and backends together.
    pub pages_first_second: f64,
    /// How that goes on: with writes spread evenly 1; less where the same pages are written again and again, a little more
    /// where pages stay in shared buffers between two writes.
    pub exponent: f64,
    /// Pages that a checkpoint writes to each.
    pub checkpoint_pages: f64,
}

/// What the module has counted, per second, in `pg_calm_status`: what it wrote, or in shadow mode what it would have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// `device_operations`: what its own writes, those of the server's fsyncs and those of the kernel's visits that it
    /// prepared should take.
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
