//! From what was recorded during a run to its figures.

use std::collections::BTreeMap;

use pgcalm_host::block_device::DeviceStat;

use crate::contest::report::{
    Backlog, Blocked, Cached, Checkpoint, Pace, Run, Series, ServerFailure, ServerLatency, Steadiness,
    TransactionSource, TroubleRun,
};
use crate::fsync_times::FsyncRecord;
use crate::sampler::Sample;
use crate::server_log::CheckpointLog;
use crate::server_sampler::{ServerSample, server_series};
use crate::transaction_log;
use crate::transaction_log::{Source, Transactions};
use crate::trouble::Told;

const MIB: f64 = (1 << 20) as f64;

/// Everything that was recorded during a run.
#[derive(Debug)]
pub(crate) struct Recording {
    /// From pgbench's logs, or counted in the server.
    pub transactions: Transactions,
    /// Duration that the load was asked for.
    pub seconds: u32,
    /// Samples in order of time.
    pub samples: Vec<Sample>,
    /// What the server told, in order of time.
    pub server: Vec<ServerSample>,
    /// Where processes were blocked.
    pub blocked: Vec<Blocked>,
    /// From the server's log.
    pub checkpoints: CheckpointLog,
    /// When the server gave up, in seconds of the epoch, and its words, if it did.
    pub server_failure: Option<(f64, String, Option<f64>)>,
    /// The least that was free on the file system with WAL.
    pub wal_free_min_mib: Option<f64>,
    /// From the module.
    pub module_status: BTreeMap<String, serde_json::Value>,
    /// What had been put off at the end, if that was measured.
    pub backlog: Option<Backlog>,
    /// Whether it was steady, of a run that was to become so.
    pub steadiness: Option<Steadiness>,
    /// How long calls of fsync took, if that was measured.
    pub fsync: Option<FsyncRecord>,
    /// Whether late clients ended only without caps.
    pub caps_lifted: bool,
    /// The page cache of the tables after set-up, and when the load had ended.
    pub cached: [Option<Cached>; 2],
    /// Trouble that there was.
    pub troubles: Vec<Told>,
}

/// Computes the figures over the full seconds of the run.
pub(crate) fn figures(recording: Recording) -> Run {
    let Recording {
        transactions,
        seconds,
        samples,
        server,
        blocked,
        checkpoints,
        server_failure,
        wal_free_min_mib,
        module_status,
        backlog,
        steadiness,
        fsync,
        caps_lifted,
        cached: [cached_at_start, cached_at_end],
        troubles,
    } = recording;
    let first = transactions.started.ceil() as i64;
    let mut end = transactions.started + f64::from(seconds);
    if let Source::Server { ended, .. } = transactions.source {
        end = end.min(ended);
    }
    let end = (end.floor() as i64).max(first + 1);

    // The server's time, of which full seconds are measured on the device.
    let ended = server_failure.as_ref().map_or(end as f64, |(time, ..)| time.clamp(first as f64, end as f64));
    let seconds_served = (ended.floor() as i64 - first).max(1) as usize;

    let mut series = series(&transactions, &samples, first, end);
    series.server = server_series(&server, first, end);
    let mut sorted = series.tps.clone();
    sorted.sort_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5);
    Run {
        tps_mean: mean(&series.tps),
        tps_median: median,
        tps_min: sorted[0],
        tps_p5: quantile(&sorted, 0.05),
        seconds_below_half_median: count(&series.tps, |tps| tps < median / 2.0),
        seconds_zero: count(&series.tps, |tps| tps == 0.0),
        transactions_from: match transactions.source {
            Source::Pgbench => TransactionSource::Pgbench,
            Source::Server { .. } => TransactionSource::Server,
        },
        latency_ms: match transactions.source {
            Source::Pgbench => Some(transaction_log::latency(&transactions.all)),
            Source::Server { .. } => None,
        },
        latency_server_ms: match transactions.source {
            Source::Pgbench => None,
            Source::Server { mean_ms, oldest_ms, .. } => Some(ServerLatency { mean: mean_ms, oldest: oldest_ms }),
        },
        caps_lifted,
        pace_ms: transactions.late().map(|late| Pace {
            latency_mean: transactions.all.mean() / 1e3,
            late_mean: late.sum_us as f64 / late.number as f64 / 1e3,
            late_max: late.max_us as f64 / 1e3,
        }),
        data_device: series.data_device(seconds_served),
        wal_device: series.wal_device(seconds_served),
        volume_held_up_s: (!series.volume_held_up_ms.is_empty())
            .then(|| series.volume_held_up_ms.iter().sum::<f64>() / 1e3),
        volume_late_share: late_share(&samples, first, end),
        backlog,
        steadiness,
        fsync: fsync.map(|record| record.in_window(first, end)),
        checkpoint_under_way_s: under_way(&checkpoints, ended),
        server_failure: server_failure.map(|(_time, message, up_again_s)| ServerFailure {
            at_s: ended - first as f64,
            message,
            up_again_s,
        }),
        wal_free_min_mib,
        checkpoints: in_window(checkpoints, first, end),
        troubles: in_seconds(troubles, first),
        cached_at_start,
        cached_at_end,
        series,
        module_status,
        blocked,
    }
}

