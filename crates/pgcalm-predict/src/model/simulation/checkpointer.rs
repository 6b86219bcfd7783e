//! The checkpointer: what it writes when, and what is done before its fsyncs (drain.c).

use super::Simulation;
use super::growth::Beat;
use crate::report::Settings;

/// Pages that need no drain, in seconds of the device's operations (`LEFT_SECONDS` in drain_budget.c).
const LEFT: f64 = 0.1;

/// Part of that to which a drain goes on that has begun (`GOAL_SHARE`).
const GOAL: f64 = 0.25;

/// Part of the time for drains after which progress is judged (`TRIAL_SHARE`).
const TRIAL: f64 = 0.1;

/// Least time for drains (`LEAST_TIMEOUT_MS`).
const LEAST_DRAINS: f64 = 30.0;

#[derive(Debug, Clone)]
pub(super) struct Checkpointer {
    /// Seconds between the starts of checkpoints.
    pub interval: f64,
    /// In which pages are written.
    writes: f64,
    /// For draining before the fsyncs of one checkpoint.
    drains: f64,
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
    /// The one that is synced next.
    file: usize,
    /// When it began, and how many pages there were.
    start: f64,
    start_pages: f64,
    /// Seconds spent on drains of this checkpoint before.
    spent: f64,
    /// The pages of the round before the one under way.
    pages_before: f64,
}

impl Checkpointer {
    pub fn new(settings: &Settings, interval: f64) -> Self {
        // `drain_timeout_ms` in drain_budget.c.
        let left = settings.checkpoint_timeout_s * (1.0 - settings.checkpoint_completion_target);
        let writes = interval * settings.checkpoint_completion_target;
        Self {
            interval,
            writes,
            drains: if interval < settings.checkpoint_timeout_s {
                // Until WAL asks for the next one (`drain_may_wait`).
                left.max(LEAST_DRAINS).min(interval - writes)
            } else {
                left.max(LEAST_DRAINS)
            },
            phase: Phase::Waiting,
            started: -interval,
            ended: 0,
        }
    }

    /// Checkpoints that have come to their end.
    pub fn ended(&self) -> u32 {
        self.ended
    }

    /// Which file is drained, if any.
    pub fn draining(&self) -> Option<usize> {
        match &self.phase {
            Phase::Draining(drain) => Some(drain.file),
            _ => None,
        }
    }

    /// The rhythms of regions, at so many times the observed rate.
    pub fn beat(&self, speed: f64, turn: f64) -> Beat {
        Beat { speed, turn, interval: self.interval, started: self.started }
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
                let beat = self.checkpointer.beat(self.speed, self.turn);
                for region in &mut self.regions {
                    if region.place >= from && region.place < to {
                        region.checkpoint(region.class(self.observation), self.now, &beat);
                    }
                }
                self.checkpointer.phase = Phase::Writing(to);
                if to >= 1.0 {
                    self.sync_file(0, 0.0);
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

    /// Before the fsync of a file (`drain_with_duplicate`).
    fn sync_file(&mut self, file: usize, spent: f64) {
        if spent >= self.checkpointer.drains {
            self.fsync(file, spent);
        } else if self.flusher.guards(file) {
            self.checkpointer.phase = Phase::LettingKernel { file, spent, start: self.now };
        } else if self.has_many_pages(file) {
            self.begin_drain(file, spent);
        } else {
            self.fsync(file, spent);
        }
    }

    /// Whether a file needs a drain of its own (`has_many_pages`).
    fn has_many_pages(&self, file: usize) -> bool {
        let enough = self.threshold_pages();
        let pages = self.unflushed_pages(Some(file));
        pages > enough || pages > enough * GOAL && self.unflushed_pages(None) > enough
    }

    fn begin_drain(&mut self, file: usize, spent: f64) {
        self.swap_generation();
        self.checkpointer.phase = Phase::Draining(Drain {
            file,
            start: self.now,
            start_pages: self.unflushed_pages(Some(file)),
            spent,
            pages_before: self.old_pages(file),
        });
    }

    fn drain(&mut self, mut drain: Drain) {
        let file = drain.file;
        let spent = drain.spent + self.now - drain.start;
        let over = spent >= self.checkpointer.drains || !self.is_promising(&drain) || self.round_over(&mut drain);
        if !over {
            self.checkpointer.phase = Phase::Draining(drain);
        } else if self.flusher.guards(file) {
            // It has been left pages meanwhile.
            self.sync_file(file, spent);
        } else {
            self.fsync(file, spent);
        }
    }

    /// Whether rounds have come to an end (`flush_in_rounds`).
    fn round_over(&mut self, drain: &mut Drain) -> bool {
        if self.old_pages(drain.file) > 0.0 {
            return false;
        }
        // The next round is about what was written meanwhile.
        self.swap_generation();
        let pages = self.old_pages(drain.file);
        let over = pages <= self.threshold_pages() * GOAL || pages >= drain.pages_before;
        drain.pages_before = pages;
        over
    }

    /// Whether it will be over in time if it goes on as it did (`promising`).
    fn is_promising(&self, drain: &Drain) -> bool {
        let elapsed = self.now - drain.start;
        let left = self.unflushed_pages(Some(drain.file));
        let enough = self.threshold_pages() * GOAL;
        if elapsed < self.checkpointer.drains * TRIAL || left <= enough {
            return true;
        }
        if left >= drain.start_pages {
            return false;
        }
        drain.spent + elapsed + elapsed / (drain.start_pages - left) * (left - enough) < self.checkpointer.drains
    }

    fn threshold_pages(&self) -> f64 {
        self.caps.write_iops * LEFT
    }

    fn old_pages(&self, file: usize) -> f64 {
        self.regions
            .iter()
            .filter(|region| region.old && region.file == file)
            .map(|region| region.marked() * region.weight)
            .sum()
    }

    /// The fsync itself, of what is dirty now, bridged right before (`drain_before_fsync`).
    fn fsync(&mut self, file: usize, spent: f64) {
        self.write_file(file, self.gap);
        let until = self.queue.worked() + self.queue.seconds(&self.caps);
        // Less than what adding up loses.
        let until = until - 1e-6;
        self.checkpointer.phase = Phase::Syncing { file, spent, until };
    }
}
