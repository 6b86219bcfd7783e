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
    OUT unbridged_pages bigint,
    OUT device_operations bigint,
    OUT written_bytes bigint,
    OUT suppressed_hints bigint,
    OUT large_folio_regions bigint,
    OUT cleaned_buffers bigint,
    OUT latency_probes bigint,
    OUT full_regions bigint,
    OUT full_files bigint,
    OUT errors bigint,
    OUT worker_pid integer)
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
COMMENT ON COLUMN pg_calm_status.unflushed_pages_old IS 'Pages written before the last checkpoint began to write, and not flushed';
COMMENT ON COLUMN pg_calm_status.unflushed_pages_new IS 'Pages written since then, and not flushed';
COMMENT ON COLUMN pg_calm_status.in_flight_pages IS 'Pages that the worker is writing back now';
COMMENT ON COLUMN pg_calm_status.flushed_pages IS 'Dirty pages written back by the worker; in shadow mode, that would have been';
COMMENT ON COLUMN pg_calm_status.fsynced_pages IS 'Dirty pages that were left for PostgreSQL''s fsync to write';
COMMENT ON COLUMN pg_calm_status.handed_pages IS 'Dirty pages made dense and left to the kernel flusher, whose time for the file had come';
COMMENT ON COLUMN pg_calm_status.kernel_flushed_pages IS 'Dirty pages that the kernel had written before the worker came to them';
COMMENT ON COLUMN pg_calm_status.bridged_pages IS 'Clean pages written along between dirty ones';
COMMENT ON COLUMN pg_calm_status.unbridged_pages IS 'Pages between dirty ones that were not written along, because the page cache has them in a large folio that is dirty as a whole, or they became dirty just then';
COMMENT ON COLUMN pg_calm_status.device_operations IS 'Operations of all these writes as the device counts them';
COMMENT ON COLUMN pg_calm_status.written_bytes IS 'Bytes of all these writes, bridged pages included';
COMMENT ON COLUMN pg_calm_status.suppressed_hints IS 'Flush hints of the server (*_flush_after) that were dropped, for files that the worker flushes';
COMMENT ON COLUMN pg_calm_status.large_folio_regions IS 'Times that a region had far more dirty memory than written pages, and its large folios were split after it was written back';
COMMENT ON COLUMN pg_calm_status.cleaned_buffers IS 'Dirty shared buffers that the cleaner wrote right before their region was flushed, so that backends would not have to later';
COMMENT ON COLUMN pg_calm_status.latency_probes IS 'Blocks that the worker read while the volume was full and nobody else read, so that the block layer sees how long reads take and lets fewer writes wait before them';
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

