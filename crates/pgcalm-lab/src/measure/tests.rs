use super::*;
use hdrhistogram::Histogram;
use pgcalm_host::cpu_time::CpuTime;
use pgcalm_host::meminfo::MemInfo;

use crate::sampler::{InFlight, Volumes};

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
        volumes: None,
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
        caps_lifted: false,
        cached: [None, None],
        troubles: Vec::new(),
    }
}

#[test]
fn only_full_seconds_count_and_a_second_without_transactions_counts_as_zero() {
    // Five seconds from 100.4: the full ones are 101 to 104.
    let transactions = transactions(100.4, &[(100, 999), (101, 40), (102, 40), (104, 20), (105, 999)]);
    let samples = (100..=106).map(|s| sample(s, (s as u64 - 100) * 10)).collect();
    let run = figures(Recording { caps_lifted: true, ..recording(transactions, 5, samples) });
    assert!(run.caps_lifted);
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
fn what_the_machine_held_up_of_a_volume_is_summed_over_the_window() {
    let of = |held_up: [Option<f64>; 4]| {
        let transactions = transactions(100.0, &[(100, 1), (101, 1), (102, 1)]);
        let samples = held_up.into_iter().zip(100..).map(|(held_up_s, at)| Sample {
            volumes: held_up_s.map(|held_up_s| Volumes { held_up_s, ..Volumes::default() }),
            ..sample(at, 0)
        });
        figures(recording(transactions, 3, samples.collect()))
    };
    let run = of([Some(0.5), Some(0.5), Some(0.75), Some(1.75)]);
    assert_eq!(run.series.volume_held_up_ms, [0.0, 250.0, 1000.0]);
    assert_eq!(run.volume_held_up_s, Some(1.25));
    assert_eq!(of([None; 4]).volume_held_up_s, None);
}

#[test]
fn late_answers_of_a_volume_are_a_share_of_its_requests_in_the_window() {
    let of = |counts: [Option<(u64, u64)>; 4]| {
        let transactions = transactions(101.0, &[(101, 1), (102, 1)]);
        let samples = counts.into_iter().zip(100..).map(|(counts, at)| Sample {
            volumes: counts.map(|(late, requests)| Volumes { late, requests, ..Volumes::default() }),
            ..sample(at, 0)
        });
        figures(recording(transactions, 2, samples.collect())).volume_late_share
    };
    // Those before it are nothing to the run.
    assert_eq!(of([Some((0, 0)), Some((90, 100)), Some((90, 150)), Some((93, 300))]), Some(0.015));
    assert_eq!(of([Some((9, 10)); 4]), Some(0.0));
    assert_eq!(of([None; 4]), None);
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
    recording.checkpoints.complete = vec![checkpoint(90.0, 95.0), checkpoint(98.0, 104.5), checkpoint(105.0, 111.0)];
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
