//! A made-up report. SYNTHETIC: shapes like those seen in the lab, but nothing here was ever measured.

#![allow(dead_code, reason = "each example uses its part")]

use std::collections::BTreeMap;

use pgcalm_lab::contest::report::{
    Blocked, Cap, Checkpoint, Contestant, DeviceRates, Report, Run, Series, TransactionSource,
};
use pgcalm_lab::report::{Host, Latency};
use serde_json::json;

/// Said wherever a reader could take the numbers for measured ones.
const LABEL: &str = "SYNTHETIC example, not measured";

/// Numbers that look random and are the same every time.
struct Noise(u64);

impl Noise {
    /// Within -1..1, mostly near 0.
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f64 / (1u64 << 24) as f64
        };
        uniform() + uniform() - 1.0
    }
}

/// How a contestant behaves.
struct Shape {
    tps: f64,
    noise: f64,
    /// TPS while a checkpoint syncs, and for how many seconds it does.
    stalled_tps: f64,
    sync_s: f64,
    write_ops: f64,
    write_mib: f64,
    dirty_mib: f64,
}

fn run(shape: &Shape, seconds: usize, seed: u64) -> Run {
    let mut noise = Noise(seed);
    let checkpoints: Vec<Checkpoint> = [-8.0, 52.0, 112.0, 172.0]
        .into_iter()
        .filter(|start| start + 54.0 + shape.sync_s < seconds as f64)
        .map(|start| {
            let write_s = 54.0 + noise.next();
            let sync_s = shape.sync_s * (1.0 + 0.1 * noise.next());
            Checkpoint {
                start_s: start,
                end_s: start + write_s + sync_s,
                reason: "time".to_string(),
                buffers: 29_817,
                write_s,
                sync_s,
                total_s: write_s + sync_s,
                sync_files: 9,
                longest_sync_s: sync_s * 0.7,
            }
        })
        .collect();
    let mut series = Series::default();
    for second in 0..seconds {
        let now = second as f64 + 0.5;
        let stalled = shape.sync_s > 1.0
            && checkpoints
                .iter()
                .any(|checkpoint| now > checkpoint.end_s - checkpoint.sync_s && now < checkpoint.end_s + 3.0);
        let tps = if stalled { shape.stalled_tps } else { shape.tps };
        let tps = (tps * (1.0 + shape.noise * noise.next())).round().max(0.0);
        series.tps.push(tps);
        let latency = |factor: f64| (tps > 0.0).then(|| 4000.0 / tps * factor);
        series.latency_p50_ms.push(latency(0.9));
        series.latency_p99_ms.push(latency(if stalled { 30.0 } else { 2.2 + noise.next() }));
        series.latency_max_ms.push(latency(if stalled { 90.0 } else { 6.0 + 3.0 * noise.next() }));
        let phase = ((now + 8.0) % 60.0) / 60.0;
        series.dirty_mib.push(shape.dirty_mib * (0.3 + 0.7 * phase) * (1.0 + 0.05 * noise.next()));
        series.writeback_mib.push(if stalled { 420.0 } else { 12.0 } * (1.0 + 0.4 * noise.next()));
        series.data_write_ops.push((shape.write_ops * (1.0 + 0.1 * noise.next())).round());
        series.data_write_mib.push(shape.write_mib * (1.0 + 0.1 * noise.next()));
        series.data_read_ops.push(0.0);
        series.wal_write_ops.push(tps * 0.9);
        series.wal_write_mib.push(tps * 0.008);
        series.cpu_busy_percent.push(tps / 60.0);
        series.cpu_steal_percent.push(0.0);
        series.blocked_processes.push(if stalled { 5 } else { 0 });
    }
    let mut sorted = series.tps.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |fraction: f64| {
        let index = (sorted.len() as f64 * fraction) as usize;
        sorted.get(index).copied().unwrap_or(0.0)
    };
    let median = at(0.5);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let seconds_where = |test: &dyn Fn(f64) -> bool| sorted.iter().filter(|tps| test(**tps)).count() as u32;
    let stalls = shape.sync_s > 1.0;
    Run {
        volume_held_up_s: None,
        volume_late_share: None,
        tps_mean: mean(&series.tps),
        tps_median: median,
        tps_min: at(0.0),
        tps_p5: at(0.05),
        seconds_below_half_median: seconds_where(&|tps| tps < median / 2.0),
        seconds_zero: seconds_where(&|tps| tps == 0.0),
        transactions_from: TransactionSource::Pgbench,
        latency_ms: Some(Latency {
            p50: 3600.0 / shape.tps,
            p99: if stalls { 412.7 } else { 2.83 },
            p999: if stalls { 4120.0 } else { 6.4 },
            max: if stalls { 14_210.5 } else { 38.25 },
        }),
        latency_server_ms: None,
        caps_lifted: false,
        pace_ms: None,
        data_device: series.data_device(seconds),
        wal_device: series.wal_device(seconds),
        backlog: None,
        steadiness: None,
        fsync: None,
        checkpoint_under_way_s: None,
        server_failure: None,
        troubles: Vec::new(),
        cached_at_start: None,
        cached_at_end: None,
        wal_free_min_mib: None,
        checkpoints,
        series,
        module_status: BTreeMap::new(),
        blocked: if stalls {
            vec![
                Blocked {
                    process: "checkpointer".to_string(),
                    stack: ["folio_wait_bit", "folio_wait_writeback", "file_write_and_wait_range", "ext4_sync_file"]
                        .map(String::from)
                        .to_vec(),
                    samples: 44,
                },
                Blocked { process: "client backend".to_string(), stack: Vec::new(), samples: 12 },
            ]
        } else {
            Vec::new()
        },
    }
}

