use std::time::Instant;

use anyhow::bail;
use pgcalm_postgres::Client;
use pgcalm_predict::observe::{ModuleCounters, Statistics};

use crate::predict::report::{Measured, Written};
use crate::sampler::Sample;
use crate::server_log::CheckpointLog;
use crate::transaction_log::Transactions;

/// What server and module have counted until a moment.
#[derive(Debug)]
pub(super) struct Counters {
    when: Instant,
    statistics: Statistics,
    module: ModuleCounters,
}

impl Counters {
    pub(super) fn read(client: &mut Client) -> anyhow::Result<Self> {
        Ok(Self { when: Instant::now(), statistics: Statistics::read(client)?, module: ModuleCounters::read(client)? })
    }

    /// Adds to `measured` what was counted since `earlier`.
    pub(super) fn tell(&self, earlier: &Self, measured: &mut Measured) {
        let seconds = self.when.duration_since(earlier.when).as_secs_f64();
        let added = self.statistics.since(&earlier.statistics);
        measured.checkpoints = added.checkpoints as u32;
        measured.written = Some(Written {
            checkpointer_pages_per_s: added.checkpointer_pages / seconds,
            background_writer_pages_per_s: added.background_writer_pages / seconds,
            backend_pages_per_s: added.backend_pages / seconds,
            wal_bytes_per_s: added.wal_bytes / seconds,
        });
        measured.module = Some(self.module.since(&earlier.module, seconds));
    }
}

/// The part of the seconds of the epoch from `first` until before `end` in which checkpoints came whole, from the end of one to
/// that of a later one: a prediction is a mean over whole ones, and how often a drain or a visit of the kernel falls into a window
/// of another length is chance. All of it if there are not two ends.
pub(super) fn whole_checkpoints(log: &CheckpointLog, first: i64, end: i64) -> (i64, i64) {
    let mut ends = log
        .complete
        .iter()
        .map(|checkpoint| checkpoint.end_s.ceil() as i64)
        .filter(|second| (first..=end).contains(second));
    match (ends.next(), ends.next_back()) {
        (Some(from), Some(to)) if from < to => (from, to),
        _ => (first, end),
    }
}

/// The figures of the seconds of the epoch from `first` until before `end`.
pub(super) fn measured(
    samples: &[Sample],
    transactions: &Transactions,
    first: i64,
    end: i64,
) -> anyhow::Result<Measured> {
    let mut within = samples.iter().filter(|sample| sample.second >= first && sample.second <= end);
    let (Some(from), Some(to)) = (within.next(), within.next_back()) else {
        bail!("the device was not sampled while it was measured");
    };
    let seconds = (to.second - from.second) as f64;
    let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
    let tps_series: Vec<f64> = (first..end)
        .map(|second| transactions.by_second.get(&second).map_or(0.0, |ended| ended.len() as f64))
        .collect();
    let series = |counter: fn(&Sample) -> f64| -> Vec<f64> {
        let within: Vec<&Sample> =
            samples.iter().filter(|sample| sample.second >= first && sample.second <= end).collect();
        within.windows(2).map(|pair| counter(pair[1]) - counter(pair[0])).collect()
    };
    Ok(Measured {
        seconds: (end - first) as u32,
        device_operations_per_s: per_second(from.data.write_ops, to.data.write_ops),
        device_mib_per_s: per_second(from.data.write_bytes, to.data.write_bytes) / f64::from(1 << 20),
        tps: tps_series.iter().sum::<f64>() / tps_series.len().max(1) as f64,
        tps_series,
        operations_series: series(|sample| sample.data.write_ops as f64),
        mib_series: series(|sample| sample.data.write_bytes as f64 / f64::from(1 << 20)),
        checkpoints: 0,
        written: None,
        module: None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::contest::report::Checkpoint;
    use crate::load::LOG_PREFIX;
    use pgcalm_host::block_device::DeviceStat;
    use pgcalm_host::cpu_time::CpuTime;
    use pgcalm_host::meminfo::MemInfo;

    fn log(ends: &[f64]) -> CheckpointLog {
        CheckpointLog {
            complete: ends
                .iter()
                .map(|end_s| Checkpoint {
                    start_s: end_s - 20.0,
                    end_s: *end_s,
                    reason: "time".to_string(),
                    buffers: 1,
                    write_s: 1.0,
                    sync_s: 1.0,
                    total_s: 20.0,
                    sync_files: 1,
                    longest_sync_s: 1.0,
                })
                .collect(),
            running: None,
        }
    }

    #[test]
    fn checkpoints_are_measured_whole() {
        let ends = log(&[95.5, 130.2, 168.9, 207.1, 241.0]);
        assert_eq!(whole_checkpoints(&ends, 100, 220), (131, 208));
        assert_eq!(whole_checkpoints(&ends, 100, 150), (100, 150), "one end");
        assert_eq!(whole_checkpoints(&log(&[]), 100, 150), (100, 150));
    }

    #[test]
    fn only_the_window_counts() {
        let samples: Vec<Sample> = (100..110)
            .map(|second| Sample {
                second,
                memory: MemInfo { total_kib: 1, dirty_kib: 0, writeback_kib: 0 },
                data: DeviceStat {
                    // Ten times as much before the window.
                    write_ops: if second < 104 { second as u64 * 1000 } else { second as u64 * 100 },
                    write_bytes: (second as u64) << 20,
                    ..DeviceStat::default()
                },
                wal: None,
                volumes: None,
                cpu: CpuTime::default(),
                blocked: 0,
                data_in_flight: Default::default(),
                wal_in_flight: Default::default(),
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        // 7 transactions in second 103, 3 in 105, one after the window.
        let log: String = [103, 103, 103, 103, 103, 103, 103, 105, 105, 105, 108]
            .map(|second| format!("0 1 700 0 {second} 5\n"))
            .concat();
        fs::write(dir.path().join(format!("{LOG_PREFIX}.1")), log).unwrap();
        let transactions = Transactions::read(dir.path(), LOG_PREFIX).unwrap();
        let measured = measured(&samples, &transactions, 104, 108).unwrap();
        assert_eq!(measured.seconds, 4);
        assert_eq!(measured.device_operations_per_s, 100.0);
        assert_eq!(measured.device_mib_per_s, 1.0);
        assert_eq!(measured.tps_series, [0.0, 3.0, 0.0, 0.0]);
        assert_eq!(measured.tps, 0.75);
        assert_eq!(measured.operations_series, [100.0; 4]);
        assert_eq!(measured.mib_series, [1.0; 4]);
    }
}
