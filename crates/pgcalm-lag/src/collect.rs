//! Asking the primary.

use anyhow::bail;
use pgcalm_host::Failure;
use pgcalm_postgres::{Client, Version};
use postgres::Row;
use postgres::error::SqlState;
use postgres::types::PgLsn;

use crate::lsn::Lsn;
use crate::model::{Missing, StandbyState, WalStatus};
use crate::reading::{Reading, Sender, Settings, SlotReading};
use crate::versions;

/// Which server answers, and what this role may ask it.
const SERVER: &str = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(), \
     pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), \
     has_function_privilege('pg_ls_waldir()', 'EXECUTE'), current_user::text, current_setting('server_version'), \
     current_setting('cluster_name'), current_setting('port')::int4, extract(epoch FROM clock_timestamp())::float8";

/// Where a standby gets its WAL from.
const UPSTREAM: &str = "SELECT sender_host, sender_port FROM pg_stat_wal_receiver WHERE sender_host IS NOT NULL";

/// Positions of all, by one statement. Those of the primary are read after those of the standbys, so that a standby that has
/// everything can be behind by what was made in between, and is not ahead. At least one row: without walsenders, of nulls.
const POSITIONS: &str = "SELECT r.pid, r.application_name, host(r.client_addr), r.client_port, r.state, r.sync_state, \
     r.sent_lsn, r.write_lsn, r.flush_lsn, r.replay_lsn, \
     extract(epoch FROM r.write_lag)::float8, extract(epoch FROM r.flush_lag)::float8, \
     extract(epoch FROM r.replay_lag)::float8, extract(epoch FROM clock_timestamp() - r.reply_time)::float8, \
     a.wait_event, extract(epoch FROM clock_timestamp())::float8, \
     pg_current_wal_flush_lsn(), pg_current_wal_lsn(), pg_current_wal_insert_lsn() \
     FROM (SELECT) one LEFT JOIN pg_stat_replication r ON r.state IS DISTINCT FROM 'backup' \
     LEFT JOIN pg_stat_activity a USING (pid) ORDER BY r.application_name, r.client_addr, r.client_port, r.pid";

const OLDEST_SEGMENT: &str = "(SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' \
     ORDER BY substr(name, 9), name LIMIT 1)";

/// Those that say how much WAL is kept.
const SETTINGS: [&str; 7] = [
    "wal_segment_size",
    "max_wal_size",
    "wal_keep_size",
    "max_slot_wal_keep_size",
    "idle_replication_slot_timeout",
    "checkpoint_timeout",
    "checkpoint_completion_target",
];

/// Which server it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// `server_version_num`.
    version: i32,
    /// Whether `pg_ls_waldir()` may be called.
    may_list_wal: bool,
    /// The role.
    role: String,
    /// `server_version`.
    pub server_version: String,
    /// `cluster_name`.
    pub cluster_name: String,
    /// `port`.
    pub port: u16,
    /// `clock_timestamp()`, seconds since 1970.
    pub time: f64,
}

/// Asks which server this is, and makes sure that it can be asked for lag.
pub fn server(client: &mut Client) -> anyhow::Result<Server> {
    let row = client.query_one(SERVER, &[]).map_err(query("version and role"))?;
    let server = Server {
        version: row.get(0),
        may_list_wal: row.get(3),
        role: row.get(4),
        server_version: row.get(5),
        cluster_name: row.get(6),
        port: u16::try_from(row.get::<_, i32>(7)).unwrap_or_default(),
        time: row.get(8),
    };
    if row.get(1) {
        bail!(standby(client));
    }
    if !row.get::<_, bool>(2) {
        bail!(Failure::Host(format!(
            "role {:?} may not read pg_stat_replication: GRANT pg_monitor TO it, or connect as a superuser",
            server.role
        )));
    }
    Ok(server)
}

/// Only a primary knows how far standbys are; names the one that this standby receives WAL from.
fn standby(client: &mut Client) -> Failure {
    let primary = client.query_opt(UPSTREAM, &[]).ok().flatten().and_then(|row| {
        let host: Option<String> = row.get(0);
        let port: Option<i32> = row.get(1);
        Some(format!(", which it takes to be at {} port {}", host?, port?))
    });
    Failure::Usage(format!(
        "the server is a standby, and only a primary knows the lag of its standbys: connect to the primary{}",
        primary.unwrap_or_default()
    ))
}

