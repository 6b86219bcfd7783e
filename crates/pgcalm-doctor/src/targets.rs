//! What values of `pg_calm.stop_target` and `pg_calm.recovery_target` would cost, by what the last WAL tells, with the module or without.

mod cost;
mod curve;
pub mod report;
mod wal;

use std::time::Duration;

use anyhow::Context;
use pgcalm_host::{Failure, HostRoot, Unknown};

use crate::collect::{self, Options};
use crate::estimate;
use crate::rules::read;
use cost::Model;
use report::Report;
use wal::Range;

/// What pg_calm takes before it has seen a recovery: `SLOWEST_REPLAY` of `targets.c`.
const SLOWEST_REPLAY: f64 = 16.0 * 1_048_576.0;

/// Reads WAL that is no older, and no more than that, and says what follows. A server that could not be asked, or is not this host's,
/// is an error.
pub fn run(root: &HostRoot, options: &Options, age: Duration, wal_bytes: u64) -> anyhow::Result<Report> {
    let (facts, mut connection) = collect::collect(root, options)?.connected()?;
    let told = |why: Unknown| Failure::Host(why.unknown);
    let pending = estimate::pending_with(&facts, options).map_err(told)?;
    let server = read::server(&facts).map_err(told)?;
    if server.in_recovery && pending.write_iops.is_none() && pending.write_bandwidth.is_none() {
        let why = "a standby has a stop target only, and no cap of its volume can be seen: give --iops or --bandwidth";
        return Err(Failure::Usage(why.to_string()).into());
    }
    let instance = read::instance(&facts).map_err(told)?;
    let directory = instance.places.iter().find(|place| place.role == "wal").map(|place| place.path.clone());
    let segment_bytes = read::bytes(server, "wal_segment_size").map_err(told)?.unwrap_or(16 << 20);
    let end: Option<i64> = connection
        .client
        .query_one(
            "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
             ELSE pg_current_wal_flush_lsn() END, '0/0')::int8",
            &[],
        )
        .context("ask for the end of WAL")?
        .get(0);
    let range = Range {
        pid: instance.pid,
        directory: directory
            .ok_or_else(|| Failure::Host("where the server's WAL is can't be seen: run it as root".into()))?,
        end: end.unwrap_or(0) as u64,
        bytes: wal_bytes,
        age,
        segment_bytes,
    };
    let observed = wal::read(root, &range)?;

    let replay = estimate::replay_rate(&facts);
    let has_images = read::is_on(server, "full_page_writes").map_err(told)?;
    let image_bytes = match observed.images {
        _ if !has_images => 0.0,
        0 => pending.block_bytes as f64,
        images => observed.image_bytes as f64 / images as f64,
    };
    let model = Model {
        curve: observed.curve.clone(),
        write_iops: pending.write_iops.map(|iops| iops.max(1) as f64),
        write_bandwidth: pending.write_bandwidth.map(|bytes| bytes.max(1) as f64),
        block_bytes: pending.block_bytes as f64,
        shared_buffers: pending.shared_buffers as f64,
        wal_rate: observed.wal_bytes.saturating_sub(observed.image_bytes) as f64 / observed.seconds,
        image_bytes,
        replay_rate: (!server.in_recovery).then(|| replay.unwrap_or(SLOWEST_REPLAY)),
        checkpoint_timeout: read::seconds(server, "checkpoint_timeout").map_err(told)?,
        completion_target: read::number(server, "checkpoint_completion_target").map_err(told)?,
        max_wal_bytes: read::bytes(server, "max_wal_size").map_err(told)?.unwrap_or(0) as f64,
        segment_bytes: segment_bytes as f64,
    };
    Ok(Report {
        write_iops: pending.write_iops,
        write_bandwidth: pending.write_bandwidth,
        replay_bytes_per_second: model.replay_rate,
        replay_was_seen: replay.is_some(),
        stop: model.stop(),
        recovery: model.recovery(),
        observed,
    })
}
