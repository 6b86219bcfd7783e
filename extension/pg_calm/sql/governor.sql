--
-- The governor's views and settings
--
CREATE EXTENSION pg_calm;
SELECT attrelid::regclass AS view, attname, format_type(atttypid, atttypmod) AS type,
       col_description(attrelid, attnum) <> '' AS described
  FROM pg_attribute
 WHERE attrelid IN ('pg_calm_governor'::regclass, 'pg_calm_governor_holds'::regclass) AND attnum > 0
 ORDER BY attrelid::regclass::text, attnum;

-- nothing is governed unless it is asked for
SELECT input, state, object, unit, value, value_limit, drain_rate, allowed_rate, binding, total_allowed_rate, holds,
       held_time, releases
  FROM pg_calm_governor;
SELECT * FROM pg_calm_governor_holds;

-- limits of lag
ALTER SYSTEM SET pg_calm.governor_max_lag = '64MB';
ALTER SYSTEM SET pg_calm.governor_max_lag = 'near = 64MB, far*=30s,*=1GB';
ALTER SYSTEM SET pg_calm.governor_max_lag = '';
ALTER SYSTEM RESET pg_calm.governor_max_lag;
ALTER SYSTEM SET pg_calm.governor_max_lag = 'near = 64';
ALTER SYSTEM SET pg_calm.governor_max_lag = 'near = 64MB,';
ALTER SYSTEM SET pg_calm.governor_max_lag = ' = 64MB';
ALTER SYSTEM SET pg_calm.governor_max_lag = 'near';
ALTER SYSTEM SET pg_calm.governor_max_lag = '100kB';
ALTER SYSTEM SET pg_calm.governor_max_lag = '2h';
ALTER SYSTEM SET pg_calm.governor_lag_position = 'write';

-- for those who monitor; and whoever is to be governed can't opt out
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
CREATE ROLE regress_calm_nobody;
SET ROLE regress_calm_monitor;
SELECT count(*) FROM pg_calm_governor;
SELECT count(*) FROM pg_calm_governor_holds;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_governor;
SELECT count(*) FROM pg_calm_governor_holds;
SET pg_calm.governor = off;
RESET ROLE;
DROP ROLE regress_calm_monitor;
DROP ROLE regress_calm_nobody;
DROP EXTENSION pg_calm;
