//! How long the checkpointer's calls of fsync took, measured from outside the server.
//!
//! What the server reports of a sync phase has all in it that the phase waits for, with pg_calm its drain. The calls
//! themselves are comparable between contestants, so the lab traces them: the probes of `pgcalm trace checkpoint`
//! (crate `pgcalm-trace`), without those that transactions run into. That is two traps into the kernel for each call of
//! fsync or fdatasync of the checkpointer, in whose process alone the C library's functions are probed, and one for each
//! phase of a checkpoint. Of sync_file_range there is nothing to trace: the checkpointer never calls it with a flag that
//! waits (`pg_flush_data`, fd.c; pg_calm's own calls that wait are its worker's).
//!
//! Where that can't be had (no eBPF, a server without probes) the module's reports take its place, which time the same
//! calls in the server; a stock server then has no such figures.

use std::sync::mpsc;
use std::thread;
use std::thread::JoinHandle;

use anyhow::{Context, anyhow, bail};
use pgcalm_host::HostRoot;
use pgcalm_trace::checkpoint::Options;
use pgcalm_trace::checkpoint::report::{Checkpoint, Line};
use pgcalm_trace::report::End;
use pgcalm_trace::stop::Stop;
use pgcalm_trace::target::{Selection, Target};

use crate::contest::report::{CheckpointFsync, FsyncSource, FsyncTimes};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::server::Server;

/// What was measured; `start_s` of its checkpoints are seconds of the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct FsyncRecord {
    /// Who measured.
    pub source: FsyncSource,
    /// Oldest first, one that was under way at the end among them.
    pub checkpoints: Vec<CheckpointFsync>,
}

impl FsyncRecord {
    /// By pg_calm's own clock around the same calls, of the checkpoints whose reports `server` still has.
    ///
    /// The error is psql's where the extension is not there or the server does not answer.
    pub fn of_module(server: &Server, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let rows = server.sql(
            "select extract(epoch from started)::float8 + write_time / 1000, files_synced, fsync_time / 1000, \
                    coalesce(slowest_file_time, 0) \
               from pg_calm_checkpoints where fsync_time is not null order by id",
            interrupt,
        )?;
        Ok(Self { source: FsyncSource::Module, checkpoints: rows.lines().map(row).collect::<anyhow::Result<_>>()? })
    }

    /// Of the sync phases that began in the window from second `first` of the epoch to `end`; `start_s` counts from
    /// `first`.
    pub fn in_window(self, first: i64, end: i64) -> FsyncTimes {
        let length = (end - first) as f64;
        let checkpoints: Vec<_> = self
            .checkpoints
            .into_iter()
            .map(|checkpoint| CheckpointFsync { start_s: checkpoint.start_s - first as f64, ..checkpoint })
            .filter(|checkpoint| checkpoint.start_s >= 0.0 && checkpoint.start_s < length)
            .collect();
        FsyncTimes {
            source: self.source,
            count: checkpoints.iter().map(|checkpoint| checkpoint.count).sum(),
            total_s: checkpoints.iter().map(|checkpoint| checkpoint.total_s).sum(),
            longest_ms: checkpoints.iter().map(|checkpoint| checkpoint.longest_ms).fold(0.0, f64::max),
            checkpoints,
        }
    }
}

/// A trace under way. Dropping it ends it.
#[derive(Debug)]
pub struct FsyncTrace {
    stop: Stop,
    thread: Option<JoinHandle<anyhow::Result<Vec<CheckpointFsync>>>>,
}

impl FsyncTrace {
    /// Traces the server of this postmaster; returns when its probes are attached.
    ///
    /// An error says why its calls can't be traced.
    pub fn start(postmaster: i32) -> anyhow::Result<Self> {
        let selection = Selection { pid: Some(postmaster), ..Selection::default() };
        let target = Target::find(&HostRoot::default(), &selection)?;
        let stop = Stop::default();
        let (started, is_started) = mpsc::channel();
        let thread = {
            let stop = stop.clone();
            thread::spawn(move || trace(&target, &stop, &started))
        };
        let mut trace = Self { stop, thread: Some(thread) };
        match is_started.recv() {
            Ok(()) => Ok(trace),
            // It ended before it had begun.
            Err(mpsc::RecvError) => {
                Err(trace.join().err().unwrap_or_else(|| anyhow!("the trace ended before it had begun")))
            }
        }
    }

    /// Ends the trace. An error says why its figures are of no use.
    pub fn finish(mut self) -> anyhow::Result<FsyncRecord> {
        Ok(FsyncRecord { source: FsyncSource::Trace, checkpoints: self.join()? })
    }