/// Asks for everything.
pub fn read(client: &mut Client) -> anyhow::Result<Reading> {
    let server = server(client)?;
    let reading = read_primary(client, &server);
    let code = reading.as_ref().err().and_then(|error| error.downcast_ref::<QueryFailed>()?.source.code());
    if code == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE) {
        // It became a standby in between.
        bail!(standby(client));
    }
    reading
}

fn read_primary(client: &mut Client, server: &Server) -> anyhow::Result<Reading> {
    let mut reading = state(client, server)?;
    reading.slots = slots(client, server.version)?;
    let rows = client.query(POSITIONS, &[]).map_err(query("positions of the standbys"))?;
    if let Some(row) = rows.first() {
        reading.time = row.get(15);
        reading.flush_lsn = row.get::<_, PgLsn>(16).into();
        reading.write_lsn = row.get::<_, PgLsn>(17).into();
        reading.insert_lsn = row.get::<_, PgLsn>(18).into();
    }
    reading.senders = rows.iter().filter_map(sender).collect();
    if !server.may_list_wal {
        reading.missing.push(Missing {
            what: "oldest WAL segment".to_string(),
            reason: format!("role {:?} may not call pg_ls_waldir(): GRANT pg_monitor TO it", server.role),
        });
    }
    Ok(reading)
}

/// All that is neither a standby nor a slot.
fn state(client: &mut Client, server: &Server) -> anyhow::Result<Reading> {
    let oldest_segment = if server.may_list_wal { OLDEST_SEGMENT } else { "null::text" };
    let version = Version(server.version);
    let (writes, wal) = (version.writes(), version.wal());
    let waits = versions::WAL_WAITS;
    let statement = format!(
        "SELECT s.system_identifier, c.timeline_id, c.redo_lsn, \
         extract(epoch FROM clock_timestamp() - c.checkpoint_time)::float8, \
         (w.checkpoint_write_ms + w.checkpoint_sync_ms) / 1000 / nullif(w.checkpoints_done, 0), \
         l.wal_buffers_full, {oldest_segment}, \
         (SELECT count(*) FROM pg_stat_activity WHERE lower(wait_event) IN ({waits}))::int8, \
         (SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'), \
         (w.checkpoint_write_ms + w.checkpoint_sync_ms) / 1000, w.checkpoints_done \
         FROM pg_control_system() s, pg_control_checkpoint() c, {writes} w, {wal} l"
    );
    let row = client.query_one(&statement, &[]).map_err(query("the last checkpoint"))?;
    let settings = pgcalm_postgres::Settings::read(client, &SETTINGS).map_err(query("settings"))?;
    Ok(Reading {
        cluster: (row.get(0), row.get(1)),
        redo_lsn: row.get::<_, PgLsn>(2).into(),
        checkpoint_age_s: row.get::<_, f64>(3).max(0.0),
        checkpoint_duration_s: row.get(4),
        checkpoints_s: row.get(9),
        checkpoints: row.get(10),
        buffers_full: row.get(5),
        oldest_segment: row.get(6),
        waiting_processes: u32::try_from(row.get::<_, i64>(7)).ok(),
        settings: settings_of(&settings),
        port: server.port,
        walwriter_pid: row.get(8),
        ..Reading::default()
    })
}

/// What those say that [`SETTINGS`] names.
fn settings_of(settings: &pgcalm_postgres::Settings) -> Settings {
    let number = |name: &str| settings.number(name).unwrap_or_default();
    let bytes = |name: &str| number(name) as u64;
    Settings {
        segment_bytes: bytes("wal_segment_size"),
        max_wal_size_bytes: bytes("max_wal_size"),
        wal_keep_size_bytes: bytes("wal_keep_size"),
        max_slot_wal_keep_size_bytes: (number("max_slot_wal_keep_size") >= 0.0)
            .then(|| bytes("max_slot_wal_keep_size")),
        idle_slot_timeout_s: settings.number("idle_replication_slot_timeout").filter(|timeout| *timeout > 0.0),
        checkpoint_timeout_s: number("checkpoint_timeout"),
        checkpoint_completion_target: number("checkpoint_completion_target"),
    }
}

