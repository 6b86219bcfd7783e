//! A server with pg_calm, in steps of a fraction of a second: what extension/pg_calm does with regions, for as long as it takes
//! to become steady and for some checkpoints more.
//!
//! Nothing is left to chance: pages are expectations, and what comes at some moment (the kernel's visits) is averaged over
//! several.

mod balance;
mod checkpointer;
mod flusher;
mod growth;
mod queue;
mod worker;

use super::PAGE;
use super::bridge;
use super::caps::Caps;
use super::caps::Demand;
use super::caps::Effort;
use super::caps::Work;
use crate::checkpoint;
use crate::report::Observation;
use balance::Balance;
use checkpointer::Checkpointer;
use flusher::Flusher;
use growth::Region;
use queue::Queue;

/// Checkpoint intervals that pass before anything is counted.
const SETTLING: f64 = 2.0;

/// Checkpoints that are counted then, from the end of one to that of the last: they are longer than an interval where a drain
/// comes on top of it, and part of one would be more or less than its share.
const COUNTED: u32 = 3;

/// The longest that is waited for an end, in intervals.
const LONGEST: f64 = 3.0;

/// How many more may pass until it is steady: until the most that is dirty grows by no more than this from one to the next.
const PATIENCE: u32 = 6;
const STEADY: f64 = 1.05;

/// Moments of the kernel's first visit that are averaged over.
const PHASES: u32 = 6;

/// The worker looks at its map so often, and in a drain (`STATE_INTERVAL_MS`, `DRAIN_INTERVAL_MS` in writeback.c); seconds.
const STEP: f64 = 0.25;
const STEP_OF_DRAIN: f64 = 0.02;

/// Steps in a checkpoint interval at most: with long ones they get longer.
const STEPS: f64 = 400.0;

/// In this time a rate at which pages got dirty is forgotten: of one look, and what two have seen (unflushed_limit.c); seconds.
const RATE_SECONDS: f64 = 3.0;
const MOST_RATE_SECONDS: f64 = 120.0;

/// Part of what wakes the kernel's flusher that is used up by the end of a visit, and how much longer that lasts than the gaps tell; parts of it that may wait, and do whatever a
/// visit costs (unflushed_limit.c).
const USED: f64 = 0.9;
const VISIT_FACTOR: f64 = 1.5;
const MOST_WAITING: f64 = 0.5;
const LEAST_WAITING: f64 = 0.125;

/// In this time the kernel halves what it remembers of past writes (`SHARE_HALF_LIFE_MS` in kernel_flusher.c); seconds.
const SHARE_HALF_LIFE: f64 = 3.0;

/// All that changes with time.
struct Simulation<'a> {
    observation: &'a Observation,
    device: &'a Caps,
    /// What is left of them for data files now.
    caps: Caps,
    /// How much faster than observed the server writes.
    speed: f64,
    now: f64,
    regions: Vec<Region>,
    files: usize,
    queue: Queue,
    checkpointer: Checkpointer,
    flusher: Flusher,
    /// Bytes per second lately written to the device, and to other disks.
    ours: f64,
    others: f64,
    /// The longest gap that is bridged now.
    gap: u32,
    /// How it is chosen when too much waits.
    balance: Balance,
    /// Seconds in which the clock sweep goes round once, as far as it evicts dirty buffers.
    turn: f64,
    /// How fast pages got dirty lately, and how many had in all when that was looked at last.
    dirtied: Dirtied,
    /// How long the kernel's flusher would take for each byte that waits.
    visit_seconds: f64,
    /// Written by anybody; and since it is counted, in all and by the worker.
    pages: f64,
    work: Work,
    worker: Work,
}

/// Bytes per second, the most of the last seconds, and the most of the last minutes that was seen twice (`unflushed_limit_follow`).
#[derive(Debug, Clone, Copy, Default)]
struct Dirtied {
    bytes_per_second: f64,
    most_bytes_per_second: f64,
    pages: f64,
    when: f64,
}

/// What `speed` times the observed rate asks of the device, over whole checkpoint intervals. It keeps up if what is dirty stays
/// below what the kernel lets writers dirty without waiting: the more waits, the denser it is, and the less a page costs. And if it
/// leaves reads what they use, where they count.
pub(super) fn run(observation: &Observation, caps: &Caps, speed: f64, effort: Effort) -> Demand {
    let phases = match effort {
        Effort::Search => 1,
        Effort::Answer => PHASES,
    };
    let mut demand = Demand { work: Work::default(), worker: Work::default(), keeps_up: true };
    for phase in 0..phases {
        let part = (f64::from(phase) + 0.5) / f64::from(phases);
        let one = Simulation::new(observation, caps, speed, part).run();
        demand.work += one.work * (1.0 / f64::from(phases));
        demand.worker += one.worker * (1.0 / f64::from(phases));
        demand.keeps_up &= one.keeps_up;
    }
    demand
}

