//! Puts events together into checkpoints.

use crate::checkpoint::files::FileBook;
use crate::checkpoint::report::{Around, Buffers, Checkpoint, Second, SyncedFile, Syncs, Transactions, WalSegments};
use crate::clock::NS_PER_S;
use crate::histogram::KernelHistogram;
use crate::probes::checkpoint::{Event, FileHints, Kind, SecondCount};
use crate::{checkpoint_flags, clock};

/// How many of the slowest files are kept.
const SLOWEST: usize = 10;

/// ERRNO_UNKNOWN of probes/checkpoint/mod.bpf.c: the call failed, and its error is not known.
const ERRNO_UNKNOWN: i64 = 4096;

/// A checkpoint that has ended, or not yet.
#[derive(Debug)]
pub(super) struct Building {
    /// What is known of it.
    pub checkpoint: Checkpoint,
    /// CLOCK_MONOTONIC of its start, ns.
    pub start_ns: u64,
    /// Of its end, once it has ended.
    pub end_ns: Option<u64>,
    last: Vec<(Kind, u64)>,
    in_sync: bool,
    sync: SyncsBuilder,
    other: SyncsBuilder,
    /// If they are asked for.
    files: Option<FileBook>,
}

#[derive(Debug, Default)]
struct SyncsBuilder {
    times: KernelHistogram,
    slowest: Vec<SyncedFile>,
}

impl Building {
    fn new(number: u64, event: &Event, files: bool) -> Self {
        let flags = event.arguments[0];
        Self {
            checkpoint: Checkpoint {
                number,
                restartpoint: event.kind == Kind::BufferCheckpointStart,
                time: clock::unix_seconds(event.time_ns),
                reason: checkpoint_flags::reason(flags).to_string(),
                flags: checkpoint_flags::names(flags),
                ..Checkpoint::default()
            },
            start_ns: event.time_ns,
            end_ns: None,
            last: Vec::new(),
            in_sync: false,
            sync: SyncsBuilder::default(),
            other: SyncsBuilder::default(),
            files: files.then(FileBook::default),
        }
    }

    /// A checkpoint that is known by other means, from start to end.
    pub(super) fn known(checkpoint: Checkpoint, start_ns: u64, end_ns: u64) -> Self {
        Self {
            checkpoint,
            start_ns,
            end_ns: Some(end_ns),
            last: Vec::new(),
            in_sync: false,
            sync: SyncsBuilder::default(),
            other: SyncsBuilder::default(),
            files: None,
        }
    }

