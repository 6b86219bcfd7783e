//! The writeback worker: which regions it flushes next (writeback.c).

use super::PAGE;
use super::Simulation;
use super::bridge;
use super::flush_age;
use super::longest_gap;
use super::unflushed_limit;

/// A region that may be flushed.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    region: usize,
    window: bool,
    pages_per_second: f64,
}

impl Simulation<'_> {
    /// The device works on what it has for `seconds`; what it then can take, the worker gives it.
    pub(super) fn flush(&mut self, seconds: f64) {
        let mut left = self.queue.work(self.caps, seconds);
        let limit = unflushed_limit(self.observation, self.device_bytes()) / PAGE;
        let full = self.dirty_bytes() > 0.8 * self.observation.kernel.background_bytes as f64;
        let mut unflushed = self.unflushed_pages(None);
        let candidates = self.candidates();
        self.choose_gap(&candidates, full || unflushed > limit);
        for candidate in candidates {
            if left <= 0.0 {
                break;
            }
            if self.is_due(candidate.region, full || unflushed > limit) {
                let region = &self.regions[candidate.region];
                unflushed -= region.marked() * region.weight;
                self.balance.written +=
                    bridge::work(region.dirty, self.gap, self.caps.operation_bytes) * region.weight;
                self.write_region(candidate.region, self.gap);
                left = self.queue.work(self.caps, left);
            }
        }
    }

    /// The regions that it would flush, first those that the checkpointer has passed, then those that free most pages per
    /// second of the device (`collect_candidates`).
    fn candidates(&self) -> Vec<Candidate> {
        let draining = self.checkpointer.draining();
        let mut candidates: Vec<Candidate> = self
            .regions
            .iter()
            .enumerate()
            .filter(|(_, region)| region.marked() > 0.0)
            .filter(|(_, region)| match draining {
                Some(drained) => drained.is_none_or(|file| file == region.file),
                None => !self.flusher.guards(region.file),
            })
            .map(|(index, region)| {
                let work = bridge::work(region.dirty, self.gap, self.caps.operation_bytes);
                Candidate {
                    region: index,
                    window: region.window,
                    pages_per_second: region.marked() / self.caps.seconds(work).max(1e-9),
                }
            })
            .collect();
        candidates.sort_by(|a, b| {
            b.window
                .cmp(&a.window)
                .then(b.pages_per_second.total_cmp(&a.pages_per_second))
        });
        candidates
    }

    /// Whether it has to be flushed now (`start_next_region`).
    fn is_due(&self, index: usize, too_much: bool) -> bool {
        let region = &self.regions[index];
        if self.checkpointer.is_draining() {
            return region.old;
        }
        region.window
            || too_much
            || region
                .since
                .is_some_and(|since| self.now - since >= flush_age(self.observation))
    }

    /// With time to spare the longest gap that pays; in a drain the one with which the device is done soonest; else that with
    /// which both budgets are used up alike (`choose_gap`).
    fn choose_gap(&mut self, candidates: &[Candidate], too_much: bool) {
        let limit = longest_gap(self.observation, self.caps);
        let draining = self.checkpointer.is_draining();
        if !draining && !too_much {
            self.gap = limit;
            return;
        }
        let sweeping = self.checkpointer.is_sweeping();
        let dirty: Vec<(f64, f64)> = candidates
            .iter()
            .map(|candidate| &self.regions[candidate.region])
            .filter(|region| region.old || !sweeping)
            .map(|region| (region.marked(), region.weight))
            .collect();
        if draining {
            if !dirty.is_empty() {
                self.gap = bridge::quickest_gap(&dirty, self.caps, limit);
            }
        } else {
            let quickest = || bridge::quickest_gap(&dirty, self.caps, limit);
            self.gap = self.balance.gap(self.caps, limit, self.now, quickest);
        }
    }
}
