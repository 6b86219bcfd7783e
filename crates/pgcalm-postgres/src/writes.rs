//! Who wrote buffers, and checkpoints.

use crate::Client;
use postgres::{Error, Row};

use crate::Version;

/// Writes of relations by all but the checkpointer and the background writer.
const BY_OTHERS: &str = "object = 'relation' AND backend_type NOT IN ('checkpointer', 'background writer')";

impl Version {
    /// Subquery for [`Writes`].
    ///
    /// PostgreSQL 17 moved the checkpointer's figures to `pg_stat_checkpointer`, where restartpoints are counted apart, and left
    /// writes of backends to `pg_stat_io`. There `extends` is null for what never extends, such as scans; up to 17 both
    /// count blocks, in 18 calls, which may write many blocks.
    pub fn writes(self) -> String {
        let evicted = match self.major() {
            ..=15 => "buffers_backend".to_string(),
            16 | 17 => format!(
                "(SELECT coalesce(sum(writes), 0)::int8 FROM pg_stat_io WHERE context = 'normal' AND {BY_OTHERS})"
            ),
            18.. => format!(
                "(SELECT (coalesce(sum(write_bytes), 0) / current_setting('block_size')::int8)::int8 \
                 FROM pg_stat_io WHERE context = 'normal' AND {BY_OTHERS})"
            ),
        };
        let (done, written) = match self.major() {
            ..=16 => {
                return format!(
                    "(SELECT checkpoints_timed, checkpoints_req AS checkpoints_requested, \
                     checkpoints_timed + checkpoints_req AS checkpoints_done, checkpoint_write_time AS checkpoint_write_ms, \
                     checkpoint_sync_time AS checkpoint_sync_ms, buffers_checkpoint, buffers_clean, buffers_backend, \
                     {evicted} AS buffers_evicted, \
                     extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS counted_seconds FROM pg_stat_bgwriter)"
                );
            }
            17 => (
                "num_timed + num_requested",
                "coalesce(sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes), 0)",
            ),
            18.. => ("num_done", "coalesce(sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)), 0)"),
        };
        format!(
            "(SELECT num_timed + restartpoints_timed AS checkpoints_timed, \
             num_requested + restartpoints_req AS checkpoints_requested, {done} + restartpoints_done AS checkpoints_done, \
             write_time AS checkpoint_write_ms, sync_time AS checkpoint_sync_ms, buffers_written AS buffers_checkpoint, \
             (SELECT buffers_clean FROM pg_stat_bgwriter), \
             (SELECT ({written} / current_setting('block_size')::int8)::int8 FROM pg_stat_io WHERE {BY_OTHERS}) \
             AS buffers_backend, {evicted} AS buffers_evicted, \
             extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS counted_seconds FROM pg_stat_checkpointer)"
        )
    }
}

/// Who wrote buffers, and checkpoints: a row of [`Version::writes`], whose columns have the fields' names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Writes {
    /// Checkpoints and restartpoints begun by time.
    pub checkpoints_timed: i64,
    /// Those begun on demand.
    pub checkpoints_requested: i64,
    /// Those done. Before 18 checkpoints, before 17 restartpoints, too, are counted when they begin.
    pub checkpoints_done: i64,
    /// Time of their writing.
    pub checkpoint_write_ms: f64,
    /// Time of their syncing.
    pub checkpoint_sync_ms: f64,
    /// Blocks that the checkpointer wrote.
    pub buffers_checkpoint: i64,
    /// Blocks that the background writer wrote.
    pub buffers_clean: i64,
    /// Blocks that all others wrote, extensions of files included.
    pub buffers_backend: i64,
    /// Those of them that were evicted from shared buffers, without extensions and bulk writes, which have rings of their own.
    /// Before 16 they are not told apart.
    pub buffers_evicted: i64,
    /// Since the checkpointer's figures were reset; none if never.
    pub counted_seconds: Option<f64>,
}

impl Writes {
    /// Asks the server for this alone.
    pub fn read(client: &mut Client, version: Version) -> Result<Self, Error> {
        Self::of(&client.query_one(&format!("SELECT * FROM {} w", version.writes()), &[])?)
    }

    /// Out of a row that has these columns among others.
    pub fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            checkpoints_timed: row.try_get("checkpoints_timed")?,
            checkpoints_requested: row.try_get("checkpoints_requested")?,
            checkpoints_done: row.try_get("checkpoints_done")?,
            checkpoint_write_ms: row.try_get("checkpoint_write_ms")?,
            checkpoint_sync_ms: row.try_get("checkpoint_sync_ms")?,
            buffers_checkpoint: row.try_get("buffers_checkpoint")?,
            buffers_clean: row.try_get("buffers_clean")?,
            buffers_backend: row.try_get("buffers_backend")?,
            buffers_evicted: row.try_get("buffers_evicted")?,
            counted_seconds: row.try_get("counted_seconds")?,
        })
    }

    /// Whether `buffers_backend` may lack what others have written, for longer than a few seconds. Since 17 it is out of the
    /// cumulative statistics, which a process brings up to date between transactions, once a second at most (PostgreSQL's manual,
    /// "Viewing Statistics"). So it lacks what transactions have written that are open for five seconds; what recovery writes; and
    /// what nobody can know of sessions that the role may not see.
    pub fn are_late(client: &mut Client, version: Version) -> Result<bool, Error> {
        if version.major() < 17 {
            return Ok(false);
        }
        let sql = "SELECT pg_is_in_recovery() OR EXISTS (SELECT FROM pg_stat_activity \
                   WHERE application_name NOT LIKE 'pgcalm %' \
                     AND (datid IS NOT NULL AND backend_type IS NULL \
                          OR clock_timestamp() - xact_start > interval '5 seconds'))";
        client.query_one(sql, &[])?.try_get(0)
    }
}
