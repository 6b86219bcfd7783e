//! The kernel's flusher, and what the module does before it comes: where writes alone are capped files are made dense for it
//! (flusher_guard.c), where reads count they are flushed (flusher_visit.c).

use super::Simulation;
use super::bridge;
use super::longest_gap;
use crate::report::Kernel;

/// How long before its time a file is made dense, and for how much longer than its time it is at most; seconds.
const LEAD: f64 = 1.0;

/// Where reads count: how long after the last time at which a visit is due it may still come, and the part of the time between visits for
/// which a file may be prepared at most (`GRACE_MS`, `LEAD_SHARE`); pages that have to be gone for a visit to be seen
/// (`VISIT_PAGES` in flush.c); how long before it what takes a second is flushed (`VISIT_LEAD_FACTOR` in worker.c).
const GRACE: f64 = 2.0;
const LEAD_SHARE: f64 = 1.0 / 6.0;
const VISIT_PAGES: f64 = 4.0;
const LEAD_FACTOR: f64 = 1.5;

/// A look takes its time, too: so much longer than `vm.dirty_writeback_centisecs` is it until the next. As many of them as fit
/// into `vm.dirty_expire_centisecs` therefore take a little longer than that, and the next need not be waited for: visits in the
/// lab came 31 s apart with 30 s and 5 s.
const LATE: f64 = 1.03;

/// The flusher's visits and the module's idea of them.
#[derive(Debug, Clone)]
pub(super) struct Flusher {
    expire: f64,
    interval: f64,
    /// When it looks next whether there is something to do; infinite if it does not.
    next_look: f64,
    /// When it visited all files last. They have one clock: a visit starts it for all that are dirty again soon after.
    visited: f64,
    /// When the module thinks that each file was visited last, and whether it prepares for the next visit.
    guards: Vec<Guard>,
    /// The file that is written next when there is too much.
    cursor: usize,
    /// How long it takes to flush all that is marked.
    pub all_seconds: f64,
}

#[derive(Debug, Clone, Copy)]
struct Guard {
    since: f64,
    /// The file is made dense for the visit, and left to it.
    holds: bool,
    /// What is marked in it is flushed at once.
    near: bool,
}

impl Flusher {
    /// The first visit is after `phase` of the time between them.
    pub fn new(kernel: &Kernel, files: usize, phase: f64) -> Self {
        let look = if kernel.interval_s > 0.0 { kernel.interval_s * LATE } else { f64::INFINITY };
        let mut visited = 0.0;
        if kernel.expire_s > 0.0 && look.is_finite() {
            visited = (phase - 1.0) * (kernel.expire_s / look).ceil() * look;
        }
        let mut next_look = visited + look;
        while next_look < 0.0 {
            next_look += look;
        }
        Self {
            expire: kernel.expire_s,
            interval: kernel.interval_s,
            next_look,
            visited,
            guards: vec![Guard { since: visited, holds: false, near: false }; files],
            cursor: 0,
            all_seconds: 0.0,
        }
    }

    /// Whether nobody else should flush the file (`flusher_guard_holds`).
    pub fn guards(&self, file: usize) -> bool {
        self.guards[file].holds
    }

    /// Whether a visit of the file may come soon (`flusher_visit_is_near`).
    pub fn is_near(&self, file: usize) -> bool {
        self.guards[file].near
    }

    /// The file's dirty pages vanished at once, as they do when it is visited.
    pub fn seems_visited(&mut self, file: usize, now: f64) {
        let guard = &mut self.guards[file];
        if guard.holds {
            guard.holds = false;
            guard.since = now;
        }
    }

    /// Looks whether a visit of the file is near.
    fn expect(&mut self, file: usize, now: f64) {
        let lead = (self.all_seconds * LEAD_FACTOR + LEAD).min(self.expire * LEAD_SHARE);
        let guard = &mut self.guards[file];
        // If none was seen, one is taken to have been as early as possible.
        if now > guard.since + self.expire + self.interval + GRACE {
            guard.since += self.expire;
        }
        guard.near = now + lead >= guard.since + self.expire;
    }
}

impl Simulation<'_> {
    /// The kernel's flusher comes by time or by amount, and the module prepares for either.
    pub(super) fn visit(&mut self) {
        let shared = self.device.are_shared();
        for file in 0..self.files {
            let flusher = &mut self.flusher;
            if flusher.expire <= 0.0 || flusher.interval <= 0.0 {
                break;
            }
            if shared {
                flusher.expect(file, self.now);
                continue;
            }
            let guard = &mut flusher.guards[file];
            if guard.holds && self.now >= guard.since + flusher.expire + flusher.interval + 2.0 * LEAD {
                guard.holds = false;
                guard.since = self.now;
            }
            guard.holds |= self.now >= guard.since + flusher.expire - LEAD;
            if guard.holds {
                for region in &mut self.regions {
                    if region.file == file {
                        region.hand_over();
                    }
                }
            }
        }
        if self.now < self.flusher.next_look {
            return;
        }
        self.flusher.next_look += self.flusher.interval * LATE;
        // `wb_check_old_data_flush` and `wb_check_background_flush` in the kernel's fs/fs-writeback.c.
        if self.flusher.expire > 0.0 && self.now >= self.flusher.visited + self.flusher.expire {
            self.flusher.visited = self.now;
            for file in 0..self.files {
                self.write_visited(file, false);
            }
        }
        // `too_much_for_device`.
        let dirty = self.dirty_bytes();
        let prepared = !shared && dirty > self.device_bytes() && dirty < self.headroom();
        for _ in 0..self.files {
            if self.dirty_bytes() <= self.kernel_threshold() {
                break;
            }
            let file = self.flusher.cursor % self.files;
            self.flusher.cursor += 1;
            self.write_visited(file, prepared);
        }
    }

    /// That with which the visit of a file is over soonest (`visit_gap`).
    fn visit_gap(&self, file: usize) -> u32 {
        let dirty: Vec<(f64, f64)> = self
            .regions
            .iter()
            .filter(|region| region.file == file && region.dirty > 0.0)
            .map(|region| (region.dirty, region.weight))
            .collect();
        let longest = longest_gap(self.observation, &self.caps);
        bridge::quickest_gap(&dirty, &self.caps, longest)
    }

    fn write_visited(&mut self, file: usize, prepared: bool) {
        let gap = if prepared || self.flusher.guards(file) { self.visit_gap(file) } else { 0 };
        if self.device.are_shared() && self.unflushed_pages(Some(file)) >= VISIT_PAGES {
            self.flusher.guards[file].since = self.now;
        }
        self.write_file(file, gap);
        self.flusher.seems_visited(file, self.now);
    }
}
