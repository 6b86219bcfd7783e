//! WAL archiving.

use serde::{Deserialize, Serialize};

/// What waits to be archived, from pg_calm_archive, else from pg_stat_archiver and `pg_ls_archive_statusdir()`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    /// Whether there is an archiver, and which.
    pub state: ArchiveState,
    /// Files announced and not archived; `None` if that can't be read.
    pub queue_files: Option<u64>,
    /// Their length. Without the module: the number times the length of a segment.
    pub queue_bytes: Option<u64>,
    /// The one that is archived next.
    pub oldest_file: Option<String>,
    /// How long it has waited.
    pub oldest_seconds: Option<f64>,
    /// Files archived since the statistics were reset (pg_stat_archiver).
    pub archived_files: u64,
    /// Attempts that failed since then (pg_stat_archiver).
    pub failures: u64,
    /// Time since the last file was archived; `None` if there was none.
    pub last_archived_seconds: Option<f64>,
    /// Time since the last failure; `None` if there was none.
    pub last_failed_seconds: Option<f64>,
    /// Whether the last attempt failed.
    pub failing: bool,
    /// Free space of pg_wal's file system; with the module, else of the host if the directory may be looked at.
    pub free_bytes: Option<u64>,
    /// Bytes of WAL archived per second in the last minute; module as archiver only.
    pub archived_bytes_per_second: Option<f64>,
    /// Seconds until pg_wal's file system is full if rates stay; `None` if not within hours, or without pg_calm_guard.
    pub time_to_full_seconds: Option<f64>,
}

/// Who archives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveState {
    /// Nobody: archive_mode is off, or this is a standby and it isn't `always`.
    #[default]
    Off,
    /// pg_calm_archive is the archive_library.
    PgCalm,
    /// Another library or a command.
    Other,
}

pgcalm_host::names! { pub fn name(ArchiveState): Off "off", PgCalm "pg_calm", Other "other" }