impl<'a> Simulation<'a> {
    fn new(observation: &'a Observation, device: &'a Caps, speed: f64, phase: f64) -> Self {
        let interval = checkpoint::interval(&observation.settings, observation.wal_bytes_per_s * speed);
        let (regions, files) = growth::regions(observation, speed, interval);
        let evicted = growth::evicted(observation, speed);
        Self {
            observation,
            device,
            caps: device.left(speed, 0.0),
            speed,
            now: 0.0,
            regions,
            files,
            queue: Queue::default(),
            checkpointer: Checkpointer::new(&observation.settings, interval),
            flusher: Flusher::new(&observation.kernel, files, phase),
            ours: observation.device.mib_per_s * f64::from(1 << 20),
            others: observation.device.other_mib_per_s * f64::from(1 << 20) * speed,
            gap: longest_gap(observation, device),
            balance: Balance::default(),
            turn: 1.0 / checkpoint::turnovers(&observation.settings, evicted, 1.0),
            dirtied: Dirtied::default(),
            visit_seconds: 0.0,
            pages: 0.0,
            work: Work::default(),
            worker: Work::default(),
        }
    }

    fn run(mut self) -> Demand {
        let interval = self.checkpointer.interval;
        let mut most = self.pass(interval * SETTLING);
        for _ in 0..PATIENCE {
            let before = most;
            most = self.pass(interval);
            if most <= before * STEADY {
                break;
            }
        }
        self.pass_checkpoint();
        self.work = Work::default();
        self.worker = Work::default();
        let began = self.now;
        for _ in 0..COUNTED {
            most = most.max(self.pass_checkpoint());
        }
        let work = self.work * (1.0 / (self.now - began));
        let (operations, bytes) = self.device.uses(work, self.speed);
        Demand {
            work,
            worker: self.worker * (1.0 / (self.now - began)),
            keeps_up: most <= self.freerun_bytes() && (!self.device.are_shared() || operations.max(bytes) <= 1.0),
        }
    }

    /// Lets so many seconds pass. Returns the most bytes that were dirty or under writeback.
    fn pass(&mut self, seconds: f64) -> f64 {
        let end = self.now + seconds;
        self.pass_until(|simulation| simulation.now >= end)
    }

    /// Until the next end of a checkpoint.
    fn pass_checkpoint(&mut self) -> f64 {
        let longest = self.now + self.checkpointer.interval * LONGEST;
        let ended = self.checkpointer.ended();
        self.pass_until(|simulation| simulation.checkpointer.ended() > ended || simulation.now >= longest)
    }

    fn pass_until(&mut self, over: impl Fn(&Self) -> bool) -> f64 {
        let step = (self.checkpointer.interval / STEPS).max(STEP);
        let mut most = 0.0_f64;
        while !over(self) {
            self.step(if self.checkpointer.draining().is_some() { step * STEP_OF_DRAIN / STEP } else { step });
            most = most.max(self.dirty_bytes() + self.queue.bytes());
        }
        most
    }

    fn step(&mut self, step: f64) {
        self.now += step;
        self.caps = self.device.left(self.speed, self.excess());
        for region in &mut self.regions {
            region.grow(self.observation, self.speed, self.now, step);
        }
        self.follow_dirtied();
        self.ours *= (-step / SHARE_HALF_LIFE).exp2();
        self.checkpoint();
        self.visit();
        self.flush(step);
    }

    /// Hands work to the device.
    fn write(&mut self, work: Work) {
        self.work += work;
        self.pages += work.pages;
        self.queue.add(work);
        // As a rate: what decays by half in that time has this mean.
        self.ours += work.bytes * std::f64::consts::LN_2 / SHARE_HALF_LIFE;
    }

    /// Writes what is dirty of a region, bridging gaps of up to `gap` pages. Returns what that takes.
    fn write_region(&mut self, index: usize, gap: u32) -> Work {
        let region = &mut self.regions[index];
        let work = bridge::work(region.dirty, gap, self.caps.request_bytes) * region.weight;
        region.flushed();
        self.write(work);
        work
    }

    /// Bytes that are dirty in the page cache.
    fn dirty_bytes(&self) -> f64 {
        let pages: f64 = self.regions.iter().map(|region| region.dirty * region.weight).sum();
        pages * PAGE
    }

