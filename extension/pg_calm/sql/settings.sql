--
-- Settings: defaults, ranges, what is refused and what is said then
--
-- The state of the cluster that is being run on may be that of the
-- configuration file, so that boot_val is shown.
SELECT name, boot_val, unit, min_val, max_val, enumvals, vartype, context
  FROM pg_settings WHERE name LIKE 'pg\_calm.%' ORDER BY name;
SELECT name FROM pg_settings
 WHERE name LIKE 'pg\_calm.%' AND (short_desc = '' OR short_desc NOT LIKE '%.');

-- not for a session
SET pg_calm.mode = 'off';
SET pg_calm.page_map_memory = '64MB';
SET pg_calm.write_iops = 100;
ALTER ROLE CURRENT_USER SET pg_calm.mode = 'off';

-- values
ALTER SYSTEM SET pg_calm.mode = 'sometimes';
ALTER SYSTEM SET pg_calm.iops = 9;
ALTER SYSTEM SET pg_calm.write_iops = 9;
ALTER SYSTEM SET pg_calm.write_iops = -2;
ALTER SYSTEM SET pg_calm.write_iops = '10MB';
ALTER SYSTEM SET pg_calm.write_bandwidth = 9;
ALTER SYSTEM SET pg_calm.write_bandwidth = -2;
ALTER SYSTEM SET pg_calm.write_bandwidth = '100s';
ALTER SYSTEM SET pg_calm.io_size = -1;
ALTER SYSTEM SET pg_calm.io_size = '65MB';
ALTER SYSTEM SET pg_calm.page_map_memory = '512kB';
ALTER SYSTEM SET pg_calm.bridge = 'perhaps';

-- unknown names are refused, since the prefix is reserved
SET pg_calm.no_such_setting = 1;
ALTER SYSTEM SET pg_calm.no_such_setting = 1;

-- nobody but a superuser
CREATE ROLE regress_calm_nobody;
SET ROLE regress_calm_nobody;
ALTER SYSTEM SET pg_calm.mode = 'off';
SHOW pg_calm.mode;
RESET ROLE;
DROP ROLE regress_calm_nobody;

-- units, and the limits of what is accepted
ALTER SYSTEM SET pg_calm.write_iops = 10;
ALTER SYSTEM SET pg_calm.write_bandwidth = '100MB';
ALTER SYSTEM SET pg_calm.io_size = '256kB';
ALTER SYSTEM SET pg_calm.drain_timeout = '1h';
ALTER SYSTEM SET pg_calm.mode = 'SHADOW';
ALTER SYSTEM SET pg_calm.bridge = off;
SELECT pg_reload_conf();
\c
SELECT name, setting, unit, source = 'configuration file' AS configured
  FROM pg_settings WHERE name LIKE 'pg\_calm.%' ORDER BY name;
SHOW pg_calm.write_bandwidth;
-- unlimited
ALTER SYSTEM SET pg_calm.write_iops = -1;
ALTER SYSTEM SET pg_calm.write_bandwidth = -1;
ALTER SYSTEM RESET ALL;
SELECT pg_reload_conf();
\c
SHOW pg_calm.mode;
SHOW pg_calm.write_iops;
