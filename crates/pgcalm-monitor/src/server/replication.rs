//! Who is behind, and by how much.

use postgres::Error;

use crate::model::Replication;
use crate::model::ServerRole;
use crate::model::Slot;
use crate::model::Standby;
use crate::model::WalReceiver;
use crate::server::session::Columns;
use crate::server::session::Session;

/// Where the WAL of this server ends: a cascading standby sends what it has replayed or received.
const END: &str = "CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
                   ELSE pg_current_wal_lsn() END";

const RECEIVER: &str = "SELECT (SELECT status FROM pg_stat_wal_receiver) AS status, \
    pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::int8 AS replay_bytes, \
    CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 ELSE \
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END::float8 AS replay_seconds";

/// Asks for all.
pub fn ask(session: &mut Session, role: ServerRole) -> Result<Replication, Error> {
    Ok(Replication {
        standbys: standbys(session)?,
        slots: slots(session)?,
        receiver: match role {
            ServerRole::Primary => None,
            ServerRole::Standby => Some(receiver(session)?),
        },
    })
}

fn standbys(session: &mut Session) -> Result<Vec<Standby>, Error> {
    let sql = format!(
        "SELECT coalesce(application_name, '') AS name, coalesce(state, '') AS state, \
         coalesce(sync_state, '') AS sync_state, \
         pg_wal_lsn_diff(e.lsn, sent_lsn)::int8 AS sent, pg_wal_lsn_diff(e.lsn, write_lsn)::int8 AS write, \
         pg_wal_lsn_diff(e.lsn, flush_lsn)::int8 AS flush, pg_wal_lsn_diff(e.lsn, replay_lsn)::int8 AS replay, \
         extract(epoch FROM write_lag)::float8 AS write_lag, extract(epoch FROM flush_lag)::float8 AS flush_lag, \
         extract(epoch FROM replay_lag)::float8 AS replay_lag \
         FROM pg_stat_replication, (SELECT {END} AS lsn) e ORDER BY 1, pid"
    );
    session
        .rows(&sql)?
        .iter()
        .map(|row| {
            Ok(Standby {
                name: row.text("name")?.unwrap_or_default(),
                state: row.text("state")?.unwrap_or_default(),
                sync_state: row.text("sync_state")?.unwrap_or_default(),
                sent_lag_bytes: row.count("sent")?,
                write_lag_bytes: row.count("write")?,
                flush_lag_bytes: row.count("flush")?,
                replay_lag_bytes: row.count("replay")?,
                write_lag_seconds: row.number("write_lag")?,
                flush_lag_seconds: row.number("flush_lag")?,
                replay_lag_seconds: row.number("replay_lag")?,
            })
        })
        .collect()
}

fn slots(session: &mut Session) -> Result<Vec<Slot>, Error> {
    let sql = format!(
        "SELECT slot_name::text AS name, active, wal_status, \
         pg_wal_lsn_diff(e.lsn, restart_lsn)::int8 AS retained \
         FROM pg_replication_slots, (SELECT {END} AS lsn) e ORDER BY 1"
    );
    session
        .rows(&sql)?
        .iter()
        .map(|row| {
            Ok(Slot {
                name: row.text("name")?.unwrap_or_default(),
                active: row.flag("active")?,
                wal_status: row.text("wal_status")?,
                retained_bytes: row.count("retained")?,
            })
        })
        .collect()
}

fn receiver(session: &mut Session) -> Result<WalReceiver, Error> {
    let rows = session.rows(RECEIVER)?;
    let row = &rows[0];
    Ok(WalReceiver {
        status: row.text("status")?,
        replay_lag_bytes: row.count("replay_bytes")?,
        replay_lag_seconds: row.number("replay_seconds")?,
    })
}