    /// Pages marked in the module's map: those handed to the kernel's flusher are not.
    fn unflushed_pages(&self, file: Option<usize>) -> f64 {
        self.regions
            .iter()
            .filter(|region| file.is_none_or(|file| region.file == file))
            .map(|region| region.marked() * region.weight)
            .sum()
    }

    /// Dirty bytes at which the module expects the kernel to start on the device: `device_bytes` in kernel_flusher.c. What
    /// stacked devices hand on is counted on each.
    fn device_bytes(&self) -> f64 {
        let all = self.ours * f64::from(self.observation.device.counted_times.max(1)) + self.others;
        self.share_of_background(all)
    }

    /// Where it does so: it counts what it writes itself, once (`wb_calc_thresh` in the kernel's mm/page-writeback.c).
    fn kernel_threshold(&self) -> f64 {
        let times = f64::from(self.observation.device.counted_times.max(1));
        self.share_of_background(self.ours + self.others / times)
    }

    fn share_of_background(&self, all: f64) -> f64 {
        let background = self.observation.kernel.background_bytes as f64;
        let share = if all > 0.0 { self.ours / all } else { 0.0 };
        let left = (background - self.dirty_bytes()).max(0.0);
        (background * share).max(left / 8.0)
    }

    /// Bytes above which the kernel makes writers wait (`dirty_freerun_ceiling` in its mm/page-writeback.c).
    fn freerun_bytes(&self) -> f64 {
        let kernel = &self.observation.kernel;
        (kernel.background_bytes + kernel.limit_bytes) as f64 / 2.0
    }

    /// Bytes that may still be dirtied by making regions dense: `kernel_flusher_headroom`.
    fn headroom(&self) -> f64 {
        (self.freerun_bytes() * 0.75 - self.dirty_bytes() - self.queue.bytes()).max(0.0)
    }

    fn follow_dirtied(&mut self) {
        let before = self.dirtied;
        let seconds = self.now - before.when;
        if seconds >= STEP {
            let pages = self.dirty_bytes() / PAGE + self.pages;
            let rate = ((pages - before.pages) * PAGE / seconds).max(0.0);
            let recent = before.bytes_per_second * (-seconds / RATE_SECONDS).exp();
            let fading = before.most_bytes_per_second * (-seconds / MOST_RATE_SECONDS).exp();
            self.dirtied = Dirtied {
                bytes_per_second: rate.max(recent),
                most_bytes_per_second: fading.max(rate.min(before.bytes_per_second)),
                pages,
                when: self.now,
            };
        }
    }

    /// Bytes that may wait: `unflushed_limit_bytes` in unflushed_limit.c.
    fn unflushed_limit(&self) -> f64 {
        let part = self.device_bytes();
        match self.observation.settings.unflushed_limit_bytes {
            0 => (part * USED / (1.0 + self.dirtied.most_bytes_per_second * self.visit_seconds * VISIT_FACTOR))
                .clamp(part * LEAST_WAITING, part * MOST_WAITING),
            set => set as f64,
        }
    }

    /// How far what is unflushed is beyond that: `unflushed_excess` in writeback.c.
    fn excess(&self) -> f64 {
        let limit = self.unflushed_limit();
        let bytes = self.unflushed_pages(None) * PAGE;
        ((bytes - limit) / (self.device_bytes() - limit).max(1.0)).clamp(0.0, 1.0)
    }

    /// Writes all of a file, made dense before as far as there is room for it: what fsync finds, or the kernel's visit.
    fn write_file(&mut self, file: usize, gap: u32) {
        let mut headroom = self.headroom();
        for index in 0..self.regions.len() {
            let region = &self.regions[index];
            if region.file != file || region.dirty <= 0.0 {
                continue;
            }
            let filled = bridge::work(region.dirty, gap, self.caps.request_bytes).bytes - region.dirty * PAGE;
            let gap = if filled * region.weight <= headroom {
                headroom -= filled * region.weight;
                gap
            } else {
                0
            };
            self.write_region(index, gap);
        }
    }
}

/// The longest gap that may be bridged at all: `device_max_gap` in device.c, or none where bridging is refused.
fn longest_gap(observation: &Observation, caps: &Caps) -> u32 {
    if observation.settings.bridge && observation.settings.full_page_writes { caps.longest_gap() } else { 0 }
}

/// Seconds that a page may wait: `flush_age_ms` in writeback.c.
fn flush_age(observation: &Observation) -> f64 {
    let settings = &observation.settings;
    if settings.flush_age_s > 0.0 {
        return settings.flush_age_s;
    }
    let half = settings.checkpoint_timeout_s / 2.0;
    if observation.kernel.expire_s > 0.0 { half.min(observation.kernel.expire_s) } else { half }
}

#[cfg(test)]
mod tests;
