//! Counters, role and WAL position: one statement.

use pgcalm_postgres::{Version, Writes};
use postgres::Error;

use crate::model::{Counters, ServerRole};
use crate::server::session::{Columns, Session};

/// What one statement tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Core {
    /// Primary or standby.
    pub role: ServerRole,
    /// Counters.
    pub counters: Counters,
    /// WAL since the redo point of the last complete checkpoint, once pg_control was asked.
    pub wal_since_redo_bytes: Option<u64>,
    /// Since the last complete checkpoint began, once pg_control was asked.
    pub checkpoint_seconds: Option<f64>,
}

/// What has gone from sums over databases, as with one that was dropped, and from the position, as where replay begins anew: a counter
/// that falls is taken for one that has begun anew, and all that is left of it for new.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Gone {
    last: [u64; 7],
    gone: [u64; 7],
}

impl Gone {
    /// Adds it to what was read.
    pub(super) fn add_to(&mut self, counters: &mut Counters) {
        let Counters { commits, rollbacks, deadlocks, temporary_bytes, sessions, blocks_read, .. } = counters;
        let position = &mut counters.wal_position_bytes;
        let sums = [commits, rollbacks, deadlocks, temporary_bytes, sessions, blocks_read, position];
        for ((sum, last), gone) in sums.into_iter().zip(&mut self.last).zip(&mut self.gone) {
            *gone += last.saturating_sub(*sum);
            *last = *sum;
            *sum += *gone;
        }
    }
}

/// Asks for all.
pub(super) fn ask(session: &mut Session, version: Version) -> Result<Core, Error> {
    let sql = format!(
        "SELECT d.*, w.wal_fpi, b.*, l.standby, pg_wal_lsn_diff(l.position, '0/0')::int8 AS position \
         FROM (SELECT sum(xact_commit)::int8 AS commits, sum(xact_rollback)::int8 AS rollbacks, \
         sum(deadlocks)::int8 AS deadlocks, sum(temp_bytes)::int8 AS temp_bytes, \
         sum(sessions)::int8 AS sessions, sum(blks_read)::int8 AS blocks_read FROM pg_stat_database) d, \
         {} w, {} b, \
         (SELECT pg_is_in_recovery() AS standby, CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
         ELSE pg_current_wal_insert_lsn() END AS position) l",
        version.wal(),
        version.writes()
    );
    let rows = session.rows(&sql)?;
    let row = &rows[0];
    let count = |name| row.count(name).map(Option::unwrap_or_default);
    let writes = Writes::of(row)?;
    let unsigned = |count: i64| count.max(0) as u64;
    Ok(Core {
        role: if row.flag("standby")? { ServerRole::Standby } else { ServerRole::Primary },
        counters: Counters {
            commits: count("commits")?,
            rollbacks: count("rollbacks")?,
            wal_position_bytes: count("position")?,
            wal_full_page_images: count("wal_fpi")?,
            buffers_written_by_checkpoints: unsigned(writes.buffers_checkpoint),
            buffers_written_by_background_writer: unsigned(writes.buffers_clean),
            buffers_written_by_backends: unsigned(writes.buffers_backend),
            checkpoints_timed: unsigned(writes.checkpoints_timed),
            checkpoints_requested: unsigned(writes.checkpoints_requested),
            checkpoint_write_seconds: writes.checkpoint_write_ms / 1000.0,
            checkpoint_sync_seconds: writes.checkpoint_sync_ms / 1000.0,
            deadlocks: count("deadlocks")?,
            temporary_bytes: count("temp_bytes")?,
            sessions: count("sessions")?,
            blocks_read: count("blocks_read")?,
        },
        wal_since_redo_bytes: None,
        checkpoint_seconds: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_dropped_takes_nothing_from_a_counter() {
        let mut gone = Gone::default();
        let told = [100, 80, 90, 5].map(|commits| {
            let mut counters = Counters { commits, deadlocks: 3, ..Counters::default() };
            gone.add_to(&mut counters);
            (counters.commits, counters.deadlocks)
        });
        assert_eq!(told, [(100, 3), (100, 3), (110, 3), (110, 3)]);
    }

    #[test]
    fn a_position_that_falls_is_no_counter_that_began_anew() {
        let mut gone = Gone::default();
        let told = [5000, 4000, 4500].map(|wal_position_bytes| {
            let mut counters = Counters { wal_position_bytes, ..Counters::default() };
            gone.add_to(&mut counters);
            counters.wal_position_bytes
        });
        assert_eq!(told, [5000, 5000, 5500]);
    }
}
