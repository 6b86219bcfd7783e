//! The figures by which contestants are compared, each declared beside its unit and meaning.
//!
//! Text and HTML iterate over [`ALL`]: a new figure is added here and nowhere else.

use crate::contest::report::checkpoint_start::{
    START_LATENCY_P99, START_LATENCY_P99_RATIO, START_TPS_BEFORE, START_TPS_MEAN, START_TPS_MIN,
};
use crate::contest::report::{Checkpoint, Contestant, Run};

/// What a figure is about; the comparison table is grouped by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Transactions per second.
    Throughput,
    /// Seconds in which throughput collapsed.
    Stalls,
    /// Transaction latency.
    Latency,
    /// What the data device was asked to do.
    Device,
    /// What the WAL device was asked to do.
    WalDevice,
    /// Checkpoints.
    Checkpoints,
    /// The first seconds of checkpoints.
    CheckpointStart,
    /// What the run left to be written.
    Backlog,
}

impl Group {
    /// Name with unit, as a heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Throughput => "Transactions per second",
            Group::Stalls => "Stalls, seconds",
            Group::Latency => "Latency, ms",
            Group::Device => "Data device",
            Group::WalDevice => "WAL device",
            Group::Checkpoints => "Checkpoints",
            Group::CheckpointStart => "First 5 s of checkpoints",
            Group::Backlog => "Left at the end",
        }
    }
}

/// One figure of a run.
#[derive(Debug)]
pub struct Metric {
    /// Group in the comparison table.
    pub group: Group,
    /// Column heading in two short lines, for narrow tables.
    pub heading: [&'static str; 2],
    /// Name within its group.
    pub name: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// Whether it is left out where no contestant has it, or all have 0.
    pub optional: bool,
    /// Reads it from a run; `None` if the run has no such figure.
    pub value: fn(&Run) -> Option<f64>,
}

/// A figure over all runs of a contestant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Median of the runs.
    pub median: f64,
    /// Lowest and highest run; `None` if there is only one.
    pub range: Option<(f64, f64)>,
}

/// Mean throughput.
pub static TPS_MEAN: Metric = Metric {
    group: Group::Throughput,
    heading: ["TPS", "mean"],
    name: "mean",
    meaning: "Transactions per second, mean over the measured window.",
    optional: false,
    value: |run| finite(run.tps_mean),
};

/// Median throughput.
pub static TPS_MEDIAN: Metric = Metric {
    group: Group::Throughput,
    heading: ["TPS", "median"],
    name: "median",
    meaning: "Half of the seconds had fewer transactions than this.",
    optional: false,
    value: |run| finite(run.tps_median),
};

/// Worst second.
pub static TPS_MIN: Metric = Metric {
    group: Group::Throughput,
    heading: ["TPS", "worst"],
    name: "worst second",
    meaning: "Transactions in the worst second of the window.",
    optional: false,
    value: |run| finite(run.tps_min),
};

/// 5th percentile of the seconds.
pub static TPS_P5: Metric = Metric {
    group: Group::Throughput,
    heading: ["TPS", "p5"],
    name: "5th percentile",
    meaning: "One second in twenty had fewer transactions than this.",
    optional: false,
    value: |run| finite(run.tps_p5),
};

/// Seconds without a transaction.
pub static SECONDS_ZERO: Metric = Metric {
    group: Group::Stalls,
    heading: ["secs", "at 0"],
    name: "at zero",
    meaning: "Seconds in which no transaction ended at all.",
    optional: false,
    value: |run| Some(f64::from(run.seconds_zero)),
};

/// Seconds far below the usual.
pub static SECONDS_BELOW_HALF_MEDIAN: Metric = Metric {
    group: Group::Stalls,
    heading: ["secs", "<half"],
    name: "below half median",
    meaning: "Seconds with less than half of the run's own median throughput.",
    optional: false,
    value: |run| Some(f64::from(run.seconds_below_half_median)),
};

/// Median latency.
pub static LATENCY_P50: Metric = Metric {
    group: Group::Latency,
    heading: ["ms", "p50"],
    name: "median",
    meaning: "Half of the transactions took longer than this.",
    optional: false,
    value: |run| finite(run.latency_ms?.p50),
};

