//! The checkpointer: what it writes when, and what is done before its fsyncs (drain.c).

use pgcalm_report::predict::Settings;

use super::Simulation;

/// Pages that need no drain, in seconds of the device's operations (`LEFT_SECONDS` in drain.c).
const LEFT: f64 = 0.1;

/// Part of the time for drains after which progress is judged (`TRIAL_SHARE`).
const TRIAL: f64 = 0.1;

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
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// For the next checkpoint.
    Waiting,
    /// Up to here it has come in the order of regions.
    Writing(f64),
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
}

impl Checkpointer {
    pub fn new(settings: &Settings, interval: f64) -> Self {
        Self {
            interval,
            writes: interval * settings.checkpoint_completion_target,
            // `timeout_ms` in drain.c.
            drains: settings.checkpoint_timeout_s * (1.0 - settings.checkpoint_completion_target),
            phase: Phase::Waiting,
            started: -interval,
        }
    }

    pub fn is_draining(&self) -> bool {
        self.draining().is_some()
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
                        region.checkpoint(class, self.speed, self.now);
                    }
                }
                self.checkpointer.phase = Phase::Writing(to);
                if to >= 1.0 {
                    self.sync(None, 0.0);
                }
            }
            Phase::Draining(drain) => self.drain(drain),
            Phase::Syncing { file, spent, until } => {
                if self.queue.worked() >= until {
                    if file + 1 < self.files {
                        self.sync(Some(file + 1), spent);
                    } else {
                        self.checkpointer.phase = Phase::Waiting;
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

    /// Before the fsync of a file; of the first if none is given, for which all are drained
    /// (`drain_before_checkpoint_fsync`).
    fn sync(&mut self, file: Option<usize>, spent: f64) {
        let worth = spent < self.checkpointer.drains
            && self.unflushed_pages(None) > self.threshold_pages()
            && self.unflushed_pages(file) > self.threshold_pages();
        if worth {
            self.checkpointer.phase = Phase::Draining(Drain {
                file,
                start: self.now,
                start_pages: self.unflushed_pages(file),
                spent,
            });
            self.swap_generation();
        } else {
            self.fsync(file.unwrap_or(0), spent);
        }
    }

    fn drain(&mut self, drain: Drain) {
        let spent = drain.spent + self.now - drain.start;
        let over = spent >= self.checkpointer.drains || !self.is_promising(&drain);
        let left = self.old_pages(drain.file);
        if !over && left > 0.0 {
            return;
        }
        if !over {
            // The next round is about what was written meanwhile.
            self.swap_generation();
            if self.old_pages(drain.file) > self.threshold_pages() {
                return;
            }
        }
        match drain.file {
            // After all files the first one by itself.
            None => self.sync_after_all(spent),
            Some(file) => self.fsync(file, spent),
        }
    }

    fn sync_after_all(&mut self, spent: f64) {
        if spent < self.checkpointer.drains
            && self.unflushed_pages(Some(0)) > self.threshold_pages()
        {
            self.checkpointer.phase = Phase::Draining(Drain {
                file: Some(0),
                start: self.now,
                start_pages: self.unflushed_pages(Some(0)),
                spent,
            });
            self.swap_generation();
        } else {
            self.fsync(0, spent);
        }
    }

    /// Whether it will be over in time if it goes on as it did (`promising`).
    fn is_promising(&self, drain: &Drain) -> bool {
        let elapsed = self.now - drain.start;
        let left = self.unflushed_pages(drain.file);
        let enough = self.threshold_pages();
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
        self.flusher.seems_visited(file, self.now);
        let until = self.queue.worked() + self.queue.seconds(self.caps);
        // Less than what adding up loses.
        let until = until - 1e-6;
        self.checkpointer.phase = Phase::Syncing { file, spent, until };
    }
}
