//! What a stop or recovery would have to do, which changes from look to look.

use pgcalm_postgres::estimate::BUFFERCACHE_SCHEMA;
use pgcalm_postgres::{Client, Version, Writes, extension_schema, module_schema};

use crate::facts::Server;

/// What a server tells at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Amounts {
    /// Dirty shared buffers; none if nobody counts them.
    pub dirty_buffers: Option<u64>,
    /// `pg_calm_status.stop_seconds`.
    pub stop_seconds: Option<f64>,
    /// `pg_calm_status.replay_rate`.
    pub replay_rate: Option<f64>,
    /// WAL since the redo point.
    pub wal_since_redo_bytes: Option<u64>,
    /// Where a standby would begin to replay; none on a primary.
    pub restart_point: Option<i64>,
    /// Buffers that others than the checkpointer have written since statistics were reset.
    pub other_writes: u64,
    /// Whether some of these may not have been told yet.
    pub writes_are_late: bool,
}

impl Amounts {
    /// Asks pg_calm, else pg_buffercache: its summary (16 on), which takes no locks, or the view, which takes that of each buffer's header
    /// for a moment.
    pub(crate) fn read(client: &mut Client, version: Version) -> Result<Self, postgres::Error> {
        let writes = Writes::read(client, version)?;
        let row = client.query_one(
            &format!(
                "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
                                             ELSE pg_current_wal_insert_lsn() END, redo_lsn)::int8, \
                        {BUFFERCACHE_SCHEMA}, {}, \
                        EXISTS (SELECT FROM pg_settings WHERE name = 'pg_calm.mode'), \
                        CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(redo_lsn, '0/0')::int8 END \
                 FROM pg_control_checkpoint()",
                extension_schema("pg_buffercache")
            ),
            &[],
        )?;
        let unsigned = |value: Option<i64>| value.map(|value| value.max(0) as u64);
        let mut amounts = Self {
            wal_since_redo_bytes: unsigned(row.get(0)),
            restart_point: row.get(4),
            other_writes: (writes.buffers_clean + writes.buffers_backend).max(0) as u64,
            writes_are_late: Writes::are_late(client, version)?,
            ..Self::default()
        };
        let module = if row.get(3) { module_schema(client)? } else { None };
        let (summary, view): (Option<String>, Option<String>) = (row.get(1), row.get(2));
        if let Some(schema) = module {
            let sql = format!("SELECT dirty_buffers, stop_seconds, replay_rate::float8 FROM {schema}.pg_calm_status");
            let row = client.query_one(&sql, &[])?;
            amounts.dirty_buffers = unsigned(row.get(0));
            amounts.stop_seconds = row.get(1);
            amounts.replay_rate = row.get(2);
        } else if let Some(schema) = summary {
            let sql = format!("SELECT buffers_dirty::int8 FROM {schema}.pg_buffercache_summary()");
            amounts.dirty_buffers = unsigned(client.query_one(&sql, &[])?.get(0));
        } else if let Some(schema) = view {
            // In no literal: a schema's name may have quotes, and its owner renames it.
            let may = "SELECT has_table_privilege($1::text, 'SELECT')";
            if client.query_one(may, &[&format!("{schema}.pg_buffercache")])?.get(0) {
                let sql = format!("SELECT count(*) FILTER (WHERE isdirty) FROM {schema}.pg_buffercache");
                amounts.dirty_buffers = unsigned(client.query_one(&sql, &[])?.get(0));
            }
        }
        Ok(amounts)
    }

    /// Puts them among the facts.
    pub(crate) fn store(&self, server: &mut Server) {
        server.dirty_buffers = self.dirty_buffers;
        server.wal_since_redo_bytes = self.wal_since_redo_bytes;
        if let Some(calm) = &mut server.pg_calm {
            calm.stop_seconds = self.stop_seconds;
            calm.replay_bytes_per_second = self.replay_rate;
        }
    }
}