    /// Takes an event of this checkpoint.
    fn take(&mut self, event: &Event) {
        let number = |index: usize| u64::try_from(event.arguments[index]).ok();
        let phases = &mut self.checkpoint.phases;
        let buffers: &mut Buffers = &mut self.checkpoint.buffers;
        let since = |kind: Kind| {
            let (_, time) = self.last.iter().rev().find(|(last, _)| *last == kind)?;
            Some(seconds(event.time_ns.saturating_sub(*time)))
        };
        match event.kind {
            Kind::CheckpointStart => {}
            Kind::BufferCheckpointStart => phases.begin_s = since(Kind::CheckpointStart),
            Kind::ClogDone => phases.clog_s = since(Kind::ClogStart),
            Kind::SubtransDone => phases.subtrans_s = since(Kind::SubtransStart),
            Kind::MultixactDone => phases.multixact_s = since(Kind::MultixactStart),
            Kind::BufferSyncStart => {
                phases.buffer_scan_s = since(Kind::MultixactDone);
                buffers.total = number(0);
                buffers.dirty = number(1);
            }
            Kind::BufferSyncDone => {
                phases.buffer_write_s = since(Kind::BufferSyncStart);
                buffers.written = number(1);
            }
            Kind::SyncStart => {
                self.in_sync = true;
                // BufferSync returns before its probe if it finds nothing dirty.
                if since(Kind::BufferSyncStart).is_none() {
                    phases.buffer_scan_s = since(Kind::MultixactDone);
                    buffers.dirty = Some(0);
                    buffers.written = Some(0);
                }
            }
            Kind::SyncDone => {
                self.in_sync = false;
                phases.sync_s = since(Kind::SyncStart);
            }
            Kind::TwophaseDone => phases.twophase_s = since(Kind::TwophaseStart),
            Kind::CheckpointDone => {
                phases.finish_s = since(Kind::TwophaseDone).or_else(|| since(Kind::SyncDone));
                buffers.logged = number(0);
                buffers.total = buffers.total.or(number(1));
                self.checkpoint.wal_segments = number(2)
                    .zip(number(3))
                    .zip(number(4))
                    .map(|((added, removed), recycled)| WalSegments { added, removed, recycled });
            }
            Kind::FileSynced => {
                if let Some(files) = &mut self.files {
                    files.take_fsync(event);
                }
                let start = event.time_ns.saturating_sub(event.arguments[0].max(0) as u64);
                let at_s = seconds(start.saturating_sub(self.start_ns));
                if self.in_sync {
                    self.sync.take(event, at_s);
                } else {
                    self.other.take(event, at_s);
                }
            }
            Kind::ClogStart | Kind::SubtransStart | Kind::MultixactStart | Kind::TwophaseStart => {}
        }
        self.last.push((event.kind, event.time_ns));
    }

    fn finish(&mut self, end_ns: u64) {
        self.end_ns = Some(end_ns);
        self.checkpoint.total_s = Some(seconds(end_ns.saturating_sub(self.start_ns)));
        // A long list of fsync calls is not needed any more.
        self.last = Vec::new();
    }

    /// The fsync calls, if they could be seen.
    pub(super) fn set_syncs(&mut self) {
        self.checkpoint.sync = Some(std::mem::take(&mut self.sync).to_model());
        self.checkpoint.other_syncs = Some(std::mem::take(&mut self.other).to_model());
    }

    /// Each file's fsync calls and flush hints, if they could be seen.
    pub(super) fn set_files(&mut self, hints: &[FileHints]) {
        let mut files = self.files.take().unwrap_or_default();
        for hints in hints {
            files.take_hints(hints);
        }
        self.checkpoint.files = Some(files.into_model());
    }

    /// The transactions around it, out of the seconds at hand.
    pub(super) fn set_transactions(&mut self, history: &[SecondCount], around: u64) {
        let start = self.start_ns / NS_PER_S;
        let end = self.end_ns.unwrap_or(u64::MAX) / NS_PER_S;
        let seconds = history
            .iter()
            .filter(|count| count.second + around >= start && count.second <= end.saturating_add(around))
            .map(|count| Second {
                second: count.second as i64 - start as i64,
                phase: if count.second < start {
                    Around::Before
                } else if count.second > end {
                    Around::After
                } else {
                    Around::During
                },
                commits: count.commits,
                aborts: count.aborts,
            })
            .collect();
        self.checkpoint.transactions = Some(Transactions::of(seconds));
    }
}

impl SyncsBuilder {
    fn take(&mut self, event: &Event, at_s: f64) {
        let duration = event.arguments[0].max(0) as u64;
        self.times.take(duration);
        let file = SyncedFile {
            path: event.path.clone(),
            relation: None,
            at_s,
            time_ms: duration as f64 / 1e6,
            errno: (event.arguments[1] < 0).then(|| (-event.arguments[1] % ERRNO_UNKNOWN) as i32),
        };
        // A failure is always worth to be shown.
        let place = self
            .slowest
            .partition_point(|other| (other.errno.is_some(), other.time_ms) >= (file.errno.is_some(), file.time_ms));
        self.slowest.insert(place, file);
        self.slowest.truncate(SLOWEST);
    }