CREATE FUNCTION pg_calm_checkpoints(
    OUT id bigint,
    OUT kind text,
    OUT reason text,
    OUT flags text,
    OUT status text,
    OUT mode text,
    OUT started timestamptz,
    OUT ended timestamptz,
    OUT total_time double precision,
    OUT slots_time double precision,
    OUT clog_time double precision,
    OUT subtrans_time double precision,
    OUT multixact_time double precision,
    OUT other_slru_time double precision,
    OUT buffer_scan_time double precision,
    OUT write_time double precision,
    OUT sync_time double precision,
    OUT drain_time double precision,
    OUT fsync_time double precision,
    OUT end_time double precision,
    OUT buffers_dirty bigint,
    OUT buffers_written bigint,
    OUT bridged_pages bigint,
    OUT device_operations bigint,
    OUT unflushed_pages_at_sync bigint,
    OUT undrained_pages bigint,
    OUT files_synced bigint,
    OUT slowest_file text,
    OUT slowest_file_time double precision,
    OUT wal_bytes_before_5s bigint,
    OUT wal_fpi_before_5s bigint,
    OUT wal_bytes_after_5s bigint,
    OUT wal_fpi_after_5s bigint,
    OUT wal_bytes_before_30s bigint,
    OUT wal_fpi_before_30s bigint,
    OUT wal_bytes_after_30s bigint,
    OUT wal_fpi_after_30s bigint,
    OUT wal_flushes bigint,
    OUT wal_flush_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_checkpoints'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_checkpoints AS SELECT * FROM pg_calm_checkpoints();

COMMENT ON VIEW pg_calm_checkpoints IS 'The last checkpoints (pg_calm.checkpoint_history) since the server started, oldest first, the one under way included; times in milliseconds; null where it was not seen';
COMMENT ON COLUMN pg_calm_checkpoints.id IS 'Number of the checkpoint since the server started';
COMMENT ON COLUMN pg_calm_checkpoints.kind IS 'checkpoint or restartpoint';
COMMENT ON COLUMN pg_calm_checkpoints.reason IS 'time, wal, shutdown, end-of-recovery, requested (by a command, a base backup, ...); unknown if log_checkpoints was off and it was not by time, shutdown or recovery';
COMMENT ON COLUMN pg_calm_checkpoints.flags IS 'All flags, as the server''s log has them; null if log_checkpoints was off';
COMMENT ON COLUMN pg_calm_checkpoints.status IS 'running, complete or failed; unknown if it is over and there was no telling how (only with fsync = off)';
COMMENT ON COLUMN pg_calm_checkpoints.mode IS 'pg_calm.mode when it started';
COMMENT ON COLUMN pg_calm_checkpoints.started IS 'When it started';
COMMENT ON COLUMN pg_calm_checkpoints.ended IS 'When it ended; null while it runs, or if the end was not seen (only with log_checkpoints off and no data file written)';
COMMENT ON COLUMN pg_calm_checkpoints.total_time IS 'From start to end';
COMMENT ON COLUMN pg_calm_checkpoints.slots_time IS 'Replication slots, logical decoding, replication origins, the wait for commits under way: all before the first SLRU';
COMMENT ON COLUMN pg_calm_checkpoints.clog_time IS 'Writing pg_xact';
COMMENT ON COLUMN pg_calm_checkpoints.subtrans_time IS 'Writing pg_subtrans, and looking through pg_multixact until its first write';
COMMENT ON COLUMN pg_calm_checkpoints.multixact_time IS 'Writing pg_multixact, offsets and members';
COMMENT ON COLUMN pg_calm_checkpoints.other_slru_time IS 'Writing pg_commit_ts and pg_serial';
COMMENT ON COLUMN pg_calm_checkpoints.buffer_scan_time IS 'Finding and sorting dirty buffers, until the first is written';
COMMENT ON COLUMN pg_calm_checkpoints.write_time IS 'Writing buffers, the pauses of checkpoint_completion_target included';
COMMENT ON COLUMN pg_calm_checkpoints.sync_time IS 'The sync phase as the server measures it: drain_time, fsync_time and what is between them, such as making files dense';
COMMENT ON COLUMN pg_calm_checkpoints.drain_time IS 'The part of sync_time in which the checkpointer waited for unflushed pages or cleaned buffers before fsync calls; null if that was not done';
COMMENT ON COLUMN pg_calm_checkpoints.fsync_time IS 'The part of sync_time that was spent in fsync calls of data and SLRU files, all together';
COMMENT ON COLUMN pg_calm_checkpoints.end_time IS 'After the sync phase: prepared transactions, checkpoint record, control file, WAL removal and recycling';
COMMENT ON COLUMN pg_calm_checkpoints.buffers_dirty IS 'Dirty buffers found by the scan';
COMMENT ON COLUMN pg_calm_checkpoints.buffers_written IS 'Those that the checkpointer wrote, until now if it still writes; others were written by other processes before it came to them';
COMMENT ON COLUMN pg_calm_checkpoints.bridged_pages IS 'Clean pages written along during the checkpoint, by all processes of pg_calm; in shadow mode, that would have been';
COMMENT ON COLUMN pg_calm_checkpoints.device_operations IS 'Operations of pg_calm''s writes during the checkpoint, as the device counts them; in shadow mode, that would have been';
COMMENT ON COLUMN pg_calm_checkpoints.unflushed_pages_at_sync IS 'Pages written and not flushed when the first data file was about to be fsynced, before draining; null if none was, or in mode off';
COMMENT ON COLUMN pg_calm_checkpoints.undrained_pages IS 'Unflushed pages when draining ended, for the last time; null if it was not done';
COMMENT ON COLUMN pg_calm_checkpoints.files_synced IS 'Data and SLRU files fsynced in the sync phase';
COMMENT ON COLUMN pg_calm_checkpoints.slowest_file IS 'The one whose fsync took longest, relative to the data directory if it is below it';
COMMENT ON COLUMN pg_calm_checkpoints.slowest_file_time IS 'How long that fsync took';
COMMENT ON COLUMN pg_calm_checkpoints.wal_bytes_before_5s IS 'Bytes of WAL inserted (by a restartpoint''s server: replayed) in the 5 s before the start; WAL is looked at once a second, and positions between are interpolated';
COMMENT ON COLUMN pg_calm_checkpoints.wal_fpi_before_5s IS 'Full-page images in the same span; sessions report them at the end of a transaction, once a second at most';
COMMENT ON COLUMN pg_calm_checkpoints.wal_bytes_after_5s IS 'Bytes of WAL in the 5 s after the start';
COMMENT ON COLUMN pg_calm_checkpoints.wal_fpi_after_5s IS 'Full-page images in the same span';
COMMENT ON COLUMN pg_calm_checkpoints.wal_bytes_before_30s IS 'Bytes of WAL in the 30 s before the start';
COMMENT ON COLUMN pg_calm_checkpoints.wal_fpi_before_30s IS 'Full-page images in the same span';
COMMENT ON COLUMN pg_calm_checkpoints.wal_bytes_after_30s IS 'Bytes of WAL in the 30 s after the start';
COMMENT ON COLUMN pg_calm_checkpoints.wal_fpi_after_30s IS 'Full-page images in the same span';
COMMENT ON COLUMN pg_calm_checkpoints.wal_flushes IS 'Flushes of WAL during the checkpoint, by all processes; null where they are not seen: mode off, fsync off, or a wal_sync_method other than fdatasync and fsync';
COMMENT ON COLUMN pg_calm_checkpoints.wal_flush_time IS 'How long these took, all together; divided by wal_flushes it is what a commit waits for one';

CREATE FUNCTION pg_calm_checkpoint_file_calls(
    OUT checkpoint bigint,
    OUT file text,
    OUT is_fsync boolean,
    OUT calls bigint,
    OUT milliseconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_checkpoint_file_calls'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_calm_checkpoint_file_calls() IS 'What pg_calm_checkpoint_files adds up: a row for each fsync of a file, and one for its flush hints that follow each other';

CREATE FUNCTION pg_calm_checkpoint_files(
    OUT checkpoint bigint,
    OUT file text,
    OUT flush_hints bigint,
    OUT flush_hint_time double precision,
    OUT fsyncs bigint,
    OUT fsync_time double precision)
RETURNS SETOF record
LANGUAGE SQL VOLATILE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.checkpoint, c.file,
           coalesce(sum(c.calls) FILTER (WHERE NOT c.is_fsync), 0)::bigint,
           coalesce(sum(c.milliseconds) FILTER (WHERE NOT c.is_fsync), 0),
           coalesce(sum(c.calls) FILTER (WHERE c.is_fsync), 0)::bigint,
           coalesce(sum(c.milliseconds) FILTER (WHERE c.is_fsync), 0)
      FROM pg_calm_checkpoint_file_calls() c
     GROUP BY c.checkpoint, c.file
     ORDER BY c.checkpoint, c.file;
END;

CREATE VIEW pg_calm_checkpoint_files AS SELECT * FROM pg_calm_checkpoint_files();

COMMENT ON VIEW pg_calm_checkpoint_files IS 'Each file that a checkpoint hinted or fsynced, of the last checkpoints as far as pg_calm.checkpoint_files reaches; times in milliseconds';
COMMENT ON COLUMN pg_calm_checkpoint_files.checkpoint IS 'Number of the checkpoint, as in pg_calm_checkpoints';
COMMENT ON COLUMN pg_calm_checkpoint_files.file IS 'Data or SLRU file, relative to the data directory if it is below it';
COMMENT ON COLUMN pg_calm_checkpoint_files.flush_hints IS 'Flush hints of the checkpointer for it (checkpoint_flush_after): calls of sync_file_range, or those that pg_calm does not pass on; those for the file under way come with the next file';
COMMENT ON COLUMN pg_calm_checkpoint_files.flush_hint_time IS 'How long these took, or how long the checkpointer was held in their place';
COMMENT ON COLUMN pg_calm_checkpoint_files.fsyncs IS 'fsync calls of it in the sync phase';
COMMENT ON COLUMN pg_calm_checkpoint_files.fsync_time IS 'How long these took, without the drain before them';

CREATE FUNCTION pg_calm_io_histogram(
    OUT scope text,
    OUT backend_type text,
    OUT operation text,
    OUT sampled_every integer,
    OUT lower_bound bigint,
    OUT upper_bound bigint,
    OUT count bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_io_histogram'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_io_histogram AS SELECT * FROM pg_calm_io_histogram();

COMMENT ON VIEW pg_calm_io_histogram IS 'How long calls for I/O took, in buckets of powers of two microseconds; empty buckets have no row';
COMMENT ON COLUMN pg_calm_io_histogram.scope IS 'server: since it started or pg_calm_reset(); checkpoint: during the last one that was completed';
COMMENT ON COLUMN pg_calm_io_histogram.backend_type IS 'Type of process, as in pg_stat_activity';
COMMENT ON COLUMN pg_calm_io_histogram.operation IS 'write: pwrite of a data file (not in mode off); writeback: from the start of a data file''s writeback until it was over, as the worker saw it, or the server''s own flush hint; fsync: of a data file; fsync other: of anything else. WAL is not seen with the usual wal_sync_method';
COMMENT ON COLUMN pg_calm_io_histogram.sampled_every IS 'One of so many calls was timed';
COMMENT ON COLUMN pg_calm_io_histogram.lower_bound IS 'Microseconds that the calls of this bucket took at least';
COMMENT ON COLUMN pg_calm_io_histogram.upper_bound IS 'Microseconds that they stayed below; null: no limit';
COMMENT ON COLUMN pg_calm_io_histogram.count IS 'Calls timed in this bucket';

CREATE FUNCTION pg_calm_governor(
    OUT input text,
    OUT state text,
    OUT object text,
    OUT unit text,
    OUT value double precision,
    OUT value_limit double precision,
    OUT drain_rate double precision,
    OUT allowed_rate double precision,
    OUT binding boolean,
    OUT wal_rate double precision,
    OUT total_allowed_rate double precision,
    OUT holds bigint,
    OUT held_time double precision,
    OUT releases bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_governor'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_governor AS SELECT * FROM pg_calm_governor();

COMMENT ON VIEW pg_calm_governor IS 'The governor''s inputs, as it last looked at them; counters start with the server';
COMMENT ON COLUMN pg_calm_governor.input IS 'wal_space: pg_calm.governor_wal_space; max_wal: pg_calm.governor_max_wal; lag: pg_calm.governor_max_lag; archive: pg_calm.governor_archive_backlog';
COMMENT ON COLUMN pg_calm_governor.state IS 'off: not asked for; unknown: can''t be read now, and limits nothing; watched: far from its limit; pacing: writers have a rate; released: did not drain for pg_calm.governor_patience, and limits nothing until it does; refusing: likewise, but statements that write fail';
COMMENT ON COLUMN pg_calm_governor.object IS 'What is behind: checkpoint, archive, a replication slot, or the application_name of the standby that is closest to its limit or furthest beyond';
COMMENT ON COLUMN pg_calm_governor.unit IS 'Of value and value_limit: bytes, or s for a lag in seconds';
COMMENT ON COLUMN pg_calm_governor.value IS 'wal_space: what is free for WAL, segments made ahead included; max_wal: WAL since the redo point of the last complete checkpoint; lag: WAL that the standby has not come to, or its age; archive: WAL that waits';
COMMENT ON COLUMN pg_calm_governor.value_limit IS 'wal_space: what is to be left free; else what value is to stay below';
COMMENT ON COLUMN pg_calm_governor.drain_rate IS 'How fast the object comes on: bytes of WAL per second; for checkpoint, bytes of data files that it writes per second';
COMMENT ON COLUMN pg_calm_governor.allowed_rate IS 'Bytes of WAL per second that this input allows; null: any';
COMMENT ON COLUMN pg_calm_governor.binding IS 'Whether it is the one for which sessions wait';
COMMENT ON COLUMN pg_calm_governor.wal_rate IS 'Bytes of WAL per second written, by all; the same in each row';
COMMENT ON COLUMN pg_calm_governor.total_allowed_rate IS 'Bytes of WAL per second that all may write: the smallest allowed_rate; null: any; the same in each row';
COMMENT ON COLUMN pg_calm_governor.holds IS 'Waits of sessions for this input; in shadow mode, that there would have been';
COMMENT ON COLUMN pg_calm_governor.held_time IS 'Time of these waits that are over, all sessions together, in milliseconds';
COMMENT ON COLUMN pg_calm_governor.releases IS 'Times that pg_calm.governor_patience was over';

CREATE FUNCTION pg_calm_governor_holds(
    OUT pid integer,
    OUT input text,
    OUT moment text,
    OUT since timestamptz,
    OUT held_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_governor_holds'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_governor_holds AS SELECT * FROM pg_calm_governor_holds();

COMMENT ON VIEW pg_calm_governor_holds IS 'Sessions that the governor holds now';
COMMENT ON COLUMN pg_calm_governor_holds.pid IS 'Process ID of the session, as in pg_stat_activity';
COMMENT ON COLUMN pg_calm_governor_holds.input IS 'For what it is held, as in pg_calm_governor';
COMMENT ON COLUMN pg_calm_governor_holds.moment IS 'committed: after a transaction, which is visible to all and has no locks; before statement: before the first statement that writes of a transaction';
COMMENT ON COLUMN pg_calm_governor_holds.since IS 'Since when it waits for its turn';
COMMENT ON COLUMN pg_calm_governor_holds.held_time IS 'Milliseconds since then';

CREATE FUNCTION pg_calm_wal(
    OUT state text,
    OUT reason text,
    OUT delay integer,
    OUT proposed_delay integer,
    OUT predicted_gain double precision,
    OUT measured_gain double precision,
    OUT commits_per_second double precision,
    OUT flushes_per_second double precision,
    OUT commits_per_flush double precision,
    OUT flush_time double precision,
    OUT short_of_operations boolean,
    OUT commits bigint,
    OUT flushes bigint,
    OUT waits bigint,
    OUT wait_time double precision,
    OUT trials bigint,
    OUT trials_kept bigint,
    OUT operations_saved bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_calm_wal'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_wal AS SELECT * FROM pg_calm_wal();

COMMENT ON VIEW pg_calm_wal IS 'Flushes of WAL, and how long commits wait so that others are flushed along (pg_calm.commit_delay); counters start with the server';
COMMENT ON COLUMN pg_calm_wal.state IS 'off: not asked for, or not possible; idle: too few commits to learn from; watching: nobody waits; trial: a wait is in force every second tenth of a second; waiting: but for a look now and then';
COMMENT ON COLUMN pg_calm_wal.reason IS 'Why';
COMMENT ON COLUMN pg_calm_wal.delay IS 'Microseconds that a commit sleeps now before it flushes, where pg_calm.commit_delay is auto; once commits are gathered it may be less; 0: it does not';
COMMENT ON COLUMN pg_calm_wal.proposed_delay IS 'Microseconds that would bring most commits per second, by when commits came while nobody waited; null: none would bring more';
COMMENT ON COLUMN pg_calm_wal.predicted_gain IS 'What that should bring: 0.1 is a tenth more commits per second';
COMMENT ON COLUMN pg_calm_wal.measured_gain IS 'What the wait brought that was tried last';
COMMENT ON COLUMN pg_calm_wal.commits_per_second IS 'Commits that wait for a flush, in the last tenth of a second or longer stretch that was looked at; null: not measured';
COMMENT ON COLUMN pg_calm_wal.flushes_per_second IS 'Flushes of WAL, likewise';
COMMENT ON COLUMN pg_calm_wal.commits_per_flush IS 'Commits in each of them';
COMMENT ON COLUMN pg_calm_wal.flush_time IS 'Mean time of a flush, likewise, in milliseconds';
COMMENT ON COLUMN pg_calm_wal.short_of_operations IS 'Whether WAL is on the data directory''s volume and nearly all of pg_calm.iops are used: a wait is then worth while for fuller flushes alone';
COMMENT ON COLUMN pg_calm_wal.commits IS 'Commits that wait for a flush, counted while pg_calm.commit_delay is auto somewhere';
COMMENT ON COLUMN pg_calm_wal.flushes IS 'Flushes of WAL by fdatasync or fsync, counted unless pg_calm.mode is off';
COMMENT ON COLUMN pg_calm_wal.waits IS 'Flushes that a commit waited before';
COMMENT ON COLUMN pg_calm_wal.wait_time IS 'Time of these waits, in milliseconds';
COMMENT ON COLUMN pg_calm_wal.trials IS 'Times that a wait was tried';
COMMENT ON COLUMN pg_calm_wal.trials_kept IS 'Times that it brought something, and was kept';
COMMENT ON COLUMN pg_calm_wal.operations_saved IS 'Flushes that as many commits would have needed without waiting, less those that there were';

CREATE FUNCTION pg_calm_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'pg_calm_reset'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_calm_reset() IS 'Forget the reports of checkpoints that are over, their files and the histograms; the counters of pg_calm_status stay';

-- paths and activity of all databases: as for pg_stat_activity's details
REVOKE ALL ON FUNCTION pg_calm_status() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_regions() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_checkpoints() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_checkpoint_files() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_checkpoint_file_calls() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_io_histogram() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_governor() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_governor_holds() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_wal() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_reset() FROM PUBLIC;
REVOKE ALL ON pg_calm_status FROM PUBLIC;
REVOKE ALL ON pg_calm_regions FROM PUBLIC;
REVOKE ALL ON pg_calm_checkpoints FROM PUBLIC;
REVOKE ALL ON pg_calm_checkpoint_files FROM PUBLIC;
REVOKE ALL ON pg_calm_io_histogram FROM PUBLIC;
REVOKE ALL ON pg_calm_governor FROM PUBLIC;
REVOKE ALL ON pg_calm_governor_holds FROM PUBLIC;
REVOKE ALL ON pg_calm_wal FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_calm_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_regions() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_checkpoints() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_checkpoint_files() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_checkpoint_file_calls() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_io_histogram() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_governor() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_governor_holds() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_wal() TO pg_monitor;
GRANT SELECT ON pg_calm_status TO pg_monitor;
GRANT SELECT ON pg_calm_regions TO pg_monitor;
GRANT SELECT ON pg_calm_checkpoints TO pg_monitor;
GRANT SELECT ON pg_calm_checkpoint_files TO pg_monitor;
GRANT SELECT ON pg_calm_io_histogram TO pg_monitor;
GRANT SELECT ON pg_calm_governor TO pg_monitor;
GRANT SELECT ON pg_calm_governor_holds TO pg_monitor;
GRANT SELECT ON pg_calm_wal TO pg_monitor;