fn slots(client: &mut Client, version: i32) -> anyhow::Result<Vec<SlotReading>> {
    let statement = format!(
        "SELECT slot_name::text, slot_type = 'physical', temporary, active, active_pid, restart_lsn, \
         confirmed_flush_lsn, wal_status, safe_wal_size, {}, {} FROM pg_replication_slots ORDER BY slot_name",
        versions::invalidation_reason(version),
        versions::inactive_seconds(version),
    );
    let rows = client.query(&statement, &[]).map_err(query("replication slots"))?;
    Ok(rows
        .iter()
        .map(|row| SlotReading {
            name: row.get(0),
            physical: row.get(1),
            temporary: row.get(2),
            active: row.get(3),
            active_pid: row.get(4),
            restart_lsn: lsn(row, 5),
            confirmed_flush_lsn: lsn(row, 6),
            wal_status: row.get::<_, Option<&str>>(7).map(wal_status),
            safe_wal_size_bytes: row.get(8),
            invalidation_reason: row.get(9),
            inactive_s: row.get::<_, Option<f64>>(10).map(|age| age.max(0.0)),
        })
        .collect())
}

fn sender(row: &Row) -> Option<Sender> {
    Some(Sender {
        pid: row.get::<_, Option<i32>>(0)?,
        application_name: row.get::<_, Option<String>>(1).unwrap_or_default(),
        client_address: row.get(2),
        // -1 for a Unix socket.
        client_port: row.get::<_, Option<i32>>(3).and_then(|port| u16::try_from(port).ok()),
        state: row.get::<_, Option<&str>>(4).map_or(StandbyState::Other, standby_state),
        sync_state: row.get(5),
        lsn: [lsn(row, 6), lsn(row, 7), lsn(row, 8), lsn(row, 9)],
        server_lag_s: [None, row.get(10), row.get(11), row.get(12)],
        reply_age_s: row.get::<_, Option<f64>>(13).map(|age| age.max(0.0)),
        wait_event: row.get(14),
        disk_read_bytes: None,
        tcp: None,
        interface: None,
    })
}

fn standby_state(name: &str) -> StandbyState {
    match name {
        "startup" => StandbyState::Startup,
        "catchup" => StandbyState::Catchup,
        "streaming" => StandbyState::Streaming,
        "stopping" => StandbyState::Stopping,
        _ => StandbyState::Other,
    }
}

fn wal_status(name: &str) -> WalStatus {
    match name {
        "reserved" => WalStatus::Reserved,
        "extended" => WalStatus::Extended,
        "unreserved" => WalStatus::Unreserved,
        "lost" => WalStatus::Lost,
        _ => WalStatus::Other,
    }
}

fn lsn(row: &Row, column: usize) -> Option<Lsn> {
    row.get::<_, Option<PgLsn>>(column).map(Lsn::from)
}

/// A statement failed, or the connection broke. Complete in itself; details and hints of the server are of no use to who did not write
/// the statement.
#[derive(Debug, thiserror::Error)]
#[error("read {what} from the server: {}", pgcalm_postgres::with_cause(source))]
pub struct QueryFailed {
    what: &'static str,
    /// Why.
    pub source: postgres::Error,
}

fn query(what: &'static str) -> impl FnOnce(postgres::Error) -> QueryFailed {
    move |source| QueryFailed { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_units_of_pg_settings() {
        let settings = settings_of(&pgcalm_postgres::Settings::from_iter([
            ("wal_segment_size", "16777216", Some("B")),
            ("max_wal_size", "1024", Some("MB")),
            ("wal_keep_size", "0", Some("MB")),
            ("max_slot_wal_keep_size", "-1", Some("MB")),
            ("checkpoint_timeout", "300", Some("s")),
            ("checkpoint_completion_target", "0.9", None),
        ]));
        assert_eq!(settings.max_wal_size_bytes, 1 << 30);
        assert_eq!(settings.max_slot_wal_keep_size_bytes, None);
        assert_eq!(settings.checkpoint_timeout_s, 300.0);
        // As CalculateCheckpointSegments has it: 64 / 1.9 = 33.7.
        assert_eq!(settings.trigger_bytes(), 33 << 24);
    }
}