    fn to_model(&self) -> Syncs {
        Syncs { times: self.times.to_model(), slowest: self.slowest.clone() }
    }
}

/// Checkpoints out of a stream of events.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// Whether each file is told.
    files: bool,
    open: Option<Building>,
    number: u64,
}

impl Assembler {
    /// Before any event; `files` is whether each file is told.
    pub(super) fn new(files: bool) -> Self {
        Self { files, ..Self::default() }
    }

    /// Takes an event; returns the checkpoint that it ends. Events of a checkpoint whose start was not seen are left out.
    pub(super) fn take(&mut self, event: &Event) -> Option<Building> {
        let starts = match event.kind {
            Kind::CheckpointStart => true,
            Kind::BufferCheckpointStart => self.open.as_ref().is_none_or(|open| open.checkpoint.restartpoint),
            _ => false,
        };
        if starts {
            // One that did not end was given up by an error, or its end was dropped: there is nothing to tell of it.
            self.number += 1;
            self.open = Some(Building::new(self.number, event, self.files));
        }
        let open = self.open.as_mut()?;
        open.take(event);
        let ends = match event.kind {
            Kind::CheckpointDone => true,
            Kind::SyncDone => open.checkpoint.restartpoint,
            _ => false,
        };
        if !ends {
            return None;
        }
        open.finish(event.time_ns);
        self.open.take()
    }

    /// The checkpoint under way, which is then forgotten.
    pub(super) fn take_open(&mut self) -> Option<Building> {
        self.open.take()
    }

    /// When the checkpoint under way began.
    pub(super) fn open_since_ns(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.start_ns)
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(second: u64, kind: Kind, arguments: [i64; 5]) -> Event {
        Event { time_ns: second * NS_PER_S, kind, arguments, path: String::new() }
    }

    fn checkpoint(start: u64) -> Vec<Event> {
        [
            (Kind::CheckpointStart, [0x6c, 0, 0, 0, 0]),
            (Kind::BufferCheckpointStart, [0x6c, 0, 0, 0, 0]),
            (Kind::ClogStart, [0; 5]),
            (Kind::ClogDone, [0; 5]),
            (Kind::MultixactStart, [0; 5]),
            (Kind::MultixactDone, [0; 5]),
            (Kind::BufferSyncStart, [1000, 80, 0, 0, 0]),
            (Kind::BufferSyncDone, [1000, 79, 80, 0, 0]),
            (Kind::SyncStart, [0; 5]),
            (Kind::FileSynced, [500_000_000, -5, 0, 0, 0]),
            (Kind::SyncDone, [0; 5]),
            (Kind::FileSynced, [1_000, 0, 0, 0, 0]),
            (Kind::TwophaseStart, [0; 5]),
            (Kind::TwophaseDone, [0; 5]),
            (Kind::CheckpointDone, [82, 1000, 1, 2, 3]),
        ]
        .into_iter()
        .zip(start..)
        .map(|((kind, arguments), second)| event(second, kind, arguments))
        .collect()
    }

    #[test]
    fn phases_buffers_and_files_of_a_checkpoint() {
        let mut assembler = Assembler::default();
        let mut ended: Vec<Building> = checkpoint(100).iter().filter_map(|event| assembler.take(event)).collect();
        assert_eq!(ended.len(), 1);
        let building = &mut ended[0];
        building.set_syncs();
        let checkpoint = &building.checkpoint;
        assert_eq!(checkpoint.reason, "requested");
        assert_eq!(checkpoint.flags, ["immediate", "force", "wait", "requested"]);
        assert!(!checkpoint.restartpoint);
        assert_eq!(checkpoint.total_s, Some(14.0));
        assert_eq!(checkpoint.phases.begin_s, Some(1.0));
        assert_eq!(checkpoint.phases.subtrans_s, None);
        assert_eq!(checkpoint.phases.buffer_scan_s, Some(1.0));
        assert_eq!(checkpoint.phases.sync_s, Some(2.0));
        assert_eq!(checkpoint.buffers.dirty, Some(80));
        assert_eq!(checkpoint.buffers.written, Some(79));
        assert_eq!(checkpoint.buffers.logged, Some(82));
        let sync = checkpoint.sync.as_ref().unwrap();
        assert_eq!(sync.times.count, 1);
        assert_eq!(sync.slowest[0].errno, Some(5));
        assert_eq!(sync.slowest[0].at_s, 8.5);
        assert_eq!(checkpoint.other_syncs.as_ref().unwrap().times.count, 1);
    }

