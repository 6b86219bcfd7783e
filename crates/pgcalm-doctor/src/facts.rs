//! What `pgcalm doctor` judges by: all that it has read of host and server. Rules read nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use crate::isolate::report as isolate;
use pgcalm_host::{Known, Unknown};
use serde::{Deserialize, Serialize};

/// Host and server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Facts {
    /// The host that the server runs on; null if that is another one.
    pub host: Option<Host>,
    /// The server; null if there is none, or no connection to it.
    pub server: Option<Server>,
    /// Rates over a few seconds; null with `--duration 0`, and if neither host nor server could be read twice.
    pub sample: Option<Sample>,
    /// What could not be looked at, why, and the way out, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A Linux host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// As `uname -r` says it.
    pub kernel_release: Option<String>,
    /// Usable memory of the host.
    pub memory_bytes: Option<u64>,
    /// The writeback sysctls by their name below `vm.`, e.g. `dirty_ratio`; empty if they can't be read.
    pub sysctls: BTreeMap<String, u64>,
    /// What these come to at present.
    pub dirty_thresholds: Option<DirtyThresholds>,
    /// What the kernel offers.
    pub kernel_features: KernelFeatures,
    /// The instance that is looked at, with its places, control group and limits; null if it was not found among the
    /// processes of this host.
    pub instance: Option<isolate::Instance>,
    /// What `pgcalm isolate check` says about that instance.
    pub hazards: Vec<isolate::Hazard>,
    /// The disks of its places.
    pub disks: Vec<Disk>,
    /// The tightest memory limit of its control groups; null if there is none or the instance is not known.
    pub memory_limit: Known<Option<MemoryLimit>>,
    /// Whether shared memory is in huge pages, which are not charged to that limit.
    #[serde(default)]
    pub huge_pages: bool,
    /// What is used of that limit.
    #[serde(default)]
    pub memory_use: Option<MemoryUse>,
    /// Page cache that waits to be written or is being written: of the group with that limit, else of the host.
    #[serde(default)]
    pub unflushed_bytes: Option<u64>,
    /// How long whoever started the server waits for it; null if that can't be told.
    #[serde(default)]
    pub grace: Option<Grace>,
    /// Files of the databases; counting stops beyond some ten thousand. Null if they can't be seen.
    #[serde(default)]
    pub data_files: Option<u64>,
    /// WAL per second in the last crash recovery that the server's log tells of.
    #[serde(default)]
    pub replay_bytes_per_second: Option<f64>,
    /// The file system that pg_wal is on.
    pub wal_file_system: Option<FileSystem>,
    /// Probes of PostgreSQL's own (USDT) in the server's program; null if it could not be read.
    pub usdt_probes: Option<u32>,
}

/// Amounts of dirty page cache of the whole host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirtyThresholds {
    /// Memory that vm.dirty_*_ratio are percentages of: free, or page cache of files.
    pub dirtyable_bytes: u64,
    /// The kernel's flusher starts here.
    pub background_bytes: u64,
    /// Writers are held up here.
    pub limit_bytes: u64,
}

/// What the kernel offers to pg_calm and to pgcalm; null where it could not be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelFeatures {
    /// The system call cachestat (Linux 6.5).
    pub cachestat: Option<bool>,
    /// madvise with MADV_POPULATE_WRITE (Linux 5.14).
    pub populate_write: Option<bool>,
    /// Type information for eBPF programs, /sys/kernel/btf/vmlinux.
    pub btf: Option<bool>,
}

/// A disk that holds something of the instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disk {
    /// Name and number.
    pub disk: isolate::Disk,
    /// What is on it: `data`, `wal`, `tablespace`, `log`, `journal`.
    pub roles: Vec<String>,
    /// Write operations per second that it takes at most, where a cap is known; reads take theirs off a shared one.
    pub write_iops: Option<Cap>,
    /// Bytes written per second that it takes at most, likewise.
    pub write_bandwidth: Option<Cap>,
    /// Operations per second that reads and writes share, where such a cap is known.
    #[serde(default)]
    pub all_iops: Option<Cap>,
    /// Bytes per second that reads and writes share, likewise.
    #[serde(default)]
    pub all_bandwidth: Option<Cap>,
    /// The kernel's limit on its dirty pages; null if it could not be read.
    pub dirty_limit: Option<DeviceDirtyLimit>,
    /// The block layer's writeback throttling; null if the kernel has none for this disk.
    pub writeback_throttling: Option<WritebackThrottling>,
    /// Its queue; null if it has none of its own.
    #[serde(default)]
    pub request_queue: Option<RequestQueue>,
    /// Its read-ahead; null where no file system is mounted from it.
    #[serde(default)]
    pub read_ahead: Option<ReadAhead>,
}

/// How much of a file the kernel reads at most before it is asked for, where a process reads in sequence (mm/readahead.c).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadAhead {
    /// Kibibytes.
    pub kib: u64,
    /// Where that stands.
    pub file: String,
}