/// Where reports were made.
pub(crate) fn host() -> Host {
    Host {
        kernel: "6.18.5".to_string(),
        cpus: 2,
        memory_mib: 24_035,
        postgres: "PostgreSQL 15.20 (Debian 15.20-1.pgdg120+1)".to_string(),
        pgcalm: "0.1.0".to_string(),
        module: None,
        started_at: "2000-01-01T00:00:00Z".to_string(),
        sysctls: BTreeMap::from([
            ("vm.dirty_background_ratio".to_string(), "40".to_string()),
            ("vm.dirty_ratio".to_string(), "60".to_string()),
            ("vm.dirty_expire_centisecs".to_string(), "30000".to_string()),
        ]),
        cap_mechanism: "cgroup-v1-root".to_string(),
    }
}

/// A report of four contestants.
pub(crate) fn report(seconds: usize, repeats: u64) -> Report {
    let contestant = |name: &str, description: &str, settings: &[(&str, &str)], shape: Shape| Contestant {
        name: name.to_string(),
        description: format!("{description} ({LABEL})"),
        server_settings: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        held_up_runs: 0,
        runs: (0..repeats).map(|repeat| run(&shape, seconds, 1 + repeat + 1000 * name.len() as u64)).collect(),
    };
    let stock = Shape {
        tps: 3300.0,
        noise: 0.22,
        stalled_tps: 0.0,
        sync_s: 15.0,
        write_ops: 790.0,
        write_mib: 7.1,
        dirty_mib: 2100.0,
    };
    let tuned = Shape {
        tps: 3420.0,
        noise: 0.12,
        stalled_tps: 140.0,
        sync_s: 11.0,
        write_ops: 770.0,
        write_mib: 6.8,
        dirty_mib: 2400.0,
    };
    let calm = Shape {
        tps: 3640.0,
        noise: 0.025,
        stalled_tps: 0.0,
        sync_s: 0.004,
        write_ops: 278.0,
        write_mib: 61.0,
        dirty_mib: 800.0,
    };
    let uncapped = Shape {
        tps: 3670.0,
        noise: 0.02,
        stalled_tps: 0.0,
        sync_s: 0.4,
        write_ops: 2050.0,
        write_mib: 18.5,
        dirty_mib: 900.0,
    };
    let mut contestants = vec![
        contestant("stock", "Default settings for writeback.", &[], stock),
        contestant(
            "stock-tuned",
            "The best settings for writeback that stock has.",
            &[("backend_flush_after", "0"), ("checkpoint_flush_after", "0"), ("max_wal_size", "8GB")],
            tuned,
        ),
        contestant("pg_calm", "The module, nothing else set.", &[("shared_preload_libraries", "pg_calm")], calm),
        contestant("stock-uncapped", "Stock with the data volume's caps lifted.", &[], uncapped),
    ];
    for run in &mut contestants[2].runs {
        run.module_status = BTreeMap::from([
            ("mode".to_string(), json!("on")),
            ("degraded_reason".to_string(), json!(null)),
            ("pages_flushed".to_string(), json!(541_022)),
        ]);
    }
    Report {
        scenario: format!("checkpoint ({LABEL})"),
        host: host(),
        settings: [
            ("rows", json!(20_000_000)),
            ("shared-buffers", json!("256MB")),
            ("data-iops", json!(800)),
            ("data-bps", json!("125MB")),
            ("data-max-io", json!(null)),
            ("wal-iops", json!(4000)),
            ("wal-bps", json!(null)),
            ("fs", json!("ext4")),
            ("clients", json!(4)),
            ("seconds", json!(seconds)),
            ("checkpoint-timeout", json!("60s")),
            ("sysctl", json!("roomy")),
            ("distribution", json!("uniform")),
            ("repeat", json!(repeats)),
            ("contestants", json!(["stock", "stock-tuned", "pg_calm", "stock-uncapped"])),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect(),
        cap: Cap::of_mechanism("cgroup-v1-root"),
        contestants,
    }
}

/// Every number of `run` that may be a float becomes `value`.
pub(crate) fn poison(run: &mut Run, value: f64) {
    run.tps_mean = value;
    run.tps_median = value;
    run.tps_min = value;
    run.tps_p5 = value;
    run.latency_ms = Some(Latency { p50: value, p99: value, p999: value, max: value });
    run.data_device = DeviceRates {
        read_ops_per_s: value,
        read_mib_per_s: value,
        write_ops_per_s: value,
        write_mib_per_s: value,
        flush_ops_per_s: Some(value),
    };
    run.wal_device = Some(run.data_device);
    for checkpoint in &mut run.checkpoints {
        checkpoint.start_s = value;
        checkpoint.end_s = value;
        checkpoint.write_s = value;
        checkpoint.sync_s = value;
        checkpoint.total_s = value;
        checkpoint.longest_sync_s = value;
    }
    let series = &mut run.series;
    for values in [
        &mut series.tps,
        &mut series.dirty_mib,
        &mut series.writeback_mib,
        &mut series.data_write_ops,
        &mut series.data_write_mib,
        &mut series.data_read_ops,
        &mut series.data_read_mib,
        &mut series.data_flush_ops,
        &mut series.wal_write_ops,
        &mut series.wal_write_mib,
    ] {
        values.fill(value);
    }
    for values in [&mut series.latency_p50_ms, &mut series.latency_p99_ms, &mut series.latency_max_ms] {
        values.fill(Some(value));
    }
}
