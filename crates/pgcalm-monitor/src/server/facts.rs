//! What changes rarely: version, settings, rights, whether the module is there.

use pgcalm_postgres::estimate::BUFFERCACHE_SCHEMA;
use pgcalm_postgres::{MODULE_SCHEMA, Settings, Version, extension_schema};
use postgres::Error;

use crate::server::session::{Columns, Session};

/// Settings that are used here, as numbers in base units where they are numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// server_version_num.
    pub version: Version,
    /// server_version without what the packager adds, e.g. `15.20`.
    pub version_name: String,
    /// cluster_name; `None` if empty.
    pub cluster_name: Option<String>,
    /// data_directory; `None` if hidden from this user.
    pub data_directory: Option<String>,
    /// port.
    pub port: Option<u16>,
    /// block_size.
    pub block_bytes: u64,
    /// wal_segment_size.
    pub wal_segment_bytes: u64,
    /// max_connections.
    pub max_connections: u64,
    /// max_wal_size.
    pub max_wal_size_bytes: Option<u64>,
    /// checkpoint_timeout.
    pub checkpoint_timeout_seconds: Option<f64>,
    /// archive_mode: `off`, `on` or `always`.
    pub archive_mode: String,
    /// shared_buffers, of `block_bytes` each.
    pub shared_buffers: u64,
    /// Whether this user sees what other users' sessions do.
    pub sees_all_sessions: bool,
    /// When the server started: seconds since 1970. With the data directory it tells an instance from others.
    pub started: f64,
    /// Process id of the server's end of this connection.
    pub backend_pid: i32,
    /// Whether pg_calm is in shared_preload_libraries and works.
    pub module_loaded: bool,
    /// Schema of the extension pg_calm, quoted; `None` if this database does not have it.
    pub module_schema: Option<String>,
    /// The same of pg_calm_archive, if it is loaded.
    pub archive_schema: Option<String>,
    /// The same of pg_calm_guard.
    pub guard_schema: Option<String>,
    /// `pg_calm_guard.mode`.
    pub guard_mode: Option<String>,
    /// The same of pg_calm_share.
    pub share_schema: Option<String>,
    /// Schema of pg_buffercache, if its summary can be asked for.
    pub buffercache_schema: Option<String>,
}

/// The settings that are used.
const SETTINGS: [&str; 15] = [
    "archive_mode",
    "block_size",
    "checkpoint_timeout",
    "cluster_name",
    "data_directory",
    "max_connections",
    "max_wal_size",
    "pg_calm.mode",
    "pg_calm_archive.directory",
    "pg_calm_guard.mode",
    "pg_calm_share.directory",
    "port",
    "server_version",
    "shared_buffers",
    "wal_segment_size",
];

/// Asks for all.
pub(super) fn ask(session: &mut Session) -> Result<Facts, Error> {
    let settings = Settings::of(&session.rows(&Settings::query(&SETTINGS))?)?;
    let rows = session.rows(&format!(
        "SELECT current_setting('server_version_num')::int AS version, {MODULE_SCHEMA} AS module_schema, {} AS archive_schema, \
         {} AS guard_schema, {} AS share_schema, {BUFFERCACHE_SCHEMA} AS buffercache_schema, \
         pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all_sessions, \
         extract(epoch FROM pg_postmaster_start_time())::float8 AS started, pg_backend_pid() AS backend_pid",
        extension_schema("pg_calm_archive"),
        extension_schema("pg_calm_guard"),
        extension_schema("pg_calm_share"),
    ))?;
    let row = &rows[0];
    let text = |name| settings.text(name).map(str::to_string);
    let count = |name| settings.number(name).map(|number| number as u64);
    Ok(Facts {
        version: Version(row.try_get("version")?),
        version_name: settings
            .text("server_version")
            .and_then(|name| name.split(' ').next())
            .unwrap_or_default()
            .to_string(),
        cluster_name: text("cluster_name").filter(|name| !name.is_empty()),
        data_directory: text("data_directory"),
        port: count("port").and_then(|port| u16::try_from(port).ok()),
        block_bytes: count("block_size").unwrap_or(8192),
        wal_segment_bytes: count("wal_segment_size").unwrap_or(16 << 20),
        max_connections: count("max_connections").unwrap_or(0),
        max_wal_size_bytes: count("max_wal_size"),
        checkpoint_timeout_seconds: settings.number("checkpoint_timeout"),
        archive_mode: text("archive_mode").unwrap_or_default(),
        shared_buffers: count("shared_buffers").unwrap_or(0) / count("block_size").unwrap_or(8192).max(1),
        sees_all_sessions: row.flag("sees_all_sessions")?,
        started: row.number("started")?.unwrap_or(0.0),
        backend_pid: row.try_get("backend_pid")?,
        module_loaded: settings.text("pg_calm.mode").is_some(),
        module_schema: row.text("module_schema")?,
        archive_schema: row.text("archive_schema")?.filter(|_| settings.text("pg_calm_archive.directory").is_some()),
        guard_schema: row.text("guard_schema")?.filter(|_| settings.text("pg_calm_guard.mode").is_some()),
        guard_mode: text("pg_calm_guard.mode"),
        share_schema: row.text("share_schema")?.filter(|_| settings.text("pg_calm_share.directory").is_some()),
        buffercache_schema: row.text("buffercache_schema")?,
    })
}
