//! The figures by which contestants are compared, each declared beside its unit and meaning.
//!
//! Text and HTML iterate over [`ALL`]: a new figure is added here and nowhere else.

use crate::contest::report::{Checkpoint, Contestant, Run, checkpoint_start};

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

pgcalm_host::names! {
    pub fn title(Group):
        Throughput "Transactions per second",
        Stalls "Stalls, seconds",
        Latency "Latency, ms",
        Device "Data device",
        WalDevice "WAL device",
        Checkpoints "Checkpoints",
        CheckpointStart "First 5 s of checkpoints",
        Backlog "Left at the end",
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

/// Declares figures, and `ALL` of them in the order of the comparison table; those of one group stand together.
macro_rules! figures {
    ($($metric:ident $group:ident $heading:tt $name:literal $($optional:ident)? $meaning:literal $value:expr;)*) => {
        $(
            #[doc = $meaning]
            pub static $metric: Metric = Metric {
                group: Group::$group,
                heading: $heading,
                name: $name,
                meaning: $meaning,
                optional: concat!($(stringify!($optional))?).len() > 0,
                value: $value,
            };
        )*
        /// All of them.
        pub static ALL: &[&Metric] = &[$(&$metric),*];
    };
}

figures! {
    TPS_MEAN Throughput ["TPS", "mean"] "mean"
        "Transactions per second, mean over the measured window."
        |run| finite(run.tps_mean);
    TPS_MEDIAN Throughput ["TPS", "median"] "median"
        "Half of the seconds had fewer transactions than this."
        |run| finite(run.tps_median);
    TPS_MIN Throughput ["TPS", "worst"] "worst second"
        "Transactions in the worst second of the window."
        |run| finite(run.tps_min);
    TPS_P5 Throughput ["TPS", "p5"] "5th percentile"
        "One second in twenty had fewer transactions than this."
        |run| finite(run.tps_p5);
    SECONDS_ZERO Stalls ["secs", "at 0"] "at zero"
        "Seconds in which no transaction ended at all."
        |run| Some(f64::from(run.seconds_zero));
    SECONDS_BELOW_HALF_MEDIAN Stalls ["secs", "<half"] "below half median"
        "Seconds with less than half of the run's own median throughput."
        |run| Some(f64::from(run.seconds_below_half_median));
    LATENCY_P50 Latency ["ms", "p50"] "median"
        "Half of the transactions took longer than this."
        |run| finite(run.latency_ms?.p50);
    LATENCY_P99 Latency ["ms", "p99"] "99th percentile"
        "One transaction in a hundred took longer than this."
        |run| finite(run.latency_ms?.p99);
    LATENCY_P999 Latency ["ms", "p99.9"] "99.9th percentile"
        "One transaction in a thousand took longer than this."
        |run| finite(run.latency_ms?.p999);
    LATENCY_MAX Latency ["ms", "max"] "slowest"
        "The slowest transaction of the run."
        |run| finite(run.latency_ms?.max);
    DEVICE_READ_OPS Device ["data", "rd/s"] "reads/s"
        "Read operations per second that the data device completed. Where WAL lies on the same volume, it is in all \
         figures of the data device."
        |run| finite(run.data_device.read_ops_per_s);
    DEVICE_READ_MIB Device ["read", "MiB/s"] "MiB/s read" optional
        "MiB (2^20 bytes) per second read from the data device."
        |run| finite(run.data_device.read_mib_per_s);
    DEVICE_WRITE_OPS Device ["data", "wr/s"] "writes/s"
        "Write operations per second that the data device completed, less the flushes, for the kernel counts an \
         empty flush as a write. Exact if no flush was shared and none belonged to a write with data."
        |run| finite(run.data_device.write_ops_per_s);
    DEVICE_WRITE_MIB Device ["written", "MiB/s"] "MiB/s written"
        "MiB (2^20 bytes) per second written to the data device."
        |run| finite(run.data_device.write_mib_per_s);
    DEVICE_FLUSH_OPS Device ["data", "flush/s"] "flushes/s" optional
        "Flushes per second that the data device was sent; requests that wait for one at the same time share it. \
         Control groups' limits count requests that are nothing but a flush, cloud volumes charge none."
        |run| run.data_device.flush_ops_per_s.and_then(finite);
    WAL_WRITE_OPS WalDevice ["WAL", "wr/s"] "writes/s" optional
        "Write operations per second that the WAL device completed, less the flushes."
        |run| finite(run.wal_device?.write_ops_per_s);
    CHECKPOINTS Checkpoints ["chk", "pts"] "completed"
        "Checkpoints completed in the window."
        |run| Some(run.checkpoints.len() as f64);
    CHECKPOINT_SYNC_MAX Checkpoints ["sync", "max s"] "longest sync, s"
        "The longest time that the sync phase of a checkpoint of the run spent in calls of fsync for files written \
         since the last one, measured from outside the server; where that was not measured, the whole phase by the \
         server's log, in which pg_calm's drain is included."
        |run| match &run.fsync {
            Some(fsync) => longest(fsync.checkpoints.iter().map(|calls| calls.total_s)),
            None => worst(run, |checkpoint| checkpoint.sync_s),
        };
    FSYNC_MAX Checkpoints ["fsync", "max s"] "longest fsync, s" optional
        "The longest call of fsync in the sync phase of a checkpoint of the run, measured from outside the server."
        |run| longest(run.fsync.as_ref()?.checkpoints.iter().map(|calls| calls.longest_ms / 1e3));
    CHECKPOINT_WRITE_MAX Checkpoints ["write", "max s"] "longest write, s"
        "The longest write phase of a checkpoint of the run, with the sleeps of checkpoint_completion_target, by the server's log."
        |run| worst(run, |checkpoint| checkpoint.write_s);
    CHECKPOINT_TOTAL_MAX Checkpoints ["total", "max s"] "longest, s"
        "The longest checkpoint of the run, start to completion."
        |run| worst(run, |checkpoint| checkpoint.total_s);
    START_TPS_MIN CheckpointStart ["worst", "% of med"] "worst second, % of the median" optional
        "Transactions in the worst of the five seconds after the start of a checkpoint of the run, by those of the \
         run's median second."
        checkpoint_start::tps_min;
    START_TPS_MEAN CheckpointStart ["mean", "% of med"] "mean, % of the median" optional
        "Transactions per second in the five seconds after the starts of all checkpoints of the run, mean, by those \
         of the run's median second."
        checkpoint_start::tps_mean;
    START_TPS_BEFORE CheckpointStart ["mean", "% before"] "mean, % of the ten seconds before" optional
        "Transactions in the five seconds after the start of a checkpoint by those in five of the ten seconds \
         before it; mean of the run's checkpoints. The run's median has in it what a surge leaves behind."
        checkpoint_start::tps_before;
    START_LATENCY_P99 CheckpointStart ["p99", "ms"] "99th percentile of latency, ms" optional
        "The highest 99th percentile of latency that one of the five seconds after the start of a checkpoint of the \
         run has."
        checkpoint_start::latency_p99;
    START_LATENCY_P99_RATIO CheckpointStart ["p99", "x med"] "99th percentile, times the median second's" optional
        "The same by the 99th percentile of the median second of the run."
        checkpoint_start::latency_p99_ratio;
    BACKLOG_END Backlog ["dirty", "MiB"] "dirty, MiB" optional
        "Dirty shared buffers (where they are known) and the host's Dirty and Writeback at the end of the load, \
         with --steady at that of its last checkpoint: writes that were put off."
        |run| match (&run.backlog, &run.steadiness) {
            (Some(backlog), _) => finite(backlog.end.mib()),
            (None, Some(steadiness)) => finite(steadiness.dirty.last()?.dirty.mib()),
            (None, None) => None,
        };
    DRAIN Backlog ["drain", "s"] "drained in, s" optional
        "From the end of the load until that was written, under the caps; how long was waited where it took longer."
        |run| {
            let backlog = run.backlog.as_ref()?;
            // Without those that took longer the median would flatter.
            finite(backlog.drain_s.or(backlog.drain_bound_s)?)
        };
}
/// Those that are worth a place in a comparison of `contestants`.
pub fn shown(contestants: &[Contestant]) -> Vec<&'static Metric> {
    let told = |metric: &Metric| {
        contestants.iter().any(|contestant| {
            // At a checkpoint's start zero says something: it is the worst that there is.
            metric.median_of(contestant).is_some_and(|value| value != 0.0 || metric.group == Group::CheckpointStart)
        })
    };
    ALL.iter().copied().filter(|metric| !metric.optional || told(metric)).collect()
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
