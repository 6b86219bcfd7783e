//! How many blocks are changed within a time, and how many runs of neighbours these are, whatever that time is.
//!
//! A window of t seconds finds a block unchanged if it lies in a gap g between two of its changes: at g - t of the L - t places that
//! it has in all that was seen. So the mean number of blocks that are changed within t is that of all blocks, less the sum of
//! (g - t) / (L - t) over all gaps that are longer. It holds for each t exactly, if what is before a block's first change and after
//! its last one are gaps, too. All that has to be kept is when each block was changed last, and a histogram of gaps.
//!
//! Neighbours are written as one operation. A pair of neighbours counts likewise, as changed when one of them is: a run of n blocks
//! is in n + 1 pairs, so there are as many runs as pairs less blocks.
//!
//! Where there are too many blocks, those of a half of all regions count, then of a quarter, by the hash of the region. Each has its
//! own histogram, so that the gaps of what is left out from then on are left out, too.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Blocks that are kept at once, and pairs: 2^19 of each are some 40 MB.
const KEPT: usize = if cfg!(test) { 1 << 10 } else { 1 << 19 };
/// Neighbours that count together, or not.
const REGION: u32 = 64;
/// Halvings.
const PARTS: usize = 24;
/// The bits of a key that say how often it may be halved.
const PART: u64 = 63;
/// Lengths of gaps and windows: from 1 ms on, four for each doubling, up to 40 days.
const LENGTHS: usize = 128;
/// Up to which windows are told of; the whole itself would be one. pg_wal has little more than one checkpoint's.
const PART_OF_WHOLE: f64 = 0.9;

/// In microseconds.
fn length(index: usize) -> f64 {
    1000.0 * (index as f64 / 4.0).exp2()
}

/// The end of splitmix64: each bit depends on all.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Of a block, or of the pair of it and the next one.
fn key(file: u64, block: u32) -> u64 {
    let part = mixed(file ^ mixed(u64::from(block / REGION) + 1)).trailing_zeros().min(PARTS as u32 - 1);
    (mixed(file ^ mixed(u64::from(block))) & !PART) | u64::from(part)
}

fn part(key: u64) -> usize {
    (key & PART) as usize
}

/// How many gaps of about one length there were, and their sum.
#[derive(Debug, Clone, Copy, Default)]
struct Gaps {
    count: f64,
    sum: f64,
}

/// Each has those above its length, and not above the next one's.
type Histogram = [Gaps; LENGTHS];

fn add(histogram: &mut Histogram, gap: f64) {
    let index = ((gap / 1000.0).log2() * 4.0).ceil() - 1.0;
    // Shorter ones are in the way of no window.
    if index >= 0.0 {
        let gaps = &mut histogram[(index as usize).min(LENGTHS - 1)];
        gaps.count += 1.0;
        gaps.sum += gap;
    }
}

/// Blocks, or pairs.
#[derive(Debug)]
struct Changed {
    /// When each was changed last, in microseconds.
    last: HashMap<u64, f64>,
    gaps: Vec<Histogram>,
}

impl Default for Changed {
    fn default() -> Self {
        Self { last: HashMap::new(), gaps: vec![[Gaps::default(); LENGTHS]; PARTS] }
    }
}

impl Changed {
    fn touch(&mut self, key: u64, at: f64) {
        let before = self.last.insert(key, at).unwrap_or(0.0);
        add(&mut self.gaps[part(key)], at - before);
    }

    /// How many were changed within each length, up to nearly the whole.
    fn within(&self, whole: f64, least_part: usize) -> Vec<f64> {
        let mut gaps = [Gaps::default(); LENGTHS];
        self.last.values().for_each(|last| add(&mut gaps, whole - last));
        let (mut count, mut sum) = (0.0, 0.0);
        let within = (0..LENGTHS).rev().map(|index| {
            for gaps in self.gaps[least_part..].iter().chain([&gaps]).map(|histogram| histogram[index]) {
                count += gaps.count;
                sum += gaps.sum;
            }
            let unchanged = (sum - count * length(index)) / (whole - length(index));
            (self.last.len() as f64 - unchanged) * f64::from(1u32 << least_part)
        });
        let mut within: Vec<f64> = within.collect();
        within.reverse();
        within.truncate((0..LENGTHS).filter(|index| length(*index) <= PART_OF_WHOLE * whole).count());
        within
    }
}

