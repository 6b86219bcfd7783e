use std::collections::BTreeMap;

use pgcalm_postgres::{Client, Version, Writes, module_schema};
use postgres::Row;

use crate::collect::amounts::Amounts;
use crate::connection::Connection;
use crate::facts::{Archiver, BufferWrites, Checkpoints, PgCalm, Server, Setting, Slot, Standby, Wal};

/// The settings that rules look at. Their values go into reports, so no setting that may hold a secret is here but
/// archive_command, whose value is not read.
const SETTINGS: [&str; 34] = [
    "archive_command",
    "archive_library",
    "archive_mode",
    "autovacuum_max_workers",
    "autovacuum_work_mem",
    "bgwriter_flush_after",
    "block_size",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "commit_delay",
    "fsync",
    "full_page_writes",
    "log_checkpoints",
    "maintenance_work_mem",
    "max_slot_wal_keep_size",
    "max_wal_size",
    "pg_calm.bandwidth",
    "pg_calm_guard.max_lag",
    "pg_calm_guard.mode",
    "pg_calm_guard.wal_space",
    "pg_calm.iops",
    "pg_calm.mode",
    "pg_calm.page_map_memory",
    "recovery_init_sync_method",
    "shared_buffers",
    "wal_buffers",
    "wal_compression",
    "wal_keep_size",
    "wal_receiver_timeout",
    "wal_segment_size",
    "wal_sender_timeout",
    "wal_writer_delay",
    "wal_writer_flush_after",
];

/// Reads the server's views.
pub(super) fn read(connection: &mut Connection, missing: &mut Vec<String>) -> anyhow::Result<Server> {
    let client = &mut connection.client;
    let version = Version::read(client)?;
    let row = client.query_one(
        "SELECT pg_is_in_recovery(), extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8",
        &[],
    )?;
    let settings = settings(client)?;
    let writes = Writes::read(client, version)?;
    let mut server = Server {
        version_num: version.0 as u32,
        in_recovery: row.get(0),
        up_seconds: row.get(1),
        system_identifier: connection.system_identifier.clone(),
        data_directory: connection.data_directory.clone(),
        port: connection.port,
        checkpoints: checkpoints(&writes),
        buffers: buffers(&writes),
        wal: wal(&pgcalm_postgres::Wal::read(client, version)?),
        archiver: archiver(pgcalm_postgres::Archiver::read(client)?),
        slots: slots(client)?,
        standbys: standbys(client)?,
        pg_calm: pg_calm(client, &settings)?,
        settings,
        ..Server::default()
    };
    if may(client, "pg_ls_waldir()")? && may(client, "pg_ls_archive_statusdir()")? {
        let row = client.query_one(
            "SELECT (SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()), \
                    count(*), extract(epoch FROM clock_timestamp() - min(modification))::float8 \
             FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'",
            &[],
        )?;
        server.wal.directory_bytes = Some(unsigned(&row, 0));
        server.archiver.ready_files = Some(unsigned(&row, 1));
        server.archiver.oldest_ready_seconds = row.get(2);
        let row = client.query_one(
            "SELECT extract(epoch FROM clock_timestamp() - min(backend_start))::float8 FROM pg_stat_activity \
             WHERE backend_type = 'archiver'",
            &[],
        )?;
        server.archiver.process_seconds = row.get(0);
    } else {
        missing.push(
            "the size of pg_wal and the archive's queue: the role of the connection may not; GRANT pg_monitor to it"
                .to_string(),
        );
    }
    let row = client.query_one(
        "SELECT coalesce(sum(blks_hit), 0)::bigint, coalesce(sum(blks_read), 0)::bigint FROM pg_stat_database",
        &[],
    )?;
    server.blocks_hit = unsigned(&row, 0);
    server.blocks_read = unsigned(&row, 1);
    match Amounts::read(client, version) {
        Ok(amounts) => amounts.store(&mut server),
        Err(error) => missing.push(format!("what a stop would have to write: {}", in_words(&error))),
    }
    // Looks at every file; a server with very many of them may take longer than statement_timeout.
    let size = client.query_one(
        "SELECT sum(pg_database_size(oid))::bigint FROM pg_database WHERE has_database_privilege(oid, 'CONNECT')",
        &[],
    );
    match size {
        Ok(row) => server.database_bytes = row.get::<_, Option<i64>>(0).map(|bytes| bytes as u64),
        Err(error) => missing.push(format!("the size of the databases: {}", in_words(&error))),
    }
    Ok(server)
}

fn settings(client: &mut Client) -> Result<BTreeMap<String, Setting>, postgres::Error> {
    let read = pgcalm_postgres::Settings::read(client, &SETTINGS)?;
    Ok(read
        .into_iter()
        .map(|(name, setting)| {
            let setting = Setting {
                value: setting.value,
                unit: setting.unit,
                context: setting.context,
                source: setting.source,
                values: setting.values,
            };
            (name, setting)
        })
        .collect())
}

