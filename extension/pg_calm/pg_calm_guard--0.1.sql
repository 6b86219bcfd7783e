/* pg_calm_guard--0.1.sql */

\echo Use "CREATE EXTENSION pg_calm_guard" to load this file. \quit

CREATE FUNCTION pg_calm_guard(
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
    OUT releases bigint,
    OUT behind_since timestamptz,
    OUT full_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_guard'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_guard AS SELECT * FROM pg_calm_guard();

COMMENT ON VIEW pg_calm_guard IS 'The guard''s inputs, as it last looked at them; counters start with the server';
COMMENT ON COLUMN pg_calm_guard.input IS 'wal_space: pg_calm_guard.wal_space; max_wal: pg_calm_guard.max_wal; lag: pg_calm_guard.max_lag; archive: pg_calm_guard.archive_backlog';
COMMENT ON COLUMN pg_calm_guard.state IS 'off: not asked for; unknown: can''t be read now, or the worker does not respond, and limits nothing; watched: far from its limit; pacing: writers have a rate; released: did not drain for pg_calm_guard.patience, and limits nothing until it does; refusing: likewise, but statements that write fail';
COMMENT ON COLUMN pg_calm_guard.object IS 'What is behind: checkpoint, archive, a replication slot, WAL summarizer (17 and later), or the application_name of the standby that is closest to its limit or furthest beyond';
COMMENT ON COLUMN pg_calm_guard.unit IS 'Of value and value_limit: bytes, or s for a lag in seconds';
COMMENT ON COLUMN pg_calm_guard.value IS 'wal_space: what is free for WAL, segments made ahead included; max_wal: WAL since the redo point of the last complete checkpoint; lag: WAL that the standby has not come to, or its age; archive: WAL that waits';
COMMENT ON COLUMN pg_calm_guard.value_limit IS 'wal_space: what is to be left free; else what value is to stay below';
COMMENT ON COLUMN pg_calm_guard.drain_rate IS 'How fast the object comes on: bytes of WAL per second; for checkpoint, bytes of data files that it writes per second';
COMMENT ON COLUMN pg_calm_guard.allowed_rate IS 'Bytes of WAL per second that this input allows; null: any';
COMMENT ON COLUMN pg_calm_guard.binding IS 'Whether it is the one for which sessions wait';
COMMENT ON COLUMN pg_calm_guard.wal_rate IS 'Bytes of WAL per second written, by all; the same in each row';
COMMENT ON COLUMN pg_calm_guard.total_allowed_rate IS 'Bytes of WAL per second that all may write: the smallest allowed_rate; null: any; the same in each row';
COMMENT ON COLUMN pg_calm_guard.holds IS 'Waits of sessions for this input; in shadow mode, that there would have been';
COMMENT ON COLUMN pg_calm_guard.held_time IS 'Time of these waits that are over, all sessions together, in milliseconds';
COMMENT ON COLUMN pg_calm_guard.releases IS 'Times that pg_calm_guard.patience was over';
COMMENT ON COLUMN pg_calm_guard.behind_since IS 'wal_space, if full_at is there: since when what keeps the WAL, a replication slot, the WAL summarizer or the archive, has been behind';
COMMENT ON COLUMN pg_calm_guard.full_at IS 'wal_space: when the filesystem of pg_wal is full if all goes on as in the last minutes; null if not within hours';

CREATE FUNCTION pg_calm_guard_holds(
    OUT pid integer,
    OUT input text,
    OUT moment text,
    OUT since timestamptz,
    OUT held_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_guard_holds'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_guard_holds AS SELECT * FROM pg_calm_guard_holds();

COMMENT ON VIEW pg_calm_guard_holds IS 'Sessions that the guard holds now';
COMMENT ON COLUMN pg_calm_guard_holds.pid IS 'Process ID of the session, as in pg_stat_activity';
COMMENT ON COLUMN pg_calm_guard_holds.input IS 'For what it is held, as in pg_calm_guard';
COMMENT ON COLUMN pg_calm_guard_holds.moment IS 'committed: after a transaction, which is visible to all and has no locks; before statement: before the first statement that writes of a transaction';
COMMENT ON COLUMN pg_calm_guard_holds.since IS 'Since when it waits for its turn';
COMMENT ON COLUMN pg_calm_guard_holds.held_time IS 'Milliseconds since then';

-- activity of all databases: as for pg_stat_activity's details
REVOKE ALL ON FUNCTION pg_calm_guard() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_calm_guard_holds() FROM PUBLIC;
REVOKE ALL ON pg_calm_guard FROM PUBLIC;
REVOKE ALL ON pg_calm_guard_holds FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_calm_guard() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_calm_guard_holds() TO pg_monitor;
GRANT SELECT ON pg_calm_guard TO pg_monitor;
GRANT SELECT ON pg_calm_guard_holds TO pg_monitor;