/// What was changed, in the order of WAL.
#[derive(Debug, Default)]
pub(super) struct Changes {
    blocks: Changed,
    pairs: Changed,
    /// How often what counts was halved.
    halved: usize,
    /// The last commit: its position in WAL, and its time in microseconds. The first one is the beginning.
    last: Option<(u64, i64)>,
    began: i64,
    /// Changes since then, whose time is known at the next one: position, block, and the block before it.
    pending: Vec<(u64, [u64; 2])>,
}

impl Changes {
    /// A block was changed; which file that is, is a number of the caller's.
    pub(super) fn change(&mut self, position: u64, file: u64, block: u32) {
        let keys = [key(file, block), key(file, block.wrapping_sub(1))];
        if self.last.is_some() && keys.iter().any(|key| part(*key) >= self.halved) {
            self.pending.push((position, keys));
            self.halve();
        }
    }

    /// Forgets what was changed since the last commit, and that; of no use after the next one.
    pub(super) fn begin_anew(&mut self) {
        self.pending.clear();
        self.last = None;
    }

    /// It was so late there; from the first one on all counts, and what was changed came evenly in between.
    pub(super) fn time(&mut self, position: u64, micros: i64) {
        let Some((from, before)) = self.last else {
            self.began = micros;
            self.last = Some((position, micros));
            return;
        };
        // Commits are written about in the order of their times.
        let micros = micros.max(before);
        let (passed, bytes) = ((micros - before) as f64, position.saturating_sub(from).max(1) as f64);
        for (changed, [block, one_before]) in std::mem::take(&mut self.pending) {
            let at = (before - self.began) as f64 + passed * (changed.saturating_sub(from) as f64 / bytes);
            for (changed, keys) in [(&mut self.blocks, &[block][..]), (&mut self.pairs, &[block, one_before])] {
                let counted = keys.iter().filter(|key| part(**key) >= self.halved);
                counted.for_each(|key| changed.touch(*key, at));
            }
            self.halve();
        }
        self.last = Some((position, micros));
    }

    fn halve(&mut self) {
        while self.halved < PARTS - 1
            && self.pending.len().max(self.blocks.last.len()).max(self.pairs.last.len()) > KEPT
        {
            self.halved += 1;
            let least = self.halved;
            self.blocks.last.retain(|key, _| part(*key) >= least);
            self.pairs.last.retain(|key, _| part(*key) >= least);
            self.pending.retain(|(_, keys)| keys.iter().any(|key| part(*key) >= least));
        }
    }

    /// Seconds from the first commit to the last.
    pub(super) fn seconds(&self) -> f64 {
        self.last.map_or(0.0, |(_, micros)| (micros - self.began) as f64 / 1e6)
    }

    /// The curve.
    pub(super) fn curve(&self) -> Curve {
        let whole = self.seconds() * 1e6;
        let blocks = self.blocks.within(whole, self.halved);
        let pairs = self.pairs.within(whole, self.halved);
        let mut points: Vec<Point> = Vec::new();
        for (index, (blocks, pairs)) in blocks.into_iter().zip(pairs).enumerate() {
            let before = points.last().copied().unwrap_or_default();
            let seconds = length(index) / 1e6;
            let runs = (pairs - blocks).clamp(0.0, blocks.max(0.0));
            // Means of the curve up to here.
            let mean = |held: f64, from: f64, to: f64| {
                (held * before.seconds + (from + to) / 2.0 * (seconds - before.seconds)) / seconds
            };
            points.push(Point {
                seconds,
                blocks,
                runs,
                held_blocks: mean(before.held_blocks, before.blocks, blocks),
                held_runs: mean(before.held_runs, before.runs, runs),
            });
        }
        Curve(points)
    }
}

/// What follows from it if each block that was changed is written once per so many seconds, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// The time.
    pub seconds: f64,
    /// Blocks that are changed within it, on average over all such times; so many are written in it.
    pub blocks: f64,
    /// Runs of neighbours that these are.
    pub runs: f64,
    /// Blocks that are dirty at a moment: the mean over all shorter times, since each was written between just now and so long ago.
    pub held_blocks: f64,
    /// Runs of neighbours that these are.
    pub held_runs: f64,
}