    #[test]
    fn each_file_has_its_fsync_calls_and_hints() {
        let mut assembler = Assembler::new(true);
        let mut events = checkpoint(100);
        for (event, path) in
            events.iter_mut().filter(|event| event.kind == Kind::FileSynced).zip(["base/5/1", "global/pg_control"])
        {
            event.path = path.to_string();
        }
        let mut building = events.iter().find_map(|event| assembler.take(event)).unwrap();
        let hints =
            |path: &str, longest_ns| FileHints { path: path.to_string(), count: 3, total_ns: 900_000_000, longest_ns };
        building.set_files(&[hints("base/5/2", 600_000_000), hints("base/5/1", 300_000_000)]);
        let files = building.checkpoint.files.unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        // Longest in all first.
        assert_eq!(paths, ["base/5/1", "base/5/2", "global/pg_control"]);
        assert_eq!((files[0].fsyncs, files[0].flush_hints), (1, 3));
        assert_eq!(files[0].total_ms(), 1400.0);
        assert_eq!((files[1].fsyncs, files[1].longest_flush_hint_ms), (0, 600.0));
        assert_eq!((files[2].fsyncs, files[2].flush_hints), (1, 0));
    }

    #[test]
    fn a_checkpoint_without_dirty_buffers_has_zero_of_them() {
        let mut assembler = Assembler::default();
        let ended: Vec<Building> = checkpoint(1)
            .iter()
            .filter(|event| !matches!(event.kind, Kind::BufferSyncStart | Kind::BufferSyncDone))
            .filter_map(|event| assembler.take(event))
            .collect();
        assert_eq!(ended[0].checkpoint.buffers.written, Some(0));
        assert!(ended[0].checkpoint.phases.buffer_scan_s.is_some());
    }

    #[test]
    fn a_restartpoint_has_no_start_and_end_of_its_own() {
        let mut assembler = Assembler::default();
        let ended: Vec<Building> = checkpoint(1)
            .iter()
            .filter(|event| !matches!(event.kind, Kind::CheckpointStart | Kind::CheckpointDone))
            .filter_map(|event| assembler.take(event))
            .collect();
        assert!(ended[0].checkpoint.restartpoint);
        assert!(assembler.open_since_ns().is_none());
    }

    #[test]
    fn what_began_before_the_trace_is_left_out() {
        let mut assembler = Assembler::default();
        let events = checkpoint(1);
        assert!(events[2..].iter().all(|event| assembler.take(event).is_none()));
    }

    #[test]
    fn seconds_lie_before_during_and_after() {
        let mut assembler = Assembler::default();
        let mut building = checkpoint(100).iter().find_map(|event| assembler.take(event)).unwrap();
        let history: Vec<SecondCount> = (90..130)
            .map(|second| SecondCount {
                second,
                commits: if (100..=114).contains(&second) { 5 } else { 10 },
                aborts: 0,
            })
            .collect();
        building.set_transactions(&history, 3);
        let transactions = building.checkpoint.transactions.unwrap();
        assert_eq!(transactions.seconds.len(), 3 + 15 + 3);
        assert_eq!(transactions.seconds[0].second, -3);
        assert_eq!(transactions.before, Some(10.0));
        assert_eq!(transactions.during, Some(5.0));
        assert_eq!(transactions.after, Some(10.0));
    }
}
