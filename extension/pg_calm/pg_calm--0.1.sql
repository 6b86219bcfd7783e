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
    OUT device_given double precision,
    OUT worker_iops bigint,
    OUT worker_bandwidth bigint,
    OUT held_from_pages bigint,
    OUT held_most_pages bigint,
    OUT unflushed_pages bigint,
    OUT in_flight_pages bigint,
    OUT flushed_pages bigint,
    OUT fsynced_pages bigint,
    OUT kernel_flushed_pages bigint,
    OUT bridged_pages bigint,
    OUT unbridged_pages bigint,
    OUT device_operations bigint,
    OUT written_bytes bigint,
    OUT suppressed_hints bigint,
    OUT cleaned_buffers bigint,
    OUT latency_probes bigint,
    OUT wal_flushes bigint,
    OUT wal_flush_time double precision,
    OUT map_full bigint,
    OUT errors bigint,
    OUT worker_pid integer,
    OUT dirty_buffers bigint,
    OUT stop_seconds double precision,
    OUT recovery_seconds double precision,
    OUT replay_rate bigint,
    OUT stop_target_met boolean,
    OUT recovery_target_met boolean,
    OUT target_operations bigint,
    OUT target_checkpoints bigint)
AS 'MODULE_PATHNAME', 'pg_calm_status'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_status AS SELECT * FROM pg_calm_status();

COMMENT ON VIEW pg_calm_status IS 'State of pg_calm, one row; counters start with the server';
COMMENT ON COLUMN pg_calm_status.mode IS 'pg_calm.mode as this session has it: off, shadow or on';
COMMENT ON COLUMN pg_calm_status.degraded IS 'Why less is done than the mode says: all reasons, parted by semicolons; null if nothing is amiss';
COMMENT ON COLUMN pg_calm_status.write_iops IS 'Cap in force: write operations per second; null if not capped';
COMMENT ON COLUMN pg_calm_status.write_bandwidth IS 'Cap in force: bytes written per second; null if not capped';
COMMENT ON COLUMN pg_calm_status.io_size IS 'Bytes of a contiguous write that count as one operation';
COMMENT ON COLUMN pg_calm_status.caps_source IS 'Where the caps were found';
COMMENT ON COLUMN pg_calm_status.bridged_gap IS 'Longest gap between dirty pages that is bridged at present, in blocks; 0 means none';
COMMENT ON COLUMN pg_calm_status.device_given IS 'Part of the caps that the device is found to give at present, 0.125 to 1; null where the worker paces nothing, or does not run';
COMMENT ON COLUMN pg_calm_status.worker_iops IS 'Operations per second that the worker keeps to at present, in mode on: what others leave of the cap, or its least share; null if not capped, or it does not run';
COMMENT ON COLUMN pg_calm_status.worker_bandwidth IS 'Bytes per second that it keeps to, likewise';
COMMENT ON COLUMN pg_calm_status.held_from_pages IS 'Unflushed pages beyond which all are flushed, and a checkpoint''s writes are held, in mode on: 0 while the kernel flushes our files; null where the worker paces nothing, or does not run';
COMMENT ON COLUMN pg_calm_status.held_most_pages IS 'Unflushed pages from which these are held longest; null likewise';
COMMENT ON COLUMN pg_calm_status.unflushed_pages IS 'Pages that are written and not flushed, of files over 1 MB';
COMMENT ON COLUMN pg_calm_status.in_flight_pages IS 'Pages that the worker is writing back now';
COMMENT ON COLUMN pg_calm_status.flushed_pages IS 'Dirty pages written back by the worker; in shadow mode, that would have been';
COMMENT ON COLUMN pg_calm_status.fsynced_pages IS 'Dirty pages that were left for PostgreSQL''s fsync to write';
COMMENT ON COLUMN pg_calm_status.kernel_flushed_pages IS 'Dirty pages that the kernel had written before the worker came to them';
COMMENT ON COLUMN pg_calm_status.bridged_pages IS 'Clean pages written along between dirty ones';
COMMENT ON COLUMN pg_calm_status.unbridged_pages IS 'Pages between dirty ones that were not written along, because the page cache has them in a large folio that is dirty as a whole, or they became dirty just then';
COMMENT ON COLUMN pg_calm_status.device_operations IS 'Operations of all these writes as the device counts them';
COMMENT ON COLUMN pg_calm_status.written_bytes IS 'Bytes of all these writes, bridged pages included';
COMMENT ON COLUMN pg_calm_status.suppressed_hints IS 'Flush hints of the server (*_flush_after) that were dropped, for files that the worker flushes';
COMMENT ON COLUMN pg_calm_status.cleaned_buffers IS 'Dirty shared buffers that the cleaner wrote right before their region was flushed, so that backends would not have to later';
COMMENT ON COLUMN pg_calm_status.latency_probes IS 'Blocks that the worker read while the volume was full and nobody else read, so that the block layer sees how long reads take and lets fewer writes wait before them';
COMMENT ON COLUMN pg_calm_status.wal_flushes IS 'Flushes of WAL by fdatasync or fsync; those of other values of wal_sync_method are not seen';
COMMENT ON COLUMN pg_calm_status.wal_flush_time IS 'How long these took, all together, in milliseconds; divided by wal_flushes it is what a commit waits for one';
COMMENT ON COLUMN pg_calm_status.map_full IS 'Writes that could not be tracked because pg_calm.page_map_memory was used up';
COMMENT ON COLUMN pg_calm_status.errors IS 'Writeback errors seen by the worker; each ends in PANIC';
COMMENT ON COLUMN pg_calm_status.worker_pid IS 'Process ID of the writeback worker; null if it is not running';
COMMENT ON COLUMN pg_calm_status.dirty_buffers IS 'Dirty shared buffers, counted without locks, at most four times per second and session';
COMMENT ON COLUMN pg_calm_status.stop_seconds IS 'Time that a fast stop would take now: dirty buffers and unflushed pages, neighbours as one operation, at the caps; null if no cap is known';
COMMENT ON COLUMN pg_calm_status.recovery_seconds IS 'Time that recovery would take after a crash now, or a standby to replay what it has replayed since its last restartpoint: WAL since the redo point at replay_rate, and the checkpoint at its end, halfway between what a stop would write and a page for each block of that WAL; null if the server has not recovered since it was started';
COMMENT ON COLUMN pg_calm_status.replay_rate IS 'Bytes of WAL per second that the last crash recovery replayed, without the checkpoint at its end; null likewise';
COMMENT ON COLUMN pg_calm_status.stop_target_met IS 'Whether stop_seconds is no more than pg_calm.stop_target; null if that is 0, or nothing is known';
COMMENT ON COLUMN pg_calm_status.recovery_target_met IS 'Whether recovery_seconds, before the first recovery at a replay_rate of 16 MB/s, is no more than pg_calm.recovery_target; null if that is 0';
COMMENT ON COLUMN pg_calm_status.target_operations IS 'What pg_calm.stop_target costs: operations of dirty buffers that were written for it; some would have been written later in any case';
COMMENT ON COLUMN pg_calm_status.target_checkpoints IS 'What pg_calm.recovery_target costs: checkpoints that were requested for it';