/// By time, from short to long; linear between the points, and before the first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve(pub Vec<Point>);

impl Curve {
    /// The longest time that it tells of.
    pub(super) fn longest(&self) -> Point {
        self.0.last().copied().unwrap_or_default()
    }

    /// What holds at the longest time for which something is no more than wanted; `None` if that is so at the end.
    pub(super) fn longest_with(&self, wanted: f64, of: impl Fn(&Point) -> f64) -> Option<Point> {
        // Runs get fewer where gaps between them are filled.
        let after = self.0.iter().rposition(|point| of(point) <= wanted).map_or(0, |index| index + 1);
        let (after, before) =
            (self.0.get(after)?, after.checked_sub(1).map_or(Point::default(), |index| self.0[index]));
        let part = (wanted - of(&before)) / (of(after) - of(&before));
        let between = |field: fn(&Point) -> f64| field(&before) + part * (field(after) - field(&before));
        Some(Point {
            seconds: between(|point| point.seconds),
            blocks: between(|point| point.blocks),
            runs: between(|point| point.runs),
            held_blocks: between(|point| point.held_blocks),
            held_runs: between(|point| point.held_runs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block each tenth of a second for so many seconds.
    fn curve(seconds: u64, block: impl Fn(u64) -> u64) -> (Changes, Curve) {
        let mut changes = Changes::default();
        for tenth in 0..=seconds * 10 {
            changes.change(tenth * 8, 7, block(tenth) as u32);
            changes.time(tenth * 8, tenth as i64 * 100_000);
        }
        let curve = changes.curve();
        (changes, curve)
    }

    fn near(curve: &Curve, seconds: f64, blocks: f64, runs: f64) {
        let point = curve.longest_with(seconds, |point| point.seconds).unwrap();
        let is = |value: f64, wanted: f64| (value - wanted).abs() <= wanted * 0.03 + 0.1;
        assert!(is(point.blocks, blocks) && is(point.runs, runs), "{point:?}, not {blocks} in {runs}");
    }

    #[test]
    fn of_blocks_in_turn_all_are_changed_in_a_turn() {
        // 100 blocks, each 10 s, that lie apart; then side by side.
        let (_, apart) = curve(200, |tenth| tenth % 100 * 2);
        for (seconds, blocks) in [(1.0, 10.0), (5.0, 50.0), (20.0, 100.0), (90.0, 100.0)] {
            near(&apart, seconds, blocks, blocks);
        }
        let (_, side_by_side) = curve(200, |tenth| tenth % 100);
        // Half of all windows of half a turn begin in one and end in the next.
        near(&side_by_side, 5.0, 50.0, 1.5);
        near(&side_by_side, 20.0, 100.0, 1.0);
        // Up to a turn as many as time goes by: half of them are dirty on average.
        let point = apart.longest_with(8.0, |point| point.seconds).unwrap();
        assert!((point.held_blocks - 40.0).abs() < 1.0, "{point:?}");
        assert!(apart.longest().seconds > 150.0 && apart.longest().seconds <= 180.0);
    }

    #[test]
    fn a_block_by_itself_stays_one_and_what_comes_once_is_never_enough() {
        near(&curve(100, |_| 3).1, 10.0, 1.0, 1.0);
        near(&curve(40, |tenth| tenth * 3).1, 10.0, 100.0, 100.0);
        // What was changed before the first time, and after the last one, has none.
        let mut changes = Changes::default();
        changes.change(1, 7, 1);
        changes.time(2, 0);
        changes.time(4, 1_000_000);
        changes.change(5, 7, 1);
        assert!(changes.curve().0.iter().all(|point| point.blocks == 0.0));
    }

    #[test]
    fn a_part_of_all_regions_tells_of_all() {
        // 10,000 blocks, each its own region, in no order, and each twice.
        let (changes, curve) = curve(4000, |tenth| mixed(tenth / 2 % 10_000) % (1 << 20) * 64);
        assert!(changes.halved >= 4 && changes.blocks.last.len() <= KEPT, "{}", changes.halved);
        let point = curve.longest_with(400.0, |point| point.seconds).unwrap();
        assert!((point.blocks / 2000.0 - 1.0).abs() < 0.15 && (point.runs / 2000.0 - 1.0).abs() < 0.15, "{point:?}");
    }
}
