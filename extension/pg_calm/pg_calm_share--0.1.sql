/* pg_calm_share--0.1.sql */

\echo Use "CREATE EXTENSION pg_calm_share" to load this file. \quit

CREATE FUNCTION pg_calm_share(
    OUT device text,
    OUT slot integer,
    OUT own boolean,
    OUT name text,
    OUT pid integer,
    OUT weight integer,
    OUT wants boolean,
    OUT write_iops bigint,
    OUT write_bandwidth bigint,
    OUT checkpoint_phase double precision,
    OUT heartbeat_age double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_calm_share'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_calm_share AS SELECT * FROM pg_calm_share();

COMMENT ON VIEW pg_calm_share IS 'Instances that share the data directory''s device by pg_calm_share.directory, this one included; no row where nothing is shared';
COMMENT ON COLUMN pg_calm_share.device IS 'Major and minor number of the device at the bottom of what the data directory lies on';
COMMENT ON COLUMN pg_calm_share.slot IS 'Slot of the member in the file, from 0';
COMMENT ON COLUMN pg_calm_share.own IS 'Whether this is the instance that is asked';
COMMENT ON COLUMN pg_calm_share.name IS 'cluster_name of the member, or the last part of its data directory''s path; cut to 43 bytes';
COMMENT ON COLUMN pg_calm_share.pid IS 'Process ID of its writeback worker, in its own PID namespace';
COMMENT ON COLUMN pg_calm_share.weight IS 'Its pg_calm_share.weight';
COMMENT ON COLUMN pg_calm_share.wants IS 'Whether it has something to flush now';
COMMENT ON COLUMN pg_calm_share.write_iops IS 'Its share in write operations per second, if it has something to flush; null: not limited';
COMMENT ON COLUMN pg_calm_share.write_bandwidth IS 'Its share in bytes written per second, likewise';
COMMENT ON COLUMN pg_calm_share.checkpoint_phase IS 'Part of its checkpoint_timeout, on the host''s monotonic clock, at which its timed checkpoints start; 0 to 1';
COMMENT ON COLUMN pg_calm_share.heartbeat_age IS 'Seconds since it wrote its slot, as this one has read it last; after 5 it is not a member any more';

-- of other instances: as for pg_stat_activity's details
REVOKE ALL ON FUNCTION pg_calm_share() FROM PUBLIC;
REVOKE ALL ON pg_calm_share FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_calm_share() TO pg_monitor;
GRANT SELECT ON pg_calm_share TO pg_monitor;
