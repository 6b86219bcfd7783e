//! What differs between server versions.

/// A version as server_version_num has it, e.g. 150020.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32);

/// Oldest major version whose views are known. Newer ones than are known are tried.
pub const OLDEST: i32 = 15;

impl Version {
    /// E.g. 15.
    pub fn major(self) -> i32 {
        self.0 / 10_000
    }

    /// One row with `checkpoints_timed`, `checkpoints_requested`, `checkpoint_write_seconds`, `checkpoint_sync_seconds`,
    /// `buffers_checkpoint`, `buffers_clean` and `buffers_backend`.
    ///
    /// PostgreSQL 17 moved the checkpointer's figures to pg_stat_checkpointer, where restartpoints are counted apart, and
    /// left writes of backends to pg_stat_io; 18 counts bytes there. `buffers_backend` had writes and extensions.
    pub fn writes_query(self) -> &'static str {
        match self.major() {
            ..=16 => {
                "SELECT checkpoints_timed, checkpoints_req AS checkpoints_requested, \
                 checkpoint_write_time / 1000 AS checkpoint_write_seconds, \
                 checkpoint_sync_time / 1000 AS checkpoint_sync_seconds, \
                 buffers_checkpoint, buffers_clean, buffers_backend FROM pg_stat_bgwriter"
            }
            17 => {
                "SELECT num_timed + restartpoints_timed AS checkpoints_timed, \
                 num_requested + restartpoints_req AS checkpoints_requested, \
                 write_time / 1000 AS checkpoint_write_seconds, sync_time / 1000 AS checkpoint_sync_seconds, \
                 buffers_written AS buffers_checkpoint, (SELECT buffers_clean FROM pg_stat_bgwriter), \
                 (SELECT coalesce(sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes) \
                 / current_setting('block_size')::int8, 0)::int8 FROM pg_stat_io WHERE object = 'relation' \
                 AND backend_type NOT IN ('checkpointer', 'background writer')) AS buffers_backend \
                 FROM pg_stat_checkpointer"
            }
            18.. => {
                "SELECT num_timed + restartpoints_timed AS checkpoints_timed, \
                 num_requested + restartpoints_req AS checkpoints_requested, \
                 write_time / 1000 AS checkpoint_write_seconds, sync_time / 1000 AS checkpoint_sync_seconds, \
                 buffers_written AS buffers_checkpoint, (SELECT buffers_clean FROM pg_stat_bgwriter), \
                 (SELECT coalesce(sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) \
                 / current_setting('block_size')::int8, 0)::int8 FROM pg_stat_io WHERE object = 'relation' \
                 AND backend_type NOT IN ('checkpointer', 'background writer')) AS buffers_backend \
                 FROM pg_stat_checkpointer"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_major_version_is_the_first_digits() {
        assert_eq!(Version(150_020).major(), 15);
        assert_eq!(Version(180_001).major(), 18);
        assert!(Version(160_004).writes_query().contains("buffers_backend"));
        assert!(Version(190_000).writes_query().contains("write_bytes"));
    }
}