fn checkpoints(writes: &Writes) -> Checkpoints {
    Checkpoints {
        timed: writes.checkpoints_timed.max(0) as u64,
        requested: writes.checkpoints_requested.max(0) as u64,
        sync_time_ms: writes.checkpoint_sync_ms,
        seconds: writes.counted_seconds,
    }
}

fn buffers(writes: &Writes) -> BufferWrites {
    BufferWrites {
        checkpointer: writes.buffers_checkpoint.max(0) as u64,
        background_writer: writes.buffers_clean.max(0) as u64,
        backends: writes.buffers_evicted.max(0) as u64,
    }
}

fn wal(wal: &pgcalm_postgres::Wal) -> Wal {
    Wal {
        bytes: wal.bytes.max(0) as u64,
        full_page_images: wal.page_images.max(0) as u64,
        buffers_full: wal.buffers_full.max(0) as u64,
        seconds: wal.counted_seconds,
        directory_bytes: None,
    }
}

fn archiver(archiver: pgcalm_postgres::Archiver) -> Archiver {
    Archiver {
        archived: archiver.archived.max(0) as u64,
        failed: archiver.failed.max(0) as u64,
        last_failed: archiver.is_failing(),
        last_failed_file: archiver.last_failed_file,
        ready_files: None,
        oldest_ready_seconds: None,
        last_archived_seconds: archiver.last_archived_seconds,
        last_failed_seconds: archiver.last_failed_seconds,
        process_seconds: None,
    }
}

fn slots(client: &mut Client) -> anyhow::Result<Vec<Slot>> {
    let rows = client.query(
        // The primary keeps a standby's copy (17), as long as it is in recovery.
        "SELECT slot_name::text, active OR (pg_is_in_recovery() AND coalesce((to_jsonb(s) ->> 'synced')::bool, false)), \
                wal_status, \
                pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
                                     ELSE pg_current_wal_lsn() END, restart_lsn)::bigint \
         FROM pg_replication_slots s ORDER BY slot_name",
        &[],
    )?;
    Ok(rows
        .iter()
        .map(|row| Slot {
            name: row.get(0),
            active: row.get(1),
            wal_status: row.get(2),
            retained_bytes: row.get::<_, Option<i64>>(3).map(|bytes| u64::try_from(bytes).unwrap_or(0)),
        })
        .collect())
}

/// None where the role sees its own sessions only.
fn standbys(client: &mut Client) -> anyhow::Result<Option<Vec<Standby>>> {
    let row = client.query_one("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')", &[])?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let rows = client.query(
        "SELECT r.application_name, s.slot_name::text FROM pg_stat_replication r \
         LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid \
         WHERE r.state <> 'backup' ORDER BY 1, 2",
        &[],
    )?;
    let standby = |row: &Row| Standby { application_name: row.get(0), slot: row.get(1) };
    Ok(Some(rows.iter().map(standby).collect()))
}

fn pg_calm(client: &mut Client, settings: &BTreeMap<String, Setting>) -> anyhow::Result<Option<PgCalm>> {
    // pg_settings shows no placeholders, so the setting is there only if the module has defined it.
    let Some(mode) = settings.get("pg_calm.mode") else { return Ok(None) };
    let mut calm = PgCalm { mode: mode.value.clone(), ..PgCalm::default() };
    if let Some(schema) = module_schema(client)? {
        let row = client.query_one(
            &format!(
                "SELECT degraded, write_iops, write_bandwidth, map_full, \
                 wal_flush_time / 1000 / nullif(wal_flushes, 0) FROM {schema}.pg_calm_status"
            ),
            &[],
        )?;
        calm.has_views = true;
        calm.degraded = row.get(0);
        calm.write_iops = row.get::<_, Option<i64>>(1).map(|value| value as u64);
        calm.write_bandwidth = row.get::<_, Option<i64>>(2).map(|value| value as u64);
        calm.map_full = unsigned(&row, 3);
        calm.wal_flush_seconds = row.get(4);
        let row = client.query_one(
            &format!(
                "SELECT count(*), count(*) FILTER (WHERE reason = 'wal') FROM {schema}.pg_calm_checkpoints \
                 WHERE kind = 'checkpoint' AND status = 'complete'"
            ),
            &[],
        )?;
        calm.checkpoints = unsigned(&row, 0);
        calm.checkpoints_by_wal = unsigned(&row, 1);
    }
    Ok(Some(calm))
}

fn may(client: &mut Client, function: &str) -> anyhow::Result<bool> {
    let row = client.query_one("SELECT has_function_privilege($1::text, 'EXECUTE')", &[&function])?;
    Ok(row.get(0))
}

fn unsigned(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

fn in_words(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_string())
}