/// 99th percentile of latency.
pub static LATENCY_P99: Metric = Metric {
    group: Group::Latency,
    heading: ["ms", "p99"],
    name: "99th percentile",
    meaning: "One transaction in a hundred took longer than this.",
    optional: false,
    value: |run| finite(run.latency_ms?.p99),
};

/// 99.9th percentile of latency.
pub static LATENCY_P999: Metric = Metric {
    group: Group::Latency,
    heading: ["ms", "p99.9"],
    name: "99.9th percentile",
    meaning: "One transaction in a thousand took longer than this.",
    optional: false,
    value: |run| finite(run.latency_ms?.p999),
};

/// Slowest transaction.
pub static LATENCY_MAX: Metric = Metric {
    group: Group::Latency,
    heading: ["ms", "max"],
    name: "slowest",
    meaning: "The slowest transaction of the run.",
    optional: false,
    value: |run| finite(run.latency_ms?.max),
};

/// Device read operations.
pub static DEVICE_READ_OPS: Metric = Metric {
    group: Group::Device,
    heading: ["data", "rd/s"],
    name: "reads/s",
    meaning: "Read operations per second that the data device completed. Where WAL lies on the same volume, it is in all \
              figures of the data device.",
    optional: false,
    value: |run| finite(run.data_device.read_ops_per_s),
};

/// Device read bandwidth.
pub static DEVICE_READ_MIB: Metric = Metric {
    group: Group::Device,
    heading: ["read", "MiB/s"],
    name: "MiB/s read",
    meaning: "MiB (2^20 bytes) per second read from the data device.",
    optional: true,
    value: |run| finite(run.data_device.read_mib_per_s),
};

/// Device write operations.
pub static DEVICE_WRITE_OPS: Metric = Metric {
    group: Group::Device,
    heading: ["data", "wr/s"],
    name: "writes/s",
    meaning: "Write operations per second that the data device completed, less the flushes, for the kernel counts an empty \
              flush as a write. Exact if no flush was shared and none belonged to a write with data.",
    optional: false,
    value: |run| finite(run.data_device.write_ops_per_s),
};

/// Device write bandwidth.
pub static DEVICE_WRITE_MIB: Metric = Metric {
    group: Group::Device,
    heading: ["written", "MiB/s"],
    name: "MiB/s written",
    meaning: "MiB (2^20 bytes) per second written to the data device.",
    optional: false,
    value: |run| finite(run.data_device.write_mib_per_s),
};

/// Device flushes.
pub static DEVICE_FLUSH_OPS: Metric = Metric {
    group: Group::Device,
    heading: ["data", "flush/s"],
    name: "flushes/s",
    meaning: "Flushes per second that the data device was sent; requests that wait for one at the same time share it. Control \
              groups' limits count requests that are nothing but a flush, cloud volumes charge none.",
    optional: true,
    value: |run| run.data_device.flush_ops_per_s.and_then(finite),
};

/// WAL device write operations.
pub static WAL_WRITE_OPS: Metric = Metric {
    group: Group::WalDevice,
    heading: ["WAL", "wr/s"],
    name: "writes/s",
    meaning: "Write operations per second that the WAL device completed, less the flushes.",
    optional: true,
    value: |run| finite(run.wal_device?.write_ops_per_s),
};

/// Number of checkpoints.
pub static CHECKPOINTS: Metric = Metric {
    group: Group::Checkpoints,
    heading: ["chk", "pts"],
    name: "completed",
    meaning: "Checkpoints completed in the window.",
    optional: false,
    value: |run| Some(run.checkpoints.len() as f64),
};

/// Longest sync phase.
pub static CHECKPOINT_SYNC_MAX: Metric = Metric {
    group: Group::Checkpoints,
    heading: ["sync", "max s"],
    name: "longest sync, s",
    meaning: "The longest time that the sync phase of a checkpoint of the run spent in calls of fsync for files written since the \
              last one, measured from outside the server; where that was not measured, the whole phase by the server's log, \
              in which pg_calm's drain is included.",
    optional: false,
    value: |run| match &run.fsync {
        Some(fsync) => longest(fsync.checkpoints.iter().map(|calls| calls.total_s)),
        None => worst(run, |checkpoint| checkpoint.sync_s),
    },
};

/// Longest fsync.
pub static FSYNC_MAX: Metric = Metric {
    group: Group::Checkpoints,
    heading: ["fsync", "max s"],
    name: "longest fsync, s",
    meaning: "The longest call of fsync in the sync phase of a checkpoint of the run, measured from outside the server.",
    optional: true,
    value: |run| longest(run.fsync.as_ref()?.checkpoints.iter().map(|calls| calls.longest_ms / 1e3)),
};

