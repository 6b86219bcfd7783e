//! What changes rarely: version, settings, rights, whether the module is there.

use pgcalm_server::Version;
use postgres::Error;

use crate::server::session::Columns;
use crate::server::session::Session;

/// Settings that are used here, as numbers in base units where they are numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
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
}

/// A module's setting that nobody has defined is a placeholder: text.
const QUERY: &str = "SELECT \
    current_setting('server_version_num')::int AS version, \
    current_setting('server_version') AS version_name, \
    current_setting('cluster_name') AS cluster_name, \
    current_setting('port')::int8 AS port, \
    current_setting('block_size')::int8 AS block_bytes, \
    current_setting('max_connections')::int8 AS max_connections, \
    current_setting('archive_mode') AS archive_mode, \
    pg_size_bytes(current_setting('wal_segment_size')) AS wal_segment_bytes, \
    pg_size_bytes(current_setting('max_wal_size')) AS max_wal_size_bytes, \
    extract(epoch FROM current_setting('checkpoint_timeout')::interval)::float8 AS checkpoint_timeout, \
    (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory, \
    coalesce((SELECT vartype = 'enum' FROM pg_settings WHERE name = 'pg_calm.mode'), false) AS module_loaded, \
    (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
     WHERE e.extname = 'pg_calm') AS module_schema, \
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all_sessions, \
    extract(epoch FROM pg_postmaster_start_time())::float8 AS started, \
    pg_backend_pid() AS backend_pid";

/// Asks for all.
pub fn ask(session: &mut Session) -> Result<Facts, Error> {
    let rows = session.rows(QUERY)?;
    let row = &rows[0];
    let version_name = row.text("version_name")?.unwrap_or_default();
    Ok(Facts {
        version: Version(row.try_get("version")?),
        version_name: version_name
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_string(),
        cluster_name: row.text("cluster_name")?.filter(|name| !name.is_empty()),
        data_directory: row.text("data_directory")?,
        port: row.count("port")?.and_then(|port| u16::try_from(port).ok()),
        block_bytes: row.count("block_bytes")?.unwrap_or(8192),
        wal_segment_bytes: row.count("wal_segment_bytes")?.unwrap_or(16 << 20),
        max_connections: row.count("max_connections")?.unwrap_or(0),
        max_wal_size_bytes: row.count("max_wal_size_bytes")?,
        checkpoint_timeout_seconds: row.number("checkpoint_timeout")?,
        archive_mode: row.text("archive_mode")?.unwrap_or_default(),
        sees_all_sessions: row.flag("sees_all_sessions")?,
        started: row.number("started")?.unwrap_or(0.0),
        backend_pid: row.try_get("backend_pid")?,
        module_loaded: row.flag("module_loaded")?,
        module_schema: row.text("module_schema")?,
    })
}
