--
-- The guard's views and settings
--
CREATE EXTENSION pg_calm_guard;
SELECT name, boot_val, unit, min_val, max_val, enumvals, vartype, context
  FROM pg_settings WHERE name LIKE 'pg\_calm\_guard.%' ORDER BY name;
SELECT name FROM pg_settings
 WHERE name LIKE 'pg\_calm\_guard.%' AND (short_desc = '' OR short_desc NOT LIKE '%.');
SELECT attrelid::regclass AS view, attname, format_type(atttypid, atttypmod) AS type,
       col_description(attrelid, attnum) <> '' AS described
  FROM pg_attribute
 WHERE attrelid IN ('pg_calm_guard'::regclass, 'pg_calm_guard_holds'::regclass) AND attnum > 0
 ORDER BY attrelid::regclass::text, attnum;

-- in shadow, space for WAL is looked at; the rest if it is asked for
SELECT input, state, object, unit, value, value_limit, drain_rate, allowed_rate, binding, total_allowed_rate, holds,
       held_time, releases, behind_since, full_at
  FROM pg_calm_guard WHERE input <> 'wal_space';
SELECT holds, held_time, releases, behind_since, full_at FROM pg_calm_guard WHERE input = 'wal_space';
SELECT * FROM pg_calm_guard_holds;

-- limits of lag
ALTER SYSTEM SET pg_calm_guard.max_lag = '64MB';
ALTER SYSTEM SET pg_calm_guard.max_lag = 'near = 64MB, far*=30s,*=1GB';
ALTER SYSTEM SET pg_calm_guard.max_lag = '';
ALTER SYSTEM RESET pg_calm_guard.max_lag;
ALTER SYSTEM SET pg_calm_guard.max_lag = 'near = 64';
ALTER SYSTEM SET pg_calm_guard.max_lag = 'near = 64MB,';
ALTER SYSTEM SET pg_calm_guard.max_lag = ' = 64MB';
ALTER SYSTEM SET pg_calm_guard.max_lag = 'near';
ALTER SYSTEM SET pg_calm_guard.max_lag = '100kB';
ALTER SYSTEM SET pg_calm_guard.max_lag = '2h';
ALTER SYSTEM SET pg_calm_guard.lag_position = 'write';

-- for those who monitor; and whoever is to be held can't opt out
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
CREATE ROLE regress_calm_nobody;
SET ROLE regress_calm_monitor;
SELECT count(*) FROM pg_calm_guard;
SELECT count(*) FROM pg_calm_guard_holds;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_guard;
SELECT count(*) FROM pg_calm_guard_holds;
SET pg_calm_guard.hold = off;
RESET ROLE;
DROP ROLE regress_calm_monitor;
DROP ROLE regress_calm_nobody;
DROP EXTENSION pg_calm_guard;
