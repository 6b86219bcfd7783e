--
-- The view of archiving: columns, privileges, and their state without it
--
CREATE EXTENSION pg_calm_archive;
SELECT name, boot_val, unit, min_val, max_val, enumvals, vartype, context
  FROM pg_settings WHERE name LIKE 'pg\_calm\_archive.%' ORDER BY name;
SELECT name FROM pg_settings
 WHERE name LIKE 'pg\_calm\_archive.%' AND (short_desc = '' OR short_desc NOT LIKE '%.');
SELECT attname, format_type(atttypid, atttypmod) AS type, col_description(attrelid, attnum) <> '' AS described
  FROM pg_attribute WHERE attrelid = 'pg_calm_archive'::regclass AND attnum > 0 ORDER BY attnum;

-- archive_mode is off here
SELECT state, directory, compression, workers, queue_files, queue_bytes, oldest_file, oldest_since,
       free_bytes > 0 AS free, archive_rate
  FROM pg_calm_archive;
SELECT archived_files, archived_bytes, written_bytes, existing_files, failures, file_syncs, directory_syncs,
       last_archived_file, last_archived_time, last_error, last_error_file, last_error_time
  FROM pg_calm_archive;

-- settings that are refused
ALTER SYSTEM SET pg_calm_archive.directory = 'relative/path';
ALTER SYSTEM SET pg_calm_archive.workers = 0;
ALTER SYSTEM SET pg_calm_archive.workers = 17;
ALTER SYSTEM SET pg_calm_archive.compression = 'gzip';
ALTER SYSTEM SET pg_calm_archive.compression_level = 20;
SET pg_calm_archive.directory = '/tmp';

-- for those who monitor, and nobody else
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
CREATE ROLE regress_calm_nobody;
SET ROLE regress_calm_monitor;
SELECT count(*) FROM pg_calm_archive;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_archive;
RESET ROLE;
DROP ROLE regress_calm_monitor;
DROP ROLE regress_calm_nobody;
DROP EXTENSION pg_calm_archive;
