--
-- The view pg_calm_status and the function pg_calm_regions()
--
CREATE EXTENSION pg_calm;
SELECT extname, extversion, extrelocatable, obj_description(oid, 'pg_extension') AS description
  FROM pg_extension WHERE extname = 'pg_calm';

-- columns, their types and comments: a contract with monitoring
SELECT a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
       col_description(c.oid, a.attnum) IS NOT NULL AS commented
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relname = 'pg_calm_status' AND a.attnum > 0
 ORDER BY a.attnum;
SELECT obj_description('pg_calm_status'::regclass, 'pg_class');
SELECT pg_get_function_arguments('pg_calm_regions'::regproc),
       obj_description('pg_calm_regions'::regproc, 'pg_proc') IS NOT NULL AS commented;

-- always one row
SELECT count(*) FROM pg_calm_status;
SELECT mode, io_size > 0 AS io_size, caps_source <> '' AS caps_source,
       suppressed_hints >= 0 AS suppressed_hints, errors
  FROM pg_calm_status;

SELECT worker_pid > 0 AS worker, degraded FROM pg_calm_status;

-- the new table's pages are there, and its checkpoint flushes them
CREATE TABLE calm_table (id int, filler text);
INSERT INTO calm_table SELECT i, repeat('x', 200) FROM generate_series(1, 10000) i;
SELECT count(*) > 0 AS seen FROM pg_calm_regions()
 WHERE path LIKE '%/' || pg_relation_filepath('calm_table');
SELECT first_block, unflushed_pages > 10 AS unflushed, age_seconds BETWEEN 0 AND 60 AS age
  FROM pg_calm_regions()
 WHERE path LIKE '%/' || pg_relation_filepath('calm_table');
CHECKPOINT;
SELECT count(*) FROM pg_calm_regions()
 WHERE path LIKE '%/' || pg_relation_filepath('calm_table');
SELECT flushed_pages + fsynced_pages > 0 AS pages, device_operations > 0 AS operations,
       written_bytes > 0 AS bytes
  FROM pg_calm_status;

-- privileges
CREATE ROLE regress_calm_nobody;
CREATE ROLE regress_calm_monitor IN ROLE pg_monitor;
SET ROLE regress_calm_nobody;
SELECT count(*) FROM pg_calm_status;
SELECT count(*) FROM pg_calm_status();
SELECT count(*) FROM pg_calm_regions();
SET ROLE regress_calm_monitor;
SELECT count(*) FROM pg_calm_status;
SELECT count(*) >= 0 AS regions FROM pg_calm_regions();
RESET ROLE;

-- it can be moved, dropped and created again
CREATE SCHEMA calm_schema;
ALTER EXTENSION pg_calm SET SCHEMA calm_schema;
SELECT count(*) FROM calm_schema.pg_calm_status;
DROP EXTENSION pg_calm;
SELECT count(*) FROM calm_schema.pg_calm_status;
SELECT proname FROM pg_proc WHERE proname LIKE 'pg\_calm%';
CREATE EXTENSION pg_calm SCHEMA public;
SELECT count(*) FROM public.pg_calm_status;

DROP EXTENSION pg_calm;
DROP SCHEMA calm_schema;
DROP TABLE calm_table;
DROP ROLE regress_calm_nobody;
DROP ROLE regress_calm_monitor;
