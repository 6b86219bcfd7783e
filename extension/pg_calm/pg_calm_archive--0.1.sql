/* pg_calm_archive--0.1.sql */

\echo Use "CREATE EXTENSION pg_calm_archive" to load this file. \quit

CREATE FUNCTION pg_calm_archive(
    OUT state text,
    OUT directory text,
    OUT compression text,
    OUT workers integer,
    OUT queue_files bigint,
    OUT queue_bytes bigint,
    OUT oldest_file text,
    OUT oldest_since timestamptz,
    OUT free_bytes bigint,
    OUT archive_rate double precision,
    OUT archived_files bigint,
    OUT archived_bytes bigint,
    OUT written_bytes bigint,
    OUT existing_files bigint,
    OUT failures bigint,
    OUT file_syncs bigint,
    OUT directory_syncs bigint,
    OUT last_archived_file text,
    OUT last_archived_time timestamptz,
    OUT last_error text,
    OUT last_error_file text,
    OUT last_error_time timestamptz)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_calm_archive'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_archive AS SELECT * FROM pg_calm_archive();

COMMENT ON VIEW pg_calm_archive IS 'WAL archiving: what waits, and what pg_calm as the archive_library has done';
COMMENT ON COLUMN pg_calm_archive.state IS 'off: archive_mode is; pg_calm: archive_library is pg_calm_archive; other: another library, or a command';
COMMENT ON COLUMN pg_calm_archive.directory IS 'pg_calm_archive.directory';
COMMENT ON COLUMN pg_calm_archive.compression IS 'pg_calm_archive.compression';
COMMENT ON COLUMN pg_calm_archive.workers IS 'Processes that copy, the archiver included; 0 unless state is pg_calm';
COMMENT ON COLUMN pg_calm_archive.queue_files IS 'Files announced in pg_wal/archive_status and not archived, whatever archives them';
COMMENT ON COLUMN pg_calm_archive.queue_bytes IS 'Their length';
COMMENT ON COLUMN pg_calm_archive.oldest_file IS 'The one that is archived next';
COMMENT ON COLUMN pg_calm_archive.oldest_since IS 'When that was announced';
COMMENT ON COLUMN pg_calm_archive.free_bytes IS 'Free space of pg_wal''s filesystem, as the server may use it';
COMMENT ON COLUMN pg_calm_archive.archive_rate IS 'Bytes of WAL per second archived by pg_calm, before compression, in the last minute';
COMMENT ON COLUMN pg_calm_archive.archived_files IS 'Files that pg_calm has archived, durably, since the server started; so for all that follow up to last_error_time';
COMMENT ON COLUMN pg_calm_archive.archived_bytes IS 'Their length before compression';
COMMENT ON COLUMN pg_calm_archive.written_bytes IS 'Bytes written to the archive';
COMMENT ON COLUMN pg_calm_archive.existing_files IS 'Of archived_files, those that were in the archive already with the same content';
COMMENT ON COLUMN pg_calm_archive.failures IS 'Times that the server was told that a file could not be archived';
COMMENT ON COLUMN pg_calm_archive.file_syncs IS 'fsync calls for files of the archive';
COMMENT ON COLUMN pg_calm_archive.directory_syncs IS 'fsync calls for the archive directory';
COMMENT ON COLUMN pg_calm_archive.last_archived_file IS 'The last file archived';
COMMENT ON COLUMN pg_calm_archive.last_archived_time IS 'When it was';
COMMENT ON COLUMN pg_calm_archive.last_error IS 'Why a file could not be archived, the last time';
COMMENT ON COLUMN pg_calm_archive.last_error_file IS 'Which file that was';
COMMENT ON COLUMN pg_calm_archive.last_error_time IS 'When that was';

-- names of files and errors: as for pg_stat_activity's details
REVOKE ALL ON FUNCTION pg_calm_archive() FROM PUBLIC;
REVOKE ALL ON pg_calm_archive FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_calm_archive() TO pg_monitor;
GRANT SELECT ON pg_calm_archive TO pg_monitor;