/// What the block layer hands to a disk before it lets a process wait (`blk_mq_get_tag`, block/blk-mq-tag.c).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestQueue {
    /// Requests that are under way at most, in each of its hardware queues.
    pub requests: u64,
    /// Where that stands.
    pub file: String,
}

/// How the block layer holds what the page cache writes (block/blk-wbt.c): with fewer writes in flight as long as reads take
/// longer than this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WritebackThrottling {
    /// Microseconds that a read may take; 0: nothing is held.
    pub latency_us: u64,
    /// Where that stands.
    pub file: String,
}

/// A cap and where it is known from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cap {
    /// Operations or bytes per second.
    pub value: u64,
    /// A file of a control group, `pg_calm_status` or an option of the command.
    pub source: String,
}

impl Cap {
    /// Whether it is the limit of a control group, which holds for what the group does, whatever others do on the disk.
    pub fn is_of_group(&self) -> bool {
        Path::new(&self.source).is_absolute()
    }
}

/// The limit of `/sys/class/bdi/MAJ:MIN`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceDirtyLimit {
    /// The most that its dirty pages may be of the host's limit, in millionths; 1000000 is no limit.
    pub max_share: u32,
    /// Where that stands.
    pub file: String,
    /// What stands for no limit in that file.
    pub no_limit: String,
    /// What is set aside for it of the host's limit, in millionths.
    #[serde(default)]
    pub min_share: u32,
    /// Where that stands; empty in documents of a doctor that did not look.
    #[serde(default)]
    pub min_file: String,
}

/// A memory limit of a control group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryLimit {
    /// Page cache and shared memory included.
    pub bytes: u64,
    /// Where it stands.
    pub file: String,
}

/// What a control group uses of its memory limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// All of it.
    pub bytes: u64,
    /// Page cache of files, shared memory not included.
    pub cache_bytes: u64,
}

/// How long whoever started a server waits before it is killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Grace {
    /// For its stop; null: as long as it takes.
    pub stop_seconds: Option<f64>,
    /// For its start; likewise.
    pub start_seconds: Option<f64>,
    /// Where that stands.
    pub source: String,
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileSystem {
    /// In all.
    pub size_bytes: u64,
    /// Free for the server's user.
    pub available_bytes: u64,
}

/// A PostgreSQL server, as its own views describe it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Server {
    /// E.g. 150020.
    pub version_num: u32,
    /// Names the cluster; a standby has its primary's.
    pub system_identifier: String,
    /// Null without the privilege to see it (pg_read_all_settings).
    pub data_directory: Option<String>,
    /// Port.
    pub port: u16,
    /// Whether it is a standby, or recovers.
    pub in_recovery: bool,
    /// Seconds since it was started; null in documents of a doctor that did not ask.
    #[serde(default)]
    pub up_seconds: Option<f64>,
    /// Settings that the rules look at, by name.
    pub settings: BTreeMap<String, Setting>,
    /// Checkpoints since the statistics were reset.
    pub checkpoints: Checkpoints,
    /// Who has written buffers since then.
    pub buffers: BufferWrites,
    /// WAL since its statistics were reset.
    pub wal: Wal,
    /// The archiver.
    pub archiver: Archiver,
    /// Replication slots.
    pub slots: Vec<Slot>,
    /// Who streams WAL from this server; null without the privilege to see them (pg_read_all_stats).
    #[serde(default)]
    pub standbys: Option<Vec<Standby>>,
    /// Size of all databases that may be looked at.
    pub database_bytes: Option<u64>,
    /// Dirty shared buffers; null if nobody counts them: pg_calm, or the extension pg_buffercache, does.
    #[serde(default)]
    pub dirty_buffers: Option<u64>,
    /// WAL since the redo point, from which recovery would begin.
    #[serde(default)]
    pub wal_since_redo_bytes: Option<u64>,
    /// Blocks of all databases that were found in shared_buffers, since their statistics were reset.
    pub blocks_hit: u64,
    /// Blocks that were not.
    pub blocks_read: u64,
    /// pg_calm; null if it is not loaded.
    pub pg_calm: Option<PgCalm>,
}

/// A setting of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// In the unit of pg_settings; commands are not repeated, since they may hold passwords: `set` or empty.
    pub value: String,
    /// E.g. `8kB`, `ms`; null if it has none.
    pub unit: Option<String>,
    /// When it can be changed: `sighup` by reload, `postmaster` by restart only.
    pub context: String,
    /// Where it comes from, e.g. `configuration file`, `command line`.
    pub source: String,
    /// Values that it can have, if it is one of a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// pg_stat_bgwriter, or pg_stat_checkpointer since 17.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checkpoints {
    /// By checkpoint_timeout, those included that were skipped because the server was idle.
    pub timed: u64,
    /// By WAL, by a command, by a base backup.
    pub requested: u64,
    /// Time that their sync phases took, ms.
    pub sync_time_ms: f64,
    /// Seconds since the statistics were reset; null if never since the server was made.
    pub seconds: Option<f64>,
}

