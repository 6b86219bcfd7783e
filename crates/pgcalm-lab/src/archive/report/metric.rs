//! The figures by which archivers are compared, each declared beside its heading and meaning; text and HTML iterate over
//! them.

use super::{Archiver, Drain, Report, Run};

/// One figure of a run.
#[derive(Debug)]
pub(super) struct Metric {
    /// Column heading in two short lines.
    pub heading: [&'static str; 2],
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// Reads it from a run; `None` if the run has no such figure.
    pub value: fn(&Run) -> Option<f64>,
}

/// By this figure durable archivers are ranked.
pub(super) static FILES_PER_S: Metric = Metric {
    heading: ["files", "/s"],
    meaning: "WAL files acknowledged per second, nothing else at work.",
    value: |run| files_per_s(&run.alone),
};

/// Bandwidth before compression, by which they are compared with dd.
pub(super) static MIB_PER_S: Metric = Metric {
    heading: ["MiB", "/s"],
    meaning: "MiB of WAL acknowledged per second, before compression, nothing else at work.",
    value: |run| finite(run.alone.mib / run.alone.duration_s).filter(|speed| *speed > 0.0),
};

/// All of them, in the order of the table.
pub(super) static ALL: [&Metric; 13] = [
    &FILES_PER_S,
    &MIB_PER_S,
    &Metric {
        heading: ["drain", "s"],
        meaning: "Seconds from the archiver's waking to the last acknowledgement, nothing else at work.",
        value: |run| finite(run.alone.duration_s),
    },
    &Metric {
        heading: ["syncs", "/file"],
        meaning: "fsync, fdatasync, syncfs and sync calls of the archiver, its workers and their children, per file.",
        value: |run| run.crash.as_ref().map(|crash| crash.syncs_per_file),
    },
    &Metric {
        heading: ["commits", "/file"],
        meaning: "Commits of the journals of both file systems, per file.",
        value: |run| run.alone.journal_commits_per_file,
    },
    &Metric {
        heading: ["pg_wal", "wr/file"],
        meaning: "Write operations on the device of pg_wal, per file.",
        value: |run| finite(run.alone.wal_writes_per_file),
    },
    &Metric {
        heading: ["archive", "wr/file"],
        meaning: "Write operations on the device of the archive, per file.",
        value: |run| finite(run.alone.archive_writes_per_file),
    },
    &Metric {
        heading: ["CPU", "s"],
        meaning: "CPU seconds of the server and its programs during the drain, kernel threads not counted.",
        value: |run| finite(run.alone.cpu_s),
    },
    &Metric {
        heading: ["chkpt", "s"],
        meaning: "Seconds of the checkpoint right after, which syncs what acknowledging has left to it and removes the oldest 64 files.",
        value: |run| run.checkpoint.as_ref().map(|checkpoint| checkpoint.duration_s),
    },
    &Metric {
        heading: ["files/s", "loaded"],
        meaning: "Files acknowledged per second with pgbench beside it.",
        value: |run| files_per_s(&run.loaded.as_ref()?.drain),
    },
    &Metric {
        heading: ["TPS", "loaded"],
        meaning: "Transactions per second of pgbench during the drain.",
        value: |run| run.loaded.as_ref().map(|loaded| loaded.tps),
    },
    &Metric {
        heading: ["p99 ms", "before"],
        meaning: "99th percentile of pgbench's latency before the drain.",
        value: |run| run.loaded.as_ref().map(|loaded| loaded.latency_before_ms.p99),
    },
    &Metric {
        heading: ["p99 ms", "beside"],
        meaning: "99th percentile of pgbench's latency during the drain.",
        value: |run| run.loaded.as_ref().map(|loaded| loaded.latency_ms.p99),
    },
];

impl Metric {
    /// The median over the runs; of an even number the lower middle one. `None` if no run has it.
    pub(super) fn of(&self, archiver: &Archiver) -> Option<f64> {
        median(archiver.runs.iter().filter_map(self.value).collect())
    }
}

/// `dd` over all repetitions.
pub(super) fn dd_mib_per_s(report: &Report) -> Option<f64> {
    median(report.dd_mib_per_s.clone())
}

/// Archivers by files per second, the fastest first; only those that copy and lost nothing.
pub(super) fn ranked(report: &Report) -> Vec<&Archiver> {
    let mut ranked: Vec<&Archiver> =
        report.archivers.iter().filter(|archiver| archiver.copies && archiver.is_durable() == Some(true)).collect();
    let speed = |archiver: &Archiver| FILES_PER_S.of(archiver).unwrap_or(0.0);
    ranked.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
    ranked
}

/// `1` for the first of [`ranked`], or why it has no place.
pub(super) fn place(ranked: &[&Archiver], archiver: &Archiver) -> String {
    let place = ranked.iter().position(|other| std::ptr::eq(*other, archiver));
    match (place, archiver.copies, archiver.is_durable()) {
        (Some(place), _, _) => (place + 1).to_string(),
        (None, false, _) => "no copy".to_string(),
        (None, true, Some(_)) => "lossy".to_string(),
        (None, true, None) => "untried".to_string(),
    }
}

fn files_per_s(drain: &Drain) -> Option<f64> {
    finite(drain.files as f64 / drain.duration_s)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}