fn series(transactions: &Transactions, samples: &[Sample], first: i64, end: i64) -> Series {
    let mut series = Series::default();
    for second in first..end {
        let ended = transactions.by_second.get(&second);
        series.tps.push(ended.map_or(0.0, |h| h.len() as f64));
        let latencies = ended.filter(|_| transactions.source == Source::Pgbench);
        let quantile = |q| latencies.map(|h| transaction_log::quantile_ms(h, q));
        series.latency_p50_ms.push(quantile(0.5));
        series.latency_p99_ms.push(quantile(0.99));
        series.latency_max_ms.push(latencies.map(|h| h.max() as f64 / 1e3));

        // The state at the end of the second, and what happened since its beginning.
        let Some((before, after)) = at(samples, second).zip(at(samples, second + 1)) else {
            push_empty(&mut series, samples.first());
            continue;
        };
        series.dirty_mib.push(after.memory.dirty_kib as f64 / 1024.0);
        series.writeback_mib.push(after.memory.writeback_kib as f64 / 1024.0);
        let data = Done::between(&before.data, &after.data);
        series.data_write_ops.push(data.write_ops);
        series.data_write_mib.push(data.write_mib);
        series.data_read_ops.push(data.read_ops);
        series.data_read_mib.push(data.read_mib);
        series.data_flush_ops.extend(data.flush_ops);
        if let Some((before, after)) = before.wal.as_ref().zip(after.wal.as_ref()) {
            let wal = Done::between(before, after);
            series.wal_write_ops.push(wal.write_ops);
            series.wal_write_mib.push(wal.write_mib);
            series.wal_read_ops.push(wal.read_ops);
            series.wal_read_mib.push(wal.read_mib);
            series.wal_flush_ops.extend(wal.flush_ops);
        }
        series.cpu_busy_percent.push(after.cpu.busy_percent_since(&before.cpu));
        series.cpu_steal_percent.push(after.cpu.steal_percent_since(&before.cpu));
        let volumes = before.volumes.zip(after.volumes);
        series.volume_held_up_ms.extend(volumes.map(|(before, after)| (after.held_up_s - before.held_up_s) * 1e3));
        series.blocked_processes.push(after.blocked);
        let depth = after.data_in_flight;
        series.data_in_flight_mean.push(depth.mean());
        series.data_in_flight_max.push(depth.max as f64);
        if after.wal.is_some() {
            let depth = after.wal_in_flight;
            series.wal_in_flight_mean.push(depth.mean());
            series.wal_in_flight_max.push(depth.max as f64);
        }
    }
    if !samples.iter().any(|sample| sample.data_in_flight.is_known()) {
        series.data_in_flight_mean.clear();
        series.data_in_flight_max.clear();
    }
    if !samples.iter().any(|sample| sample.wal_in_flight.is_known()) {
        series.wal_in_flight_mean.clear();
        series.wal_in_flight_max.clear();
    }
    series
}

/// Of the requests that volumes got from the first sample of the window to the last.
fn late_share(samples: &[Sample], first: i64, end: i64) -> Option<f64> {
    let in_window = samples.iter().filter(|sample| (first..=end).contains(&sample.second));
    let mut volumes = in_window.filter_map(|sample| sample.volumes);
    let before = volumes.next()?;
    let after = volumes.next_back().unwrap_or(before);
    let late = after.late.saturating_sub(before.late) as f64;
    Some(late / after.requests.saturating_sub(before.requests).max(1) as f64)
}

