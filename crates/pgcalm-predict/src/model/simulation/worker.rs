//! The writeback worker: which regions it flushes next (writeback.c).

use super::PAGE;
use super::Simulation;
use super::bridge;
use super::flush_age;
use super::longest_gap;

/// A region that may be flushed.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    region: usize,
    /// The checkpointer waits for it.
    drain: bool,
    /// The kernel's flusher is about to come to its file.
    visit: bool,
    window: bool,
    pages_per_second: f64,
}

impl Simulation<'_> {
    /// The device works on what it has for `seconds`; what it then can take, the worker gives it.
    pub(super) fn flush(&mut self, seconds: f64) {
        let mut left = self.queue.work(&self.caps, seconds);
        let limit = self.unflushed_limit() / PAGE;
        let full = self.dirty_bytes() > 0.8 * self.observation.kernel.background_bytes as f64;
        let mut unflushed = self.unflushed_pages(None);
        let candidates = self.candidates();
        self.choose_gap(&candidates, full || unflushed > limit);
        self.flusher.all_seconds = 0.0;
        for candidate in &candidates {
            let region = &self.regions[candidate.region];
            self.flusher.all_seconds += region.marked() * region.weight / candidate.pages_per_second;
        }
        for candidate in candidates {
            if left <= 0.0 {
                break;
            }
            let too_much = full || unflushed > limit;
            if candidate.drain || candidate.visit || self.is_due(candidate.region, too_much) {
                let region = &self.regions[candidate.region];
                unflushed -= region.marked() * region.weight;
                self.flush_region(&candidate);
                left = self.queue.work(&self.caps, left);
            }
        }
    }

    /// Before a visit, and in a drain where reads count, what is marked has to go, and no more is to come (`start_next_region`).
    fn flush_region(&mut self, candidate: &Candidate) {
        let held_back = candidate.visit || candidate.drain && self.device.are_shared();
        let region = &mut self.regions[candidate.region];
        if self.observation.settings.clean_buffers && !held_back {
            let beat = self.checkpointer.beat(self.speed, self.turn);
            region.clean(region.class(self.observation), self.now, &beat);
        }
        self.balance.written += bridge::work(region.dirty, self.gap, self.caps.operation_bytes) * region.weight;
        let work = self.write_region(candidate.region, self.gap);
        self.worker += work;
    }

    /// The regions that it would flush, first those that the checkpointer waits for, that a visit is near to, and that the checkpointer
    /// has passed, then those that free most pages per second of the device (`collect_candidates`).
    fn candidates(&self) -> Vec<Candidate> {
        let draining = self.checkpointer.draining();
        let mut candidates: Vec<Candidate> = self
            .regions
            .iter()
            .enumerate()
            .filter(|(_, region)| region.marked() > 0.0)
            .filter(|(_, region)| draining == Some(region.file) || !self.flusher.guards(region.file))
            .map(|(index, region)| {
                let work = bridge::work(region.dirty, self.gap, self.caps.operation_bytes);
                Candidate {
                    region: index,
                    drain: draining == Some(region.file) && region.old,
                    visit: self.flusher.is_near(region.file),
                    window: region.window,
                    pages_per_second: region.marked() / self.caps.seconds(work).max(1e-9),
                }
            })
            .collect();
        candidates.sort_by(|a, b| {
            (b.drain, b.visit, b.window)
                .cmp(&(a.drain, a.visit, a.window))
                .then(b.pages_per_second.total_cmp(&a.pages_per_second))
        });
        candidates
    }

    /// Whether it has to be flushed now (`start_next_region`).
    fn is_due(&self, index: usize, too_much: bool) -> bool {
        let region = &self.regions[index];
        region.window || too_much || region.since.is_some_and(|since| self.now - since >= flush_age(self.observation))
    }

    /// With time to spare the longest gap that pays; in a drain the one with which the device is done soonest; else that with
    /// which both budgets are used up alike (`choose_gap`). And how long a visit of the kernel's flusher would take.
    fn choose_gap(&mut self, candidates: &[Candidate], too_much: bool) {
        let limit = longest_gap(self.observation, &self.caps);
        let draining = self.checkpointer.draining().is_some();
        let dirty: Vec<(f64, f64)> = candidates
            .iter()
            .map(|candidate| &self.regions[candidate.region])
            .map(|region| (region.marked(), region.weight))
            .collect();
        let bytes: f64 = dirty.iter().map(|(pages, number)| pages * number * PAGE).sum();
        if bytes > 0.0 {
            let (_, seconds) = bridge::least_time(&dirty, &self.caps, limit, self.headroom());
            self.visit_seconds = seconds / bytes;
        }
        if !draining && !too_much {
            self.gap = limit;
            return;
        }
        let quickest = || bridge::quickest_gap(&dirty, &self.caps, limit);
        self.gap = if draining { quickest() } else { self.balance.gap(&self.caps, limit, self.now, quickest) };
    }
}
