--
-- The views pg_calm_checkpoints, pg_calm_checkpoint_files and pg_calm_io_histogram, and
-- pg_calm_reset
--
CREATE EXTENSION pg_calm;

-- columns, their types and comments: a contract with monitoring
SELECT c.relname AS view, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
       col_description(c.oid, a.attnum) IS NOT NULL AS commented
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relname IN ('pg_calm_checkpoints', 'pg_calm_checkpoint_files', 'pg_calm_io_histogram') AND a.attnum > 0
 ORDER BY c.relname, a.attnum;
SELECT obj_description(c.oid, 'pg_class') FROM pg_class c
 WHERE relname IN ('pg_calm_checkpoints', 'pg_calm_checkpoint_files', 'pg_calm_io_histogram') ORDER BY relname;
SELECT obj_description('pg_calm_reset()'::regprocedure, 'pg_proc');

-- one row for each checkpoint
SELECT pg_calm_reset();
CREATE TABLE calm_table AS SELECT i, repeat('x', 200) FROM generate_series(1, 10000) i;
CHECKPOINT;
SELECT kind, reason, flags, status, mode FROM pg_calm_checkpoints;
SELECT ended >= started AS order,
       total_time >= slots_time + clog_time + subtrans_time + multixact_time + other_slru_time
                     + buffer_scan_time + write_time + sync_time + end_time - 0.1 AS sum,
       buffers_dirty >= buffers_written AND buffers_written > 50 AS buffers,
       bridged_pages >= 0 AND device_operations > 0 AS device,
       unflushed_pages_at_sync >= 0 AS unflushed, undrained_pages IS NULL = (drain_time IS NULL) AS drain,
       files_synced > 0 AS files, slowest_file ~ '^(base/\d+|global|pg_\w+)/' AS slowest,
       slowest_file_time <= fsync_time AND fsync_time <= sync_time AS slowest_time
  FROM pg_calm_checkpoints;
-- and one for each of its files
SELECT count(DISTINCT f.checkpoint) = 1 AS checkpoint, sum(f.fsyncs) = min(c.files_synced) AS fsyncs,
       abs(sum(f.fsync_time) - min(c.fsync_time)) < 0.1 AS fsync_time,
       max(f.fsync_time) FILTER (WHERE f.file = c.slowest_file) >= min(c.slowest_file_time) AS slowest,
       sum(f.flush_hints) > 0 AS hints, sum(f.flush_hint_time) > 0 AS hint_time
  FROM pg_calm_checkpoint_files f JOIN pg_calm_checkpoints c ON c.id = f.checkpoint;
SELECT scope, backend_type, operation, sampled_every, sum(count) > 0 AS counted
  FROM pg_calm_io_histogram
 WHERE (backend_type, operation) IN (('checkpointer', 'fsync'), ('checkpointer', 'write'))
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3;
-- buckets are powers of two and each has one row
SELECT count(*) FROM pg_calm_io_histogram
 WHERE upper_bound <> greatest(2 * lower_bound, 1) OR count <= 0;
SELECT scope, backend_type, operation, lower_bound FROM pg_calm_io_histogram
 GROUP BY 1, 2, 3, 4 HAVING count(*) > 1;

-- privileges
CREATE ROLE regress_calm_nobody;
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_checkpoints;
SELECT count(*) FROM pg_calm_checkpoint_files;
SELECT count(*) FROM pg_calm_io_histogram;
SELECT count(*) FROM pg_calm_checkpoints();
SELECT count(*) FROM pg_calm_checkpoint_files();
SELECT count(*) FROM pg_calm_checkpoint_file_calls();
SELECT count(*) FROM pg_calm_io_histogram();
SELECT pg_calm_reset();
SET ROLE regress_calm_monitor;
SELECT count(*) FROM pg_calm_checkpoints;
SELECT count(*) > 0 AS files FROM pg_calm_checkpoint_files;
SELECT count(*) > 0 AS buckets FROM pg_calm_io_histogram;
SELECT pg_calm_reset();
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_calm_reset() TO regress_calm_nobody;
SET ROLE regress_calm_nobody;
SELECT pg_calm_reset();
RESET ROLE;

-- reset
SELECT count(*) FROM pg_calm_checkpoints;
SELECT count(*) FROM pg_calm_checkpoint_files;
SELECT count(*) FROM pg_calm_io_histogram WHERE scope = 'checkpoint';
SELECT count(*) FROM pg_calm_io_histogram WHERE backend_type = 'checkpointer';
CHECKPOINT;
SELECT count(*) FROM pg_calm_checkpoints;

DROP OWNED BY regress_calm_nobody;
DROP EXTENSION pg_calm;
DROP TABLE calm_table;
DROP ROLE regress_calm_nobody;
DROP ROLE regress_calm_monitor;