CREATE FUNCTION pg_calm_regions(
    OUT path text,
    OUT first_block integer,
    OUT unflushed_pages integer,
    OUT age_seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_regions'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_calm_regions() IS 'Regions (8 MB) of data files with pages that are written but not flushed: the segment file, the first block within it, how many such pages it has, and the seconds since the oldest of them was written';

CREATE FUNCTION pg_calm_checkpoints(
    OUT id bigint,
    OUT kind text,
    OUT reason text,
    OUT status text,
    OUT started timestamptz,
    OUT ended timestamptz,
    OUT write_time double precision,
    OUT sync_time double precision,
    OUT drain_time double precision,
    OUT fsync_time double precision,
    OUT buffers_written bigint,
    OUT bridged_pages bigint,
    OUT unflushed_pages_at_sync bigint,
    OUT files_synced bigint,
    OUT slowest_file text,
    OUT slowest_file_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_checkpoints'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_checkpoints AS SELECT * FROM pg_calm_checkpoints();

COMMENT ON VIEW pg_calm_checkpoints IS 'The last 100 checkpoints since the server started, oldest first, the one under way included; times in milliseconds; null where it was not seen';
COMMENT ON COLUMN pg_calm_checkpoints.id IS 'Number of the checkpoint since the server started';
COMMENT ON COLUMN pg_calm_checkpoints.kind IS 'checkpoint or restartpoint; with log_checkpoints off, any in recovery is taken for a restartpoint';
COMMENT ON COLUMN pg_calm_checkpoints.reason IS 'time, wal, shutdown, end-of-recovery, requested (by a command, a base backup, ...); unknown if log_checkpoints was off and it was not by time';
COMMENT ON COLUMN pg_calm_checkpoints.status IS 'running, complete or failed; unknown if it is over and there was no telling how (only with fsync = off)';
COMMENT ON COLUMN pg_calm_checkpoints.started IS 'When it started';
COMMENT ON COLUMN pg_calm_checkpoints.ended IS 'When it ended; null while it runs, or if the end was not seen (only with log_checkpoints off and no data file written)';
COMMENT ON COLUMN pg_calm_checkpoints.write_time IS 'From the start to the sync phase: writing SLRUs and buffers, the pauses of checkpoint_completion_target included';
COMMENT ON COLUMN pg_calm_checkpoints.sync_time IS 'The sync phase as the server measures it: drain_time, fsync_time and what is between them';
COMMENT ON COLUMN pg_calm_checkpoints.drain_time IS 'The part of sync_time in which the checkpointer waited for unflushed pages or cleaned buffers before fsync calls; null if that was not done';
COMMENT ON COLUMN pg_calm_checkpoints.fsync_time IS 'The part of sync_time that was spent in fsync calls of data and SLRU files, all together';
COMMENT ON COLUMN pg_calm_checkpoints.buffers_written IS 'Buffers that the checkpointer wrote, until now if it still writes; null before the first';
COMMENT ON COLUMN pg_calm_checkpoints.bridged_pages IS 'Clean pages written along during the checkpoint, by all processes of pg_calm; in shadow mode, that would have been';
COMMENT ON COLUMN pg_calm_checkpoints.unflushed_pages_at_sync IS 'Pages written and not flushed when the first data file was about to be fsynced, before draining; null if none was, or in mode off';
COMMENT ON COLUMN pg_calm_checkpoints.files_synced IS 'Data and SLRU files fsynced in the sync phase';
COMMENT ON COLUMN pg_calm_checkpoints.slowest_file IS 'The one whose fsync took longest, relative to the data directory if it is below it';
COMMENT ON COLUMN pg_calm_checkpoints.slowest_file_time IS 'How long that fsync took';

-- paths and activity of all databases: as for pg_stat_activity's details
REVOKE ALL ON FUNCTION pg_calm_status() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_regions() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_checkpoints() FROM PUBLIC;
REVOKE ALL ON pg_calm_status FROM PUBLIC;
REVOKE ALL ON pg_calm_checkpoints FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_calm_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_regions() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_checkpoints() TO pg_monitor;
GRANT SELECT ON pg_calm_status TO pg_monitor;
GRANT SELECT ON pg_calm_checkpoints TO pg_monitor;
