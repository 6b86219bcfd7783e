/* pg_calm--0.1.sql */

\echo Use "CREATE EXTENSION pg_calm" to load this file. \quit

CREATE FUNCTION pg_calm_status(
    OUT mode text,
    OUT degraded text,
    OUT write_iops bigint,
    OUT write_bandwidth bigint,
    OUT io_size integer,
    OUT caps_source text,
    OUT bridged_gap integer,
    OUT unflushed_pages_old bigint,
    OUT unflushed_pages_new bigint,
    OUT in_flight_pages bigint,
    OUT flushed_pages bigint,
    OUT fsynced_pages bigint,
    OUT handed_pages bigint,
    OUT kernel_flushed_pages bigint,
    OUT bridged_pages bigint,
    OUT device_operations bigint,
    OUT written_bytes bigint,
    OUT suppressed_hints bigint,
    OUT large_folio_regions bigint,
    OUT full_regions bigint,
    OUT full_files bigint,
    OUT errors bigint,
    OUT worker_pid integer)
AS 'MODULE_PATHNAME', 'pg_calm_status'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_status AS SELECT * FROM pg_calm_status();

COMMENT ON VIEW pg_calm_status IS 'State of pg_calm, one row; counters start with the server';
COMMENT ON COLUMN pg_calm_status.mode IS 'pg_calm.mode as this session has it: off, shadow or on';
COMMENT ON COLUMN pg_calm_status.degraded IS 'Why less is done than the mode says; null if nothing is amiss';
COMMENT ON COLUMN pg_calm_status.write_iops IS 'Cap in force: write operations per second; null if not capped';
COMMENT ON COLUMN pg_calm_status.write_bandwidth IS 'Cap in force: bytes written per second; null if not capped';
COMMENT ON COLUMN pg_calm_status.io_size IS 'Bytes of a contiguous write that count as one operation';
COMMENT ON COLUMN pg_calm_status.caps_source IS 'Where the caps were found';
COMMENT ON COLUMN pg_calm_status.bridged_gap IS 'Longest gap between dirty pages that is bridged at present, in blocks; 0 means none';
COMMENT ON COLUMN pg_calm_status.unflushed_pages_old IS 'Pages written before the last checkpoint began to write, and not flushed';
COMMENT ON COLUMN pg_calm_status.unflushed_pages_new IS 'Pages written since then, and not flushed';
COMMENT ON COLUMN pg_calm_status.in_flight_pages IS 'Pages that the worker is writing back now';
COMMENT ON COLUMN pg_calm_status.flushed_pages IS 'Dirty pages written back by the worker; in shadow mode, that would have been';
COMMENT ON COLUMN pg_calm_status.fsynced_pages IS 'Dirty pages that were left for PostgreSQL''s fsync to write';
COMMENT ON COLUMN pg_calm_status.handed_pages IS 'Dirty pages made dense and left to the kernel flusher, whose time for the file had come';
COMMENT ON COLUMN pg_calm_status.kernel_flushed_pages IS 'Dirty pages that the kernel had written before the worker came to them';
COMMENT ON COLUMN pg_calm_status.bridged_pages IS 'Clean pages written along between dirty ones';
COMMENT ON COLUMN pg_calm_status.device_operations IS 'Operations of all these writes as the device counts them';
COMMENT ON COLUMN pg_calm_status.written_bytes IS 'Bytes of all these writes, bridged pages included';
COMMENT ON COLUMN pg_calm_status.suppressed_hints IS 'Flush hints of the server (*_flush_after) that were dropped';
COMMENT ON COLUMN pg_calm_status.large_folio_regions IS 'Times that a region had far more dirty memory than written pages, and its large folios were split after it was written back';
COMMENT ON COLUMN pg_calm_status.full_regions IS 'Times that a region counted as wholly dirty because pg_calm.page_map_memory was used up';
COMMENT ON COLUMN pg_calm_status.full_files IS 'Writes to files that could not be tracked for that reason';
COMMENT ON COLUMN pg_calm_status.errors IS 'Writeback errors seen by the worker; each ends in PANIC';
COMMENT ON COLUMN pg_calm_status.worker_pid IS 'Process ID of the writeback worker; null if it is not running';

CREATE FUNCTION pg_calm_regions(
    OUT path text,
    OUT first_block integer,
    OUT unflushed_pages_old integer,
    OUT unflushed_pages_new integer,
    OUT whole boolean,
    OUT age_seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_regions'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_regions AS SELECT * FROM pg_calm_regions();

COMMENT ON VIEW pg_calm_regions IS 'Regions (8 MB) of data files with pages that are written but not flushed';
COMMENT ON COLUMN pg_calm_regions.path IS 'Segment file';
COMMENT ON COLUMN pg_calm_regions.first_block IS 'First block of the region within the segment file';
COMMENT ON COLUMN pg_calm_regions.unflushed_pages_old IS 'Pages written before the last checkpoint began to write';
COMMENT ON COLUMN pg_calm_regions.unflushed_pages_new IS 'Pages written since then';
COMMENT ON COLUMN pg_calm_regions.whole IS 'The region counts as wholly dirty because the map was full';
COMMENT ON COLUMN pg_calm_regions.age_seconds IS 'Time since the oldest of the pages was written';

-- paths and activity of all databases: as for pg_stat_activity's details
REVOKE ALL ON FUNCTION pg_calm_status() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_regions() FROM PUBLIC;
REVOKE ALL ON pg_calm_status FROM PUBLIC;
REVOKE ALL ON pg_calm_regions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_calm_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_regions() TO pg_monitor;
GRANT SELECT ON pg_calm_status TO pg_monitor;
GRANT SELECT ON pg_calm_regions TO pg_monitor;
