--
-- The wait before flushes of WAL: view and setting
--
CREATE EXTENSION pg_calm;
SELECT attname, format_type(atttypid, atttypmod) AS type, col_description(attrelid, attnum) <> '' AS described
  FROM pg_attribute
 WHERE attrelid = 'pg_calm_wal'::regclass AND attnum > 0
 ORDER BY attnum;

-- nobody waits unless it is asked for
SELECT state, reason, delay, proposed_delay, commits_per_flush, waits, wait_time, trials, operations_saved FROM pg_calm_wal;
SELECT flushes > 0 AS flushed FROM pg_calm_wal;

SHOW pg_calm.commit_delay;
SET pg_calm.commit_delay = 'auto';
SET pg_calm.commit_delay = 'OFF';
SET pg_calm.commit_delay = 100000;
SET pg_calm.commit_delay = 0;
SET pg_calm.commit_delay = 100001;
SET pg_calm.commit_delay = -1;
SET pg_calm.commit_delay = 'on';
SET pg_calm.commit_delay = '1ms';
SHOW pg_calm.commit_delay;

-- for those who monitor; and whoever commits can't change it
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
CREATE ROLE regress_calm_nobody;
SET ROLE regress_calm_monitor;
SELECT count(*) FROM pg_calm_wal;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_wal;
SET pg_calm.commit_delay = off;
RESET ROLE;
DROP ROLE regress_calm_monitor;
DROP ROLE regress_calm_nobody;
DROP EXTENSION pg_calm;