/// Longest checkpoint.
pub static CHECKPOINT_TOTAL_MAX: Metric = Metric {
    group: Group::Checkpoints,
    heading: ["total", "max s"],
    name: "longest, s",
    meaning: "The longest checkpoint of the run, start to completion.",
    optional: false,
    value: |run| worst(run, |checkpoint| checkpoint.total_s),
};

/// Backlog at the end.
pub static BACKLOG_END: Metric = Metric {
    group: Group::Backlog,
    heading: ["dirty", "MiB"],
    name: "dirty, MiB",
    meaning: "Dirty shared buffers (where they are known) and the host's Dirty and Writeback at the end of the load, with \
              --steady at that of its last checkpoint: writes that were put off.",
    optional: true,
    value: |run| match (&run.backlog, &run.steadiness) {
        (Some(backlog), _) => finite(backlog.end.mib()),
        (None, Some(steadiness)) => finite(steadiness.dirty.last()?.dirty.mib()),
        (None, None) => None,
    },
};

/// Duration of the drain.
pub static DRAIN: Metric = Metric {
    group: Group::Backlog,
    heading: ["drain", "s"],
    name: "drained in, s",
    meaning: "From the end of the load until that was written, under the caps; how long was waited where it took longer.",
    optional: true,
    value: |run| {
        let backlog = run.backlog.as_ref()?;
        // Without those that took longer the median would flatter.
        finite(backlog.drain_s.or(backlog.drain_bound_s)?)
    },
};

/// All of them, in the order of the comparison table; those of one group stand together.
pub static ALL: [&Metric; 27] = [
    &TPS_MEAN,
    &TPS_MEDIAN,
    &TPS_MIN,
    &TPS_P5,
    &SECONDS_ZERO,
    &SECONDS_BELOW_HALF_MEDIAN,
    &LATENCY_P50,
    &LATENCY_P99,
    &LATENCY_P999,
    &LATENCY_MAX,
    &DEVICE_READ_OPS,
    &DEVICE_READ_MIB,
    &DEVICE_WRITE_OPS,
    &DEVICE_WRITE_MIB,
    &DEVICE_FLUSH_OPS,
    &WAL_WRITE_OPS,
    &CHECKPOINTS,
    &CHECKPOINT_SYNC_MAX,
    &FSYNC_MAX,
    &CHECKPOINT_TOTAL_MAX,
    &START_TPS_MIN,
    &START_TPS_MEAN,
    &START_TPS_BEFORE,
    &START_LATENCY_P99,
    &START_LATENCY_P99_RATIO,
    &BACKLOG_END,
    &DRAIN,
];

/// Those that are worth a place in a comparison of `contestants`.
pub fn shown(contestants: &[Contestant]) -> Vec<&'static Metric> {
    let told = |metric: &Metric| {
        contestants.iter().any(|contestant| {
            // At a checkpoint's start zero says something: it is the worst that there is.
            metric.median_of(contestant).is_some_and(|value| value != 0.0 || metric.group == Group::CheckpointStart)
        })
    };
    ALL.into_iter().filter(|metric| !metric.optional || told(metric)).collect()
}

impl Metric {
    /// The figure over all runs of `contestant`; `None` if no run has it.
    pub fn of(&self, contestant: &Contestant) -> Option<Figure> {
        let mut values: Vec<f64> = contestant.runs.iter().filter_map(self.value).collect();
        values.sort_by(f64::total_cmp);
        let (&first, &last) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            // Halved first: the sum of two large values could overflow.
            values[middle - 1] / 2.0 + values[middle] / 2.0
        };
        Some(Figure { median, range: (values.len() > 1).then_some((first, last)) })
    }

    /// The median over the runs alone.
    pub fn median_of(&self, contestant: &Contestant) -> Option<f64> {
        self.of(contestant).map(|figure| figure.median)
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn worst(run: &Run, duration: fn(&Checkpoint) -> f64) -> Option<f64> {
    longest(run.checkpoints.iter().map(duration))
}

fn longest(seconds: impl Iterator<Item = f64>) -> Option<f64> {
    seconds.filter(|seconds| seconds.is_finite()).max_by(f64::total_cmp)
}
