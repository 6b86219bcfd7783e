//! WAL that was generated.

use crate::Client;
use postgres::{Error, Row};

use crate::Version;

impl Version {
    /// Subquery for [`Wal`], which has `wal_writes` and `wal_syncs` as well.
    ///
    /// PostgreSQL 18 moved these two to `pg_stat_io`; before 14 nothing of it was counted, and all is null.
    pub fn wal(self) -> &'static str {
        match self.major() {
            ..=13 => {
                "(SELECT null::int8 AS wal_writes, null::int8 AS wal_syncs, null::int8 AS wal_records, \
                 null::int8 AS wal_fpi, null::int8 AS wal_bytes, null::int8 AS wal_buffers_full, \
                 null::float8 AS wal_counted_seconds)"
            }
            14..=17 => {
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

/// WAL that was generated since its statistics were reset; all 0 before PostgreSQL 14, which counts none.
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
        let count = |name| row.try_get::<_, Option<i64>>(name).map(Option::unwrap_or_default);
        Ok(Self {
            records: count("wal_records")?,
            page_images: count("wal_fpi")?,
            bytes: count("wal_bytes")?,
            buffers_full: count("wal_buffers_full")?,
            counted_seconds: row.try_get("wal_counted_seconds")?,
        })
    }
}
