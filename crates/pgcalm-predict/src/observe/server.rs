//! What the server tells: settings, and cumulative statistics.

use std::time::Duration;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_postgres::{Caller, Client, DefaultUser, Session, Version, Wanted, Writes};

use crate::report::Settings;

/// Connects as libpq's connection string says; it may be empty.
pub fn connect(conninfo: &str) -> anyhow::Result<Client> {
    connect_to(&HostRoot::default(), Wanted { connect: Some(conninfo), instance: None })
}

/// Connects to the server that is meant.
pub fn connect_to(root: &HostRoot, wanted: Wanted) -> anyhow::Result<Client> {
    let caller = Caller {
        application_name: "pgcalm predict",
        user: DefaultUser::OperatingSystem,
        connect_timeout: Duration::from_secs(10),
        gives_up: true,
        session: Some(Session::LOOK),
    };
    wanted.connect(root, &caller)
}

/// What is looked at of the server's settings.
const SETTINGS: [&str; 9] = [
    "checkpoint_timeout",
    "checkpoint_completion_target",
    "max_wal_size",
    "full_page_writes",
    "pg_calm.mode",
    "pg_calm.iops",
    "pg_calm.bandwidth",
    "pg_calm.bridge",
    "block_size",
];

/// Reads them.
pub(super) fn settings(client: &mut Client) -> anyhow::Result<pgcalm_postgres::Settings> {
    pgcalm_postgres::Settings::read(client, &SETTINGS).context("read the server's settings")
}

/// Those that the report shows.
pub(super) fn shown_settings(settings: &pgcalm_postgres::Settings) -> Settings {
    let number = |name: &str| settings.number(name).unwrap_or(0.0);
    let on = |name: &str| settings.is_on(name).unwrap_or(true);
    Settings {
        checkpoint_timeout_s: number("checkpoint_timeout"),
        checkpoint_completion_target: number("checkpoint_completion_target"),
        max_wal_bytes: number("max_wal_size") as u64,
        full_page_writes: on("full_page_writes"),
        bridge: on("pg_calm.bridge"),
        page_bytes: number("block_size") as u64,
    }
}

/// Cumulative statistics that tell what is written; since they were reset.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Statistics {
    /// Committed and rolled back, of all databases.
    pub transactions: f64,
    /// Pages that the checkpointer wrote.
    pub checkpointer_pages: f64,
    /// Pages that the background writer wrote.
    pub background_writer_pages: f64,
    /// Pages that other processes wrote, extensions of files included.
    pub backend_pages: f64,
    /// Writes of WAL.
    pub wal_writes: f64,
    /// Position of WAL, written or received.
    pub wal_bytes: f64,
    /// Whether it is a standby, or recovers from a backup.
    pub in_recovery: bool,
    /// Checkpoints and restartpoints that were begun, whoever asked for them.
    pub checkpoints: f64,
}

impl Statistics {
    /// Reads `pg_stat_database`, `pg_stat_bgwriter` and their successors, and the WAL position.
    pub fn read(client: &mut Client) -> anyhow::Result<Self> {
        let version = Version::read(client)?;
        let row = client
            .query_one(
                &format!(
                    "select (select sum(xact_commit + xact_rollback) from pg_stat_database)::float8 as transactions,
                            b.*, w.wal_writes::float8, pg_is_in_recovery() as in_recovery,
                            pg_wal_lsn_diff(
                                case when pg_is_in_recovery()
                                     then coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')
                                     else pg_current_wal_insert_lsn() end,
                                '0/0')::float8 as position
                     from {} b, {} w",
                    version.writes(),
                    version.wal()
                ),
                &[],
            )
            .context("read pg_stat_database, pg_stat_bgwriter and the WAL position")?;
        let writes = Writes::of(&row)?;
        Ok(Self {
            transactions: row.get("transactions"),
            checkpointer_pages: writes.buffers_checkpoint as f64,
            background_writer_pages: writes.buffers_clean as f64,
            backend_pages: writes.buffers_backend as f64,
            checkpoints: (writes.checkpoints_timed + writes.checkpoints_requested) as f64,
            wal_writes: row.get("wal_writes"),
            wal_bytes: row.get("position"),
            in_recovery: row.get("in_recovery"),
        })
    }

    /// Whether what was added since `earlier` is known, and of one kind: a primary's, or a standby's.
    pub(super) fn check_since(&self, earlier: &Self) -> anyhow::Result<()> {
        if self.in_recovery != earlier.in_recovery {
            anyhow::bail!("the server was promoted while it was looked at: look at it again");
        }
        // Transactions of a database that is dropped go with it.
        let counters: [fn(&Self) -> f64; 5] = [
            |at| at.checkpointer_pages,
            |at| at.background_writer_pages,
            |at| at.backend_pages,
            |at| at.wal_writes,
            |at| at.checkpoints,
        ];
        if counters.iter().any(|counter| counter(self) < counter(earlier)) {
            anyhow::bail!("the server's statistics were reset while it was looked at: look at it again");
        }
        Ok(())
    }

    /// What was added since `earlier`; nothing where statistics were reset.
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |now: f64, then: f64| (now - then).max(0.0);
        Self {
            transactions: added(self.transactions, earlier.transactions),
            checkpointer_pages: added(self.checkpointer_pages, earlier.checkpointer_pages),
            background_writer_pages: added(self.background_writer_pages, earlier.background_writer_pages),
            backend_pages: added(self.backend_pages, earlier.backend_pages),
            wal_writes: added(self.wal_writes, earlier.wal_writes),
            wal_bytes: added(self.wal_bytes, earlier.wal_bytes),
            in_recovery: self.in_recovery,
            checkpoints: added(self.checkpoints, earlier.checkpoints),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_standby_and_a_primary_have_written_is_not_taken_together() {
        let standby = Statistics { in_recovery: true, ..Statistics::default() };
        assert!(standby.check_since(&standby).is_ok());
        let error = Statistics::default().check_since(&standby).unwrap_err().to_string();
        assert!(error.contains("promoted"), "{error}");
    }

    #[test]
    fn statistics_that_were_reset_are_not_taken_for_nothing_written() {
        let earlier = Statistics { transactions: 9.0, backend_pages: 9.0, ..Statistics::default() };
        assert!(Statistics { transactions: 1.0, ..earlier }.check_since(&earlier).is_ok());
        let error = Statistics { backend_pages: 1.0, ..earlier }.check_since(&earlier).unwrap_err().to_string();
        assert!(error.contains("reset"), "{error}");
    }
}
