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
pub struct Recording {
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
    /// The page cache of the tables after set-up, and when the load had ended.
    pub cached: [Option<Cached>; 2],
    /// Trouble that there was.
    pub troubles: Vec<Told>,
}

/// Computes the figures over the full seconds of the run.
pub fn figures(recording: Recording) -> Run {
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
        pace_ms: transactions.late().map(|late| Pace {
            latency_mean: transactions.all.mean() / 1e3,
            late_mean: late.sum_us as f64 / late.number as f64 / 1e3,
            late_max: late.max_us as f64 / 1e3,
        }),
        data_device: series.data_device(seconds_served),
        wal_device: series.wal_device(seconds_served),
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
    let Some(first) = first else {
        return;
    };
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
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use pgcalm_host::cpu_time::CpuTime;
    use pgcalm_host::meminfo::MemInfo;

    use crate::sampler::InFlight;

    fn transactions(started: f64, seconds: &[(i64, u64)]) -> Transactions {
        let mut all = Histogram::new(3).unwrap();
        let by_second = seconds
            .iter()
            .map(|(second, number)| {
                let mut histogram = Histogram::new(3).unwrap();
                histogram.record_n(1000, *number).unwrap();
                all.record_n(1000, *number).unwrap();
                (*second, histogram)
            })
            .collect();
        Transactions { all, by_second, late: BTreeMap::new(), started, source: Source::Pgbench }
    }

    #[test]
    fn flushes_are_told_apart_and_a_device_that_is_not_there_has_no_figures() {
        let transactions = transactions(100.0, &[(100, 1), (101, 1)]);
        let counted = |second: i64, done: u64| {
            let device = DeviceStat {
                read_ops: done,
                read_bytes: done << 20,
                write_ops: done * 4,
                write_bytes: done << 20,
                flush_ops: Some(done * 3),
                ..DeviceStat::default()
            };
            Sample { data: device, ..sample(second, 0) }
        };
        let mut samples = vec![counted(100, 0), counted(101, 10), counted(102, 20)];
        let run = figures(recording(transactions, 2, samples.clone()));
        assert_eq!(run.data_device.read_ops_per_s, 10.0);
        assert_eq!(run.data_device.read_mib_per_s, 10.0);
        assert_eq!(run.data_device.write_ops_per_s, 10.0);
        assert_eq!(run.data_device.flush_ops_per_s, Some(30.0));
        assert_eq!(run.series.data_write_ops, [40.0, 40.0]);
        assert_eq!(run.wal_device, None);
        assert_eq!(run.series.wal_write_ops, [0.0; 0]);

        // A second before the first sample has its place in the series of both devices.
        for sample in &mut samples {
            sample.wal = Some(sample.data);
        }
        samples.remove(0);
        let transactions = self::transactions(100.0, &[(100, 1), (101, 1)]);
        let run = figures(recording(transactions, 2, samples));
        assert_eq!(run.series.wal_write_ops, [0.0, 40.0]);
        assert_eq!(run.series.wal_flush_ops, [0.0, 30.0]);
        assert_eq!(run.series.data_flush_ops, [0.0, 30.0]);
        assert_eq!(run.series.wal_read_ops, [0.0, 10.0]);
        assert_eq!(run.wal_device.unwrap().write_ops_per_s, 5.0);
    }

    fn sample(second: i64, write_ops: u64) -> Sample {
        Sample {
            second,
            memory: MemInfo { total_kib: 1 << 20, dirty_kib: 2048, writeback_kib: 1024 },
            data: DeviceStat { write_ops, write_bytes: write_ops << 20, ..DeviceStat::default() },
            wal: None,
            cpu: CpuTime { busy: write_ops * 4, stolen: write_ops, total: write_ops * 20 },
            blocked: 1,
            data_in_flight: {
                let mut seen = InFlight::default();
                seen.see(2);
                seen.see(6);
                seen
            },
            wal_in_flight: InFlight::default(),
        }
    }

    fn recording(transactions: Transactions, seconds: u32, samples: Vec<Sample>) -> Recording {
        Recording {
            transactions,
            seconds,
            samples,
            server: Vec::new(),
            blocked: Vec::new(),
            checkpoints: CheckpointLog::default(),
            server_failure: None,
            wal_free_min_mib: None,
            module_status: BTreeMap::new(),
            backlog: None,
            steadiness: None,
            fsync: None,
            cached: [None, None],
            troubles: Vec::new(),
        }
    }

    #[test]
    fn only_full_seconds_count_and_a_second_without_transactions_counts_as_zero() {
        // Five seconds from 100.4: the full ones are 101 to 104.
        let transactions = transactions(100.4, &[(100, 999), (101, 40), (102, 40), (104, 20), (105, 999)]);
        let samples = (100..=106).map(|s| sample(s, (s as u64 - 100) * 10)).collect();
        let run = figures(recording(transactions, 5, samples));
        assert_eq!(run.series.tps, [40.0, 40.0, 0.0, 20.0]);
        assert_eq!(run.series.latency_p50_ms[2], None);
        assert_eq!(run.tps_mean, 25.0);
        assert_eq!(run.tps_median, 30.0);
        assert_eq!(run.tps_min, 0.0);
        assert_eq!(run.seconds_zero, 1);
        assert_eq!(run.seconds_below_half_median, 1);
        assert_eq!(run.data_device.write_ops_per_s, 10.0);
        assert_eq!(run.data_device.write_mib_per_s, 10.0);
        assert_eq!(run.series.dirty_mib, [2.0; 4]);
        assert_eq!(run.series.cpu_busy_percent, [20.0; 4]);
        assert_eq!(run.series.cpu_steal_percent, [5.0; 4]);
        assert_eq!(run.series.data_in_flight_mean, [4.0; 4]);
        assert_eq!(run.series.data_in_flight_max, [6.0; 4]);
        assert_eq!(run.series.wal_in_flight_max, [0.0; 0]);
    }

    #[test]
    fn what_the_server_counted_has_no_quantiles_and_ends_with_the_load() {
        let mut transactions = transactions(100.0, &[(100, 8), (101, 8), (102, 4)]);
        transactions.source = Source::Server { ended: 102.5, mean_ms: 12.0, oldest_ms: 800.0 };
        let run = figures(recording(transactions, 3, Vec::new()));
        assert_eq!(run.series.tps, [8.0, 8.0]);
        assert_eq!(run.series.latency_p99_ms, [None, None]);
        assert_eq!(run.latency_ms, None);
        let latency = run.latency_server_ms.unwrap();
        assert_eq!((latency.mean, latency.oldest), (12.0, 800.0));
        assert_eq!(run.transactions_from, TransactionSource::Server);
    }

    #[test]
    fn a_lost_sample_moves_its_operations_to_the_next_second_and_loses_none() {
        let transactions = transactions(100.0, &[(100, 1), (101, 1), (102, 1)]);
        let samples = vec![sample(100, 0), sample(101, 10), sample(103, 30)];
        let run = figures(recording(transactions, 3, samples));
        assert_eq!(run.series.data_write_ops, [10.0, 0.0, 20.0]);
    }

    #[test]
    fn the_time_after_the_servers_end_counts_for_tps_and_not_for_the_device() {
        let transactions = transactions(100.0, &[(100, 8), (101, 8)]);
        let samples = vec![sample(100, 0), sample(101, 10), sample(102, 20)];
        let mut recording = recording(transactions, 4, samples);
        recording.checkpoints.running = Some((100.5, "time".into()));
        recording.server_failure = Some((102.25, "No space left on device".into(), Some(1.5)));
        let run = figures(recording);
        assert_eq!(run.tps_mean, 4.0);
        assert_eq!(run.seconds_zero, 2);
        assert_eq!(run.data_device.write_ops_per_s, 10.0);
        assert_eq!(run.checkpoint_under_way_s, Some(1.75));
        let failure = run.server_failure.unwrap();
        assert_eq!((failure.at_s, failure.up_again_s), (2.25, Some(1.5)));
        assert_eq!(failure.message, "No space left on device");
    }

    #[test]
    fn checkpoints_are_told_in_seconds_of_the_window_and_those_outside_left_out() {
        let checkpoint = |start_s, end_s| Checkpoint {
            start_s,
            end_s,
            reason: "time".into(),
            buffers: 1,
            write_s: 0.0,
            sync_s: 0.0,
            total_s: 0.0,
            sync_files: 0,
            longest_sync_s: 0.0,
        };
        let mut recording = recording(transactions(100.0, &[(100, 1)]), 10, Vec::new());
        recording.checkpoints.complete =
            vec![checkpoint(90.0, 95.0), checkpoint(98.0, 104.5), checkpoint(105.0, 111.0)];
        let run = figures(recording);
        let times: Vec<(f64, f64)> = run.checkpoints.iter().map(|c| (c.start_s, c.end_s)).collect();
        assert_eq!(times, [(-2.0, 4.5)]);
        // That of second 105 was not complete at the end, and is now.
        assert_eq!(run.checkpoint_under_way_s, Some(5.0));
    }

    #[test]
    fn trouble_is_told_in_seconds_of_the_window() {
        let mut recording = recording(transactions(100.4, &[(101, 1)]), 10, Vec::new());
        recording.troubles = vec![Told { name: "pg-dump".into(), from: Some(103.5), ..Told::default() }];
        let run = figures(recording);
        assert_eq!(run.troubles[0].from_s, Some(2.5));
        assert_eq!(run.troubles[0].until_s, None);
    }

    #[test]
    fn a_checkpoint_that_is_not_complete_is_told_unless_it_began_after_the_window() {
        let under_way = |start: f64| {
            let mut recording = recording(transactions(100.0, &[(100, 1)]), 10, Vec::new());
            recording.checkpoints.running = Some((start, "time".into()));
            figures(recording).checkpoint_under_way_s
        };
        assert_eq!(under_way(103.5), Some(6.5));
        assert_eq!(under_way(110.5), None);
    }
}
