//! The checkpointer: what it writes when, and what is done before its fsyncs (drain.c).

use pgcalm_report::predict::Settings;

use super::Simulation;
use super::growth;
use crate::checkpoint;

/// Pages that need no drain, in seconds of the device's operations (`LEFT_SECONDS` in drain_budget.c).
const LEFT: f64 = 0.1;

/// Part of that to which a drain goes on that has begun (`GOAL_SHARE`).
const GOAL: f64 = 0.25;

/// Part of the time for drains after which progress is judged (`TRIAL_SHARE`).
const TRIAL: f64 = 0.1;

/// Least time for drains, unless WAL asks for checkpoints (`LEAST_TIMEOUT_MS`).
const LEAST_DRAINS: f64 = 30.0;

/// When it is known whether rounds get shorter, and the part of the device's operations that pages written meanwhile may take
/// (`CONVERGENCE_MS`, `CONVERGENCE_SHARE`).
const CONVERGENCE: f64 = 0.3;
const CONVERGENCE_PART: f64 = 0.5;

/// Regions that are cleaned ahead of the worker (`AHEAD` in drain_sweep.c).
const AHEAD: f64 = 8.0;

/// A sweep is repeated if it took less than this part of the time of the one before (`SHORTER_SWEEP`).
const SHORTER: f64 = 0.9;

