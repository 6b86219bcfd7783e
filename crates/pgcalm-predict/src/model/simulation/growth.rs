//! The regions that stand for all, and how they get dirty.

use super::super::region;
use super::PAGE;
use crate::checkpoint;
use crate::report::Observation;
use crate::report::RegionClass;

/// Regions that are looked at at most: of more each stands for several.
const MOST: f64 = 64.0;

/// Regions of a segment file of a GiB.
const PER_FILE: f64 = 128.0;

/// Part of the shared buffers that are dirty where evictions turn them over within a checkpoint interval: checkpoints of the lab
/// found 0.90 and 0.71 of 32768 dirty.
const DIRTY_BUFFERS: f64 = 0.8;

/// Part of the written pages that is taken to be in shared buffers at most.
const MOST_BUFFERED: f64 = 0.9;

/// The cleaner leaves out what was changed in so many last seconds: it is in use, or its WAL is not flushed yet
/// (`write_buffer` in buffer_cleaning.c). As long as a commit takes, about.
const IN_USE: f64 = 0.01;

/// One region, or several that are always alike.
#[derive(Debug, Clone)]
pub(super) struct Region {
    /// Which of `Observation::regions` it belongs to.
    class: usize,
    /// How many it stands for.
    pub weight: f64,
    /// Place in the order in which a checkpoint writes, 0 to 1.
    pub place: f64,
    pub file: usize,
    /// Pages that a checkpoint has for it.
    pub checkpoint_pages: f64,
    /// Of its pages in shared buffers so many are dirty in the end.
    buffered_pages: f64,
    /// How often a page of it that is in shared buffers is changed.
    changes_per_second: f64,
    /// Seconds of writes since it was flushed.
    seconds: f64,
    /// When its dirty shared buffers were last written by checkpointer or cleaner.
    cleaned: f64,
    /// Until when the buffers of it that are evicted are those that the cleaner has written.
    quiet_until: f64,
    /// Part of its pages that checkpoints have written since it was flushed.
    checkpointed: f64,
    /// Pages that are dirty in the kernel.
    pub dirty: f64,
    /// Those of them that were made dense for the kernel's flusher and left to it.
    handed: f64,
    /// When the first of the marked ones was.
    pub since: Option<f64>,
    /// The checkpointer has written to it and gone on.
    pub window: bool,
    /// It has pages of the old generation.
    pub old: bool,
}

impl Region {
    /// Pages get dirty for `step` seconds.
    pub fn grow(&mut self, observation: &Observation, speed: f64, now: f64, step: f64) {
        // Part of what is evicted that is dirty.
        let dirty =
            if now > self.quiet_until { 1.0 } else { 1.0 - (-self.changes_per_second * (now - self.cleaned)).exp() };
        self.seconds += step * dirty;
        self.update(&observation.regions[self.class], speed, now);
    }

    /// The checkpointer writes its pages, which lie as scattered as the others: those that were dirty when it started, less what
    /// the cleaner has written since the last time.
    pub fn checkpoint(&mut self, class: &RegionClass, now: f64, beat: &Beat) {
        let pages = if self.cleaned > beat.started {
            0.0
        } else {
            let full = self.dirty_again(beat.turn.min(beat.interval), beat.turn);
            self.checkpoint_pages * (self.dirty_again(now - self.cleaned, beat.turn) / full).min(1.0)
        };
        self.add(pages);
        self.cleaned = now;
        self.window |= pages >= 0.5;
        self.update(class, beat.speed, now);
    }

    /// The cleaner writes what is dirty of it in shared buffers and not in use. Until a turn of the clock sweep is over, only what is
    /// changed again after that is evicted dirty.
    pub fn clean(&mut self, class: &RegionClass, now: f64, beat: &Beat) {
        let clean = now - IN_USE;
        if self.cleaned < clean {
            let part = self.dirty_again(now - self.cleaned, beat.turn) - self.dirty_again(IN_USE, beat.turn);
            self.add(self.buffered_pages * part);
            self.cleaned = clean;
            self.update(class, beat.speed, now);
        }
        self.quiet_until = now + beat.turn;
    }

    /// Part of its buffers that are dirty again so many seconds after all were clean: what has come into them since, which a change
    /// brought, and what has been changed of the rest.
    fn dirty_again(&self, seconds: f64, turn: f64) -> f64 {
        let stayed = (1.0 - seconds / turn).max(0.0);
        1.0 - stayed * (-self.changes_per_second * seconds).exp()
    }

    fn add(&mut self, pages: f64) {
        let part = (pages / region::PAGES).min(1.0);
        self.checkpointed = 1.0 - (1.0 - self.checkpointed) * (1.0 - part);
    }

    fn update(&mut self, class: &RegionClass, speed: f64, now: f64) {
        let grown = region::dirty(class, self.seconds, speed);
        self.dirty = region::PAGES - (region::PAGES - grown) * (1.0 - self.checkpointed);
        if self.since.is_none() && self.marked() >= 1.0 {
            self.since = Some(now);
        }
    }

