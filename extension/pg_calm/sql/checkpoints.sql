--
-- The view pg_calm_checkpoints
--
CREATE EXTENSION pg_calm;

-- columns, their types and comments: a contract with monitoring
SELECT a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
       col_description(c.oid, a.attnum) IS NOT NULL AS commented
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relname = 'pg_calm_checkpoints' AND a.attnum > 0
 ORDER BY a.attnum;
SELECT obj_description('pg_calm_checkpoints'::regclass, 'pg_class');

-- one row for each checkpoint
CREATE TABLE calm_table AS SELECT i, repeat('x', 200) FROM generate_series(1, 10000) i;
SELECT coalesce(max(id), 0) AS before FROM pg_calm_checkpoints \gset
CHECKPOINT;
SELECT id - :before AS row, kind, reason, status FROM pg_calm_checkpoints WHERE id > :before;
SELECT extract(epoch FROM ended - started) * 1000 >= write_time + sync_time - 0.1 AS sum,
       buffers_written > 50 AS buffers, bridged_pages >= 0 AS bridged,
       unflushed_pages_at_sync >= 0 AS unflushed, drain_time IS NULL AS drain,
       files_synced > 0 AS files, slowest_file ~ '^(base/\d+|global|pg_\w+)/' AS slowest,
       slowest_file_time <= fsync_time AND fsync_time <= sync_time AS slowest_time
  FROM pg_calm_checkpoints WHERE id > :before;

-- privileges
CREATE ROLE regress_calm_nobody;
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_checkpoints;
SELECT count(*) FROM pg_calm_checkpoints();
SET ROLE regress_calm_monitor;
SELECT count(*) > 0 AS reports FROM pg_calm_checkpoints;
RESET ROLE;

DROP EXTENSION pg_calm;
DROP TABLE calm_table;
DROP ROLE regress_calm_nobody;
DROP ROLE regress_calm_monitor;