#[derive(Debug, Clone)]
pub(super) struct Checkpointer {
    /// Seconds between the starts of checkpoints.
    pub interval: f64,
    /// In which pages are written.
    writes: f64,
    /// For draining before the fsyncs of one checkpoint.
    drains: f64,
    /// In which the clock sweep goes round once, as far as it evicts dirty buffers.
    turn: f64,
    phase: Phase,
    started: f64,
    ended: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// For the next checkpoint.
    Waiting,
    /// Up to here it has come in the order of regions.
    Writing(f64),
    /// The kernel's flusher is let come before this file is drained (`wait_for_kernel`).
    LettingKernel {
        file: usize,
        spent: f64,
        start: f64,
    },
    Draining(Drain),
    /// The device has what is written for the fsync of this file, and is done with it when it has worked for so many seconds.
    Syncing {
        file: usize,
        spent: f64,
        until: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Drain {
    /// All files, or the one that is synced next.
    file: Option<usize>,
    /// When it began, and how many pages there were.
    start: f64,
    start_pages: f64,
    /// Seconds spent on drains of this checkpoint before.
    spent: f64,
    /// When the round under way began, and the pages of the one before it.
    round: f64,
    pages_before: f64,
    /// The sweep of the file that is under way, if it is not rounds.
    sweep: Option<Sweep>,
    /// The file has been swept.
    swept: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sweep {
    began: f64,
    /// The region that is cleaned next.
    next: usize,
    /// Seconds that the one before it took.
    before: f64,
}

impl Checkpointer {
    /// `evicted` is how many pages others than checkpoints write per second.
    pub fn new(settings: &Settings, interval: f64, evicted: f64) -> Self {
        // `drain_timeout_ms` in drain_budget.c.
        let left = settings.checkpoint_timeout_s * (1.0 - settings.checkpoint_completion_target);
        let by_wal = interval < settings.checkpoint_timeout_s;
        Self {
            interval,
            writes: interval * settings.checkpoint_completion_target,
            drains: if by_wal { left } else { left.max(LEAST_DRAINS) },
            turn: 1.0 / checkpoint::turnovers(settings, evicted, 1.0),
            phase: Phase::Waiting,
            started: -interval,
            ended: 0,
        }
    }

    /// Checkpoints that have come to their end.
    pub fn ended(&self) -> u32 {
        self.ended
    }

    pub fn is_draining(&self) -> bool {
        self.draining().is_some()
    }

    /// Whether only regions that have been cleaned are flushed.
    pub fn is_sweeping(&self) -> bool {
        matches!(&self.phase, Phase::Draining(drain) if drain.sweep.is_some())
    }

    /// In which as many of a region's buffers are dirty again as a checkpoint finds.
    fn refill(&self) -> f64 {
        self.turn.min(self.interval)
    }

    /// Which file is drained, if any; all of them if no one.
    pub fn draining(&self) -> Option<Option<usize>> {
        match &self.phase {
            Phase::Draining(drain) => Some(drain.file),
            _ => None,
        }
    }
}

impl Simulation<'_> {
    pub(super) fn checkpoint(&mut self) {
        match self.checkpointer.phase.clone() {
            Phase::Waiting => {
                if self.now >= self.checkpointer.started + self.checkpointer.interval {
                    self.checkpointer.started = self.now;
                    self.checkpointer.phase = Phase::Writing(0.0);
                    self.swap_generation();
                }
            }
            Phase::Writing(from) => {
                let to = (self.now - self.checkpointer.started) / self.checkpointer.writes;
                for region in &mut self.regions {
                    if region.place >= from && region.place < to {
                        let class = region.class(self.observation);
                        region.checkpoint(class, self.speed, self.now, self.checkpointer.refill());
                    }
                }
                self.checkpointer.phase = Phase::Writing(to);
                if to >= 1.0 {
                    self.sync();
                }
            }
            Phase::LettingKernel { file, spent, start } => {
                let spent = spent + self.now - start;
                if !self.flusher.guards(file) || spent >= self.checkpointer.drains {
                    self.sync_file(file, spent);
                }
            }
            Phase::Draining(drain) => self.drain(drain),
            Phase::Syncing { file, spent, until } => {
                if self.queue.worked() >= until {
                    if file + 1 < self.files {
                        self.sync_file(file + 1, spent);
                    } else {
                        self.checkpointer.phase = Phase::Waiting;
                        self.checkpointer.ended += 1;
                    }
                }
            }
        }
    }

    /// What is marked now is the old generation.
    fn swap_generation(&mut self) {
        for region in &mut self.regions {
            region.old = region.marked() > 0.0;
        }
    }

    /// Before the first fsync (`drain_before_checkpoint_fsync`).
    fn sync(&mut self) {
        if self.unflushed_pages(None) > self.threshold_pages() {
            self.begin_rounds(None, 0.0);
        } else {
            self.sync_file(0, 0.0);
        }
    }

    /// Before the fsync of a file (`drain_with_duplicate`).
    fn sync_file(&mut self, file: usize, spent: f64) {
        if spent >= self.checkpointer.drains {
            self.fsync(file, spent);
        } else if self.flusher.guards(file) {
            self.checkpointer.phase = Phase::LettingKernel {
                file,
                spent,
                start: self.now,
            };
        } else if self.unflushed_pages(Some(file)) > self.threshold_pages() {
            self.begin_file(file, spent);
        } else {
            self.fsync(file, spent);
        }
    }

    fn begin_rounds(&mut self, file: Option<usize>, spent: f64) {
        self.swap_generation();
        self.checkpointer.phase = Phase::Draining(Drain {
            file,
            start: self.now,
            start_pages: self.unflushed_pages(file),
            spent,
            round: self.now,
            pages_before: f64::INFINITY,
            sweep: None,
            swept: false,
        });
    }

    /// A file by itself is swept, or flushed in rounds (`drain_file`).
    fn begin_file(&mut self, file: usize, spent: f64) {
        self.begin_rounds(Some(file), spent);
        if self.observation.settings.clean_buffers
            && let Phase::Draining(drain) = &mut self.checkpointer.phase
        {
            drain.sweep = Some(Sweep {
                began: self.now,
                next: 0,
                before: f64::INFINITY,
            });
            self.forget_sweep(file);
        }
    }

    fn forget_sweep(&mut self, file: usize) {
        for region in &mut self.regions {
            region.old &= region.file != file;
        }
    }

    fn drain(&mut self, drain: Drain) {
        let spent = drain.spent + self.now - drain.start;
        let out_of_time = spent >= self.checkpointer.drains;
        let over = match (drain.sweep, drain.file) {
            _ if out_of_time => true,
            (Some(sweep), Some(file)) => {
                self.sweep(drain, sweep, file);
                false
            }
            _ => self.round_over(drain),
        };
        if over {
            match drain.file {
                // After all files the first one by itself.
                None => self.sync_file(0, spent),
                // It has been left pages meanwhile.
                Some(file) if self.flusher.guards(file) => self.sync_file(file, spent),
                Some(file) => self.fsync(file, spent),
            }
        }
    }

    /// One step of a sweep (`drain_sweep` and `sweep` in drain.c).
    fn sweep(&mut self, mut drain: Drain, mut sweep: Sweep, file: usize) {
        let (refill, turn) = (self.checkpointer.refill(), self.checkpointer.turn);
        let mut waiting: f64 = self
            .regions
            .iter()
            .filter(|region| region.file == file && region.old)
            .map(|region| region.weight)
            .sum();
        while sweep.next < self.regions.len() && waiting < AHEAD {
            let region = &mut self.regions[sweep.next];
            sweep.next += 1;
            if region.file == file {
                let class = region.class(self.observation);
                region.clean(class, self.speed, self.now, refill, turn);
                region.old = region.marked() > 0.0;
                waiting += if region.old { region.weight } else { 0.0 };
            }
        }
        drain.sweep = Some(sweep);
        if sweep.next == self.regions.len() && waiting == 0.0 {
            let took = self.now - sweep.began;
            let again = self.unflushed_pages(Some(file)) > self.threshold_pages()
                && took <= sweep.before * SHORTER;
            if again {
                drain.sweep = Some(Sweep {
                    began: self.now,
                    next: 0,
                    before: took,
                });
            } else {
                drain.sweep = None;
                drain.swept = true;
                drain.spent += self.now - drain.start;
                drain.start = self.now;
                drain.start_pages = self.unflushed_pages(Some(file));
                drain.round = self.now;
                // Those of the first round.
                self.swap_generation();
                drain.pages_before = self.old_pages(Some(file));
            }
        }
        self.checkpointer.phase = Phase::Draining(drain);
    }

    /// Whether rounds have come to an end (`flush_in_rounds`).
    fn round_over(&mut self, mut drain: Drain) -> bool {
        if !self.is_promising(&drain) || !self.is_converging(&drain) {
            return true;
        }
        if self.old_pages(drain.file) > 0.0 {
            return false;
        }
        // The next round is about what was written meanwhile.
        self.swap_generation();
        let pages = self.old_pages(drain.file);
        let enough = self.threshold_pages();
        if pages <= enough * GOAL || pages >= drain.pages_before && (drain.swept || pages <= enough)
        {
            return true;
        }
        drain.round = self.now;
        drain.pages_before = pages;
        self.checkpointer.phase = Phase::Draining(drain);
        false
    }

    /// Whether what is written during a round is little (`converging`).
    fn is_converging(&self, drain: &Drain) -> bool {
        let elapsed = self.now - drain.round;
        if !self.observation.settings.clean_buffers || elapsed < CONVERGENCE {
            return true;
        }
        let of_all = match drain.file {
            Some(file) => self.weight(Some(file)) / self.weight(None),
            None => 1.0,
        };
        let written = growth::evicted(self.observation, self.speed) * of_all * elapsed;
        written < self.caps.write_iops * CONVERGENCE_PART * elapsed + self.threshold_pages()
    }

    /// Regions of a file or of all.
    fn weight(&self, file: Option<usize>) -> f64 {
        self.regions
            .iter()
            .filter(|region| file.is_none_or(|file| region.file == file))
            .map(|region| region.weight)
            .sum()
    }

    /// Whether it will be over in time if it goes on as it did (`promising`).
    fn is_promising(&self, drain: &Drain) -> bool {
        let elapsed = self.now - drain.start;
        let left = self.unflushed_pages(drain.file);
        let enough = self.threshold_pages() * GOAL;
        if elapsed < self.checkpointer.drains * TRIAL || left <= enough {
            return true;
        }
        if left >= drain.start_pages {
            return false;
        }
        drain.spent + elapsed + elapsed / (drain.start_pages - left) * (left - enough)
            < self.checkpointer.drains
    }

    fn threshold_pages(&self) -> f64 {
        self.caps.write_iops * LEFT
    }

    fn old_pages(&self, file: Option<usize>) -> f64 {
        self.regions
            .iter()
            .filter(|region| region.old && file.is_none_or(|file| region.file == file))
            .map(|region| region.marked() * region.weight)
            .sum()
    }

    /// The fsync itself, of what is dirty now, bridged right before (`drain_before_fsync`).
    fn fsync(&mut self, file: usize, spent: f64) {
        self.write_file(file, self.gap);
        let until = self.queue.worked() + self.queue.seconds(self.caps);
        // Less than what adding up loses.
        let until = until - 1e-6;
        self.checkpointer.phase = Phase::Syncing { file, spent, until };
    }
}