/// Buffers written, by who wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BufferWrites {
    /// By the checkpointer.
    pub checkpointer: u64,
    /// By the background writer.
    pub background_writer: u64,
    /// By backends that needed the buffer.
    pub backends: u64,
}

/// pg_stat_wal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Wal {
    /// Bytes generated.
    pub bytes: u64,
    /// Full-page images in them.
    pub full_page_images: u64,
    /// Times that a backend had to write WAL itself because wal_buffers was full.
    pub buffers_full: u64,
    /// Seconds since these were reset; null if never since the server was made.
    pub seconds: Option<f64>,
    /// Size of pg_wal; null without the privilege (pg_monitor).
    pub directory_bytes: Option<u64>,
}

/// pg_stat_archiver and the queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Archiver {
    /// Files archived.
    pub archived: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Whether the last attempt failed.
    pub last_failed: bool,
    /// The file of the last failure.
    pub last_failed_file: Option<String>,
    /// Files that wait; null without the privilege (pg_monitor).
    pub ready_files: Option<u64>,
    /// Seconds that the oldest of them has waited; null if none waits, and without the privilege.
    #[serde(default)]
    pub oldest_ready_seconds: Option<f64>,
    /// Seconds since a file was archived; null if none was.
    #[serde(default)]
    pub last_archived_seconds: Option<f64>,
    /// Seconds since an attempt failed; null if none did.
    #[serde(default)]
    pub last_failed_seconds: Option<f64>,
    /// Seconds since the archiver's process was started; null if there is none, and without the privilege.
    #[serde(default)]
    pub process_seconds: Option<f64>,
}

/// pg_replication_slots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// Whether somebody reads from it.
    pub active: bool,
    /// `reserved`, `extended`, `unreserved` or `lost`; null if it holds no WAL.
    pub wal_status: Option<String>,
    /// WAL that it holds back; null if it holds none.
    pub retained_bytes: Option<u64>,
}

/// A standby, or another receiver of WAL, that is connected (pg_stat_replication).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Standby {
    /// Its `application_name`.
    pub application_name: String,
    /// The replication slot that it uses; null if it uses none.
    pub slot: Option<String>,
}

/// The module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PgCalm {
    /// `off`, `shadow` or `on`.
    pub mode: String,
    /// Whether its views are in the database of the connection (CREATE EXTENSION); without, what follows is empty.
    pub has_views: bool,
    /// Why it does less than its mode says.
    pub degraded: Option<String>,
    /// Cap in force, write operations per second.
    pub write_iops: Option<u64>,
    /// Cap in force, bytes per second.
    pub write_bandwidth: Option<u64>,
    /// Regions that counted as wholly dirty, and files not tracked, because the page map was full.
    pub map_full: u64,
    /// Average time of a flush of WAL; null if none was seen.
    #[serde(default)]
    pub wal_flush_seconds: Option<f64>,
    /// What a fast stop would take; null if no cap is known.
    #[serde(default)]
    pub stop_seconds: Option<f64>,
    /// WAL that the last crash recovery replayed per second; null if the server has not recovered since it was started.
    #[serde(default)]
    pub replay_bytes_per_second: Option<f64>,
    /// Checkpoints that its reports still have.
    pub checkpoints: u64,
    /// Those of them that WAL started.
    pub checkpoints_by_wal: u64,
}

/// Rates over the time of the sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// How long it was.
    pub seconds: f64,
    /// WAL generated, or replayed on a standby, bytes per second.
    pub wal_bytes_per_second: Option<f64>,
    /// Transactions committed per second, those that only read among them; null if they could not be counted.
    #[serde(default)]
    pub commits_per_second: Option<f64>,
    /// Flushes of WAL per second; likewise.
    #[serde(default)]
    pub wal_flushes_per_second: Option<f64>,
    /// Rates of the disks.
    pub disks: Vec<DiskRates>,
    /// The other disks, by name, and why their rates are not known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncounted: BTreeMap<String, Unknown>,
    /// How far standbys were behind at both ends of the sample.
    #[serde(default)]
    pub standbys: Vec<StandbyLag>,
}

/// WAL on the server's disk that is not on a standby's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StandbyLag {
    /// Its `application_name`.
    pub application_name: String,
    /// When the sample began.
    pub before_bytes: u64,
    /// When it ended.
    pub after_bytes: u64,
}

/// Rates of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiskRates {
    /// E.g. `sda`.
    pub name: String,
    /// Write operations completed per second.
    pub write_operations_per_second: f64,
    /// Bytes written per second.
    pub write_bytes_per_second: f64,
    /// Read operations completed per second; 0 in documents of 0.1 that are older.
    #[serde(default)]
    pub read_operations_per_second: f64,
    /// Bytes read per second, likewise.
    #[serde(default)]
    pub read_bytes_per_second: f64,
    /// Write operations per second of the control group whose limit is the cap, by its own counters; null without one.
    #[serde(default)]
    pub group_write_operations_per_second: Option<f64>,
    /// Bytes written per second, likewise.
    #[serde(default)]
    pub group_write_bytes_per_second: Option<f64>,
}