    fn join(&mut self) -> anyhow::Result<Vec<CheckpointFsync>> {
        self.stop.set();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(anyhow!("the trace came to an end by itself")),
        }
    }
}

impl Drop for FsyncTrace {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.join();
        }
    }
}

fn trace(target: &Target, stop: &Stop, started: &mpsc::Sender<()>) -> anyhow::Result<Vec<CheckpointFsync>> {
    let options = Options { under_way: true, ..Options::default() };
    let mut checkpoints = Vec::new();
    let mut end = None;
    pgcalm_trace::checkpoint::run(target, &options, stop, &mut |line| {
        match line {
            // What is left then is the server's own log.
            Line::Start(start) if !start.ebpf => {
                bail!("{}", start.missing.first().map_or("there is no eBPF here", |missing| missing.reason.as_str()))
            }
            // Nobody waits for it if the caller has given up.
            Line::Start(_) => drop(started.send(())),
            Line::Checkpoint(checkpoint) => checkpoints.push(*checkpoint),
            Line::End(last) => end = Some(last),
        }
        Ok(())
    })?;
    let end = end.context("the trace has no end")?;
    checkpoints.iter().map(|checkpoint| calls(checkpoint, &end)).collect()
}

/// Those of one checkpoint's sync phase.
fn calls(checkpoint: &Checkpoint, end: &End) -> anyhow::Result<CheckpointFsync> {
    if end.drops.events > 0 {
        bail!("{} events were lost", end.drops.events);
    }
    let Some(sync) = &checkpoint.sync else {
        let reason = end.missing.iter().find(|missing| missing.answer == "time of each fsync");
        bail!("{}", reason.map_or("they could not be seen", |missing| missing.reason.as_str()));
    };
    let before_sync: f64 =
        checkpoint.phases.list().iter().take_while(|(name, _)| *name != "sync").filter_map(|(_, time)| *time).sum();
    Ok(CheckpointFsync {
        start_s: checkpoint.time + before_sync,
        count: sync.times.count,
        total_s: sync.times.sum_ms / 1e3,
        longest_ms: sync.times.max_ms.unwrap_or(0.0),
    })
}

/// Of [`FsyncRecord::of_module`]'s query.
fn row(line: &str) -> anyhow::Result<CheckpointFsync> {
    let fields: Vec<&str> = line.split('|').collect();
    let [start, count, total, longest] = fields[..] else { bail!("not a row of pg_calm_checkpoints: {line}") };
    Ok(CheckpointFsync {
        start_s: start.parse()?,
        count: count.parse()?,
        total_s: total.parse()?,
        longest_ms: longest.parse()?,
    })
}

/// What a trace has found, or else the module, if `module` has it and still answers; `None`, and a note, if neither.
pub(crate) fn finish(
    trace: anyhow::Result<FsyncTrace>,
    module: Option<&Server>,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Option<FsyncRecord> {
    let untraced = match trace.and_then(FsyncTrace::finish) {
        Ok(record) => return Some(record),
        Err(error) => error,
    };
    let record = module.and_then(|server| FsyncRecord::of_module(server, interrupt).ok());
    progress.note(&format!(
        "fsync calls are not traced ({untraced:#}): {}",
        if record.is_some() { "their times are pg_calm's own" } else { "their times are not known" }
    ));
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sync_phases_that_began_in_the_window() {
        let record = FsyncRecord {
            source: FsyncSource::Module,
            checkpoints: ["999|5|9.5|9000", "1000.5|3|0.25|125", "1009|2|1.5|1250", "1010|7|8|7000"]
                .into_iter()
                .map(|line| row(line).unwrap())
                .collect(),
        };
        let times = record.in_window(1000, 1010);
        assert_eq!((times.count, times.total_s, times.longest_ms), (5, 1.75, 1250.0));
        let starts: Vec<f64> = times.checkpoints.iter().map(|c| c.start_s).collect();
        assert_eq!(starts, [0.5, 9.0]);
    }

    #[test]
    fn lost_events_make_the_figures_useless() {
        let mut checkpoint = Checkpoint { time: 1000.0, sync: Some(Default::default()), ..Checkpoint::default() };
        checkpoint.phases.begin_s = Some(1.0);
        checkpoint.phases.buffer_write_s = Some(20.0);
        checkpoint.phases.sync_s = Some(300.0);
        let mut end = End {
            time: 0.0,
            reason: pgcalm_trace::report::EndReason::Interrupted,
            drops: Default::default(),
            missing: Vec::new(),
        };
        assert_eq!(calls(&checkpoint, &end).unwrap().start_s, 1021.0);
        end.drops.events = 1;
        assert!(calls(&checkpoint, &end).is_err());
    }
}
