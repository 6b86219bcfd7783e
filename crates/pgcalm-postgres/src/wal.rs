//! WAL that was generated.

use crate::Client;
use postgres::{Error, Row};

use crate::Version;

impl Version {
    /// Subquery for [`Wal`], which has `wal_writes` and `wal_syncs` as well.
    ///
    /// PostgreSQL 18 moved these two to `pg_stat_io`.
    pub fn wal(self) -> &'static str {
        match self.major() {
            ..=17 => {
                "(SELECT wal_write AS wal_writes, wal_sync AS wal_syncs, wal_records, wal_fpi, wal_bytes::int8, \
                 wal_buffers_full, extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS wal_counted_seconds \
                 FROM pg_stat_wal)"
            }
            18.. => {
                "(SELECT (SELECT coalesce(sum(writes), 0)::int8 FROM pg_stat_io WHERE object = 'wal') AS wal_writes, \
                 (SELECT coalesce(sum(fsyncs), 0)::int8 FROM pg_stat_io WHERE object = 'wal') AS wal_syncs, \
                 wal_records, wal_fpi, wal_bytes::int8, wal_buffers_full, \
                 extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS wal_counted_seconds FROM pg_stat_wal)"
            }
        }
    }
}

/// WAL that was generated since its statistics were reset.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wal {
    /// Records.
    pub records: i64,
    /// Full-page images in them.
    pub page_images: i64,
    /// Bytes, images included.
    pub bytes: i64,
    /// Times that a process had to write WAL itself because `wal_buffers` was full.
    pub buffers_full: i64,
    /// Since the statistics were reset; none if never.
    pub counted_seconds: Option<f64>,
}

impl Wal {
    /// Asks the server for this alone.
    pub fn read(client: &mut Client, version: Version) -> Result<Self, Error> {
        Self::of(&client.query_one(&format!("SELECT * FROM {} w", version.wal()), &[])?)
    }

    /// Out of a row that has the columns of [`Version::wal`] among others.
    pub fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            records: row.try_get("wal_records")?,
            page_images: row.try_get("wal_fpi")?,
            bytes: row.try_get("wal_bytes")?,
            buffers_full: row.try_get("wal_buffers_full")?,
            counted_seconds: row.try_get("wal_counted_seconds")?,
        })
    }
}