/// The sample taken at the beginning of `second`, or the last before it if that one is missing: what happened then
/// counts for the next second that has a sample.
fn at(samples: &[Sample], second: i64) -> Option<&Sample> {
    let after = samples.partition_point(|sample| sample.second <= second);
    samples.get(after.checked_sub(1)?)
}

/// A second without a sample, which is one before the first.
fn push_empty(series: &mut Series, first: Option<&Sample>) {
    for values in [
        &mut series.dirty_mib,
        &mut series.writeback_mib,
        &mut series.data_write_ops,
        &mut series.data_write_mib,
        &mut series.data_read_ops,
        &mut series.data_read_mib,
        &mut series.cpu_busy_percent,
        &mut series.cpu_steal_percent,
        &mut series.data_in_flight_mean,
        &mut series.data_in_flight_max,
    ] {
        values.push(0.0);
    }
    series.blocked_processes.push(0);
    let Some(first) = first else { return };
    series.volume_held_up_ms.extend(first.volumes.map(|_| 0.0));
    if first.data.flush_ops.is_some() {
        series.data_flush_ops.push(0.0);
    }
    if let Some(wal) = first.wal {
        for values in [
            &mut series.wal_write_ops,
            &mut series.wal_write_mib,
            &mut series.wal_read_ops,
            &mut series.wal_read_mib,
            &mut series.wal_in_flight_mean,
            &mut series.wal_in_flight_max,
        ] {
            values.push(0.0);
        }
        series.wal_flush_ops.extend(wal.flush_ops.map(|_| 0.0));
    }
}

/// What a device did between two samples.
struct Done {
    read_ops: f64,
    read_mib: f64,
    write_ops: f64,
    write_mib: f64,
    flush_ops: Option<f64>,
}

impl Done {
    fn between(before: &DeviceStat, after: &DeviceStat) -> Self {
        let delta = |read: fn(&DeviceStat) -> u64| read(after).saturating_sub(read(before)) as f64;
        Self {
            read_ops: delta(|stat| stat.read_ops),
            read_mib: delta(|stat| stat.read_bytes) / MIB,
            write_ops: delta(|stat| stat.write_ops),
            write_mib: delta(|stat| stat.write_bytes) / MIB,
            flush_ops: before.flush_ops.zip(after.flush_ops).map(|(before, after)| after.saturating_sub(before) as f64),
        }
    }
}

/// How long a checkpoint had been running at `ended`. It may be complete by now: the drain is in the log, too.
fn under_way(log: &CheckpointLog, ended: f64) -> Option<f64> {
    log.complete
        .iter()
        .filter(|checkpoint| checkpoint.end_s > ended)
        .map(|checkpoint| checkpoint.start_s)
        .chain(log.running.iter().map(|(start, _reason)| *start))
        .map(|start| ended - start)
        .find(|seconds| *seconds > 0.0)
}

fn in_window(log: CheckpointLog, first: i64, end: i64) -> Vec<Checkpoint> {
    let length = (end - first) as f64;
    log.complete
        .into_iter()
        .map(|checkpoint| Checkpoint {
            start_s: checkpoint.start_s - first as f64,
            end_s: checkpoint.end_s - first as f64,
            ..checkpoint
        })
        .filter(|checkpoint| checkpoint.end_s >= 0.0 && checkpoint.end_s <= length)
        .collect()
}

fn in_seconds(troubles: Vec<Told>, first: i64) -> Vec<TroubleRun> {
    let second = |time: f64| time - first as f64;
    troubles
        .into_iter()
        .map(|told| TroubleRun {
            name: told.name,
            from_s: told.from.map(second),
            until_s: told.until.map(second),
            done: told.done,
            undisturbed: told.undisturbed,
            failure: told.failure,
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Of sorted values; between two of them in proportion.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

fn count(values: &[f64], condition: impl Fn(f64) -> bool) -> u32 {
    values.iter().filter(|value| condition(**value)).count() as u32
}

#[cfg(test)]
mod tests;