    /// Pages in the module's map.
    pub fn marked(&self) -> f64 {
        (self.dirty - self.handed).max(0.0)
    }

    /// Its marked pages are left to the kernel's flusher.
    pub fn hand_over(&mut self) {
        self.handed = self.dirty;
        self.since = None;
        self.window = false;
        self.old = false;
    }

    pub fn flushed(&mut self) {
        self.seconds = 0.0;
        self.checkpointed = 0.0;
        self.dirty = 0.0;
        self.handed = 0.0;
        self.since = None;
        self.window = false;
        self.old = false;
    }

    pub fn class<'a>(&self, observation: &'a Observation) -> &'a RegionClass {
        &observation.regions[self.class]
    }
}

/// The rhythms that all regions share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub speed: f64,
    /// Of the clock sweep; seconds.
    pub turn: f64,
    /// Of checkpoints, and when the last one started.
    pub interval: f64,
    pub started: f64,
}

/// Pages per second that others than checkpoints write. Where the checkpointer is held up in an fsync, what backends have written
/// is missing in the server's statistics, which it reports; what got dirty meanwhile is not.
pub(super) fn evicted(observation: &Observation, speed: f64) -> f64 {
    let reported = observation.background_writer_pages_per_s + observation.backend_pages_per_s;
    let seen: f64 = observation.regions.iter().map(|class| class.regions * class.pages_first_second).sum();
    reported.max(seen) * speed
}

/// Regions for all classes, mixed in the order of places, and the number of files that they lie in.
pub(super) fn regions(observation: &Observation, speed: f64, interval: f64) -> (Vec<Region>, usize) {
    let total: f64 = observation.regions.iter().map(|class| class.regions).sum();
    let shrink = (MOST / total.max(1.0)).min(1.0);
    let evicted = evicted(observation, speed);
    let buffers = observation.settings.shared_buffers_bytes as f64 / PAGE;
    let buffered = (buffers / (total * region::PAGES).max(1.0)).min(MOST_BUFFERED);
    // In an interval of the time when it was looked at.
    let seen = checkpoint::interval(&observation.settings, observation.wal_bytes_per_s);
    let turned = checkpoint::turnovers(&observation.settings, evicted / speed, seen) >= 1.0;
    // Dirty pages in buffers and changes per second of each page, of a class.
    let in_buffers = |class: &RegionClass| {
        // Of the changes those to pages that are not in shared buffers lead to an eviction.
        let changes = class.pages_first_second / (1.0 - buffered) / region::PAGES;
        if turned {
            let per_eviction = DIRTY_BUFFERS * buffers / (evicted / speed);
            (per_eviction * class.pages_first_second, changes)
        } else if class.checkpoint_pages > 0.0 {
            // What is not evicted a checkpoint finds, so many in an interval.
            let pages = (buffered * region::PAGES).max(class.checkpoint_pages);
            let part = (class.checkpoint_pages / pages).min(0.99);
            (pages, changes.max(-(1.0 - part).ln() / seen))
        } else {
            (0.0, changes)
        }
    };
    let mut regions = Vec::new();
    for (index, class) in observation.regions.iter().enumerate() {
        let (buffered_pages, changes) = in_buffers(class);
        let samples = (class.regions * shrink).round().max(1.0);
        for sample in 0..samples as u32 {
            // Each class is spread over all the order, shifted so that they interleave.
            let shift = (index as f64 * 0.618_034).fract();
            regions.push(Region {
                class: index,
                weight: class.regions / samples,
                place: (f64::from(sample) + shift) / samples,
                file: 0,
                checkpoint_pages: class.checkpoint_pages,
                buffered_pages,
                changes_per_second: changes * speed,
                seconds: 0.0,
                cleaned: -interval,
                quiet_until: f64::NEG_INFINITY,
                checkpointed: 0.0,
                dirty: 0.0,
                handed: 0.0,
                since: None,
                window: false,
                old: false,
            });
        }
    }
    regions.sort_by(|a, b| a.place.total_cmp(&b.place));
    let files = if observation.files > 0.0 { observation.files } else { (total / PER_FILE).ceil() };
    let files = files.clamp(1.0, (regions.len() as f64).clamp(1.0, MOST)) as usize;
    let number = regions.len();
    let turnovers = checkpoint::turnovers(
        &observation.settings,
        evicted,
        interval * observation.settings.checkpoint_completion_target,
    );
    for (index, region) in regions.iter_mut().enumerate() {
        region.file = index * files / number;
        // A little of the order around its place, which is as much of the time.
        let half = 0.5 / number as f64;
        region.checkpoint_pages *= (checkpoint::written(turnovers, region.place + half)
            - checkpoint::written(turnovers, region.place - half))
            / (2.0 * half);
    }
    (regions, files)
}
