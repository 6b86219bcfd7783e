//! What a target costs.
//!
//! The cleaner goes over all dirty buffers in the order of their blocks and begins again (`targets.c` of the module), and so do
//! checkpoints. So each block that is changed within a round of t seconds is written once in it, and at a moment those are
//! dirty that were changed since they were passed by, which is up to t ago. Both follow from the curve (`curve.rs`).
//!
//! A stop target has rounds as long as what is dirty is written in that time. A recovery target has checkpoints as far apart as WAL of
//! one and its completion is replayed in that time, and a page for each block of it written in the checkpoint at the end; each page
//! that is changed puts an image into that WAL, once.

use super::curve::{Curve, Point};
use super::report::Cost;

/// Part of a target that pg_calm aims at, and its limits of checkpoints: `targets.c`.
pub(super) const PART: f64 = 0.8;
const LEAST_SEGMENTS: f64 = 2.0;
const LEAST_INTERVAL: f64 = 10.0;

/// What is offered of targets.
const TARGETS: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
/// So many of them.
const OFFERED: usize = 5;

/// The first that costs nothing, if it takes so long without, and those below.
fn offered(now: f64) -> &'static [f64] {
    let first = TARGETS.iter().position(|target| *target >= now).unwrap_or(TARGETS.len() - 1);
    let end = (first + 1).max(OFFERED);
    &TARGETS[end - OFFERED..end]
}

/// All that it follows from; times in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub curve: Curve,
    pub write_iops: Option<f64>,
    pub write_bandwidth: Option<f64>,
    pub block_bytes: f64,
    /// That many pages are dirty at most when replay has ended.
    pub shared_buffers: f64,
    /// WAL without images, per second.
    pub wal_rate: f64,
    /// Of a page.
    pub image_bytes: f64,
    /// None on a standby.
    pub replay_rate: Option<f64>,
    pub checkpoint_timeout: f64,
    pub completion_target: f64,
    pub max_wal_bytes: f64,
    pub segment_bytes: f64,
}

impl Model {
    /// What the volume takes for so much.
    fn device_seconds(&self, runs: f64, blocks: f64) -> Option<f64> {
        let by_operations = self.write_iops.map(|iops| runs / iops);
        let by_bytes = self.write_bandwidth.map(|bytes| blocks * self.block_bytes / bytes);
        by_operations.into_iter().chain(by_bytes).reduce(f64::max)
    }

    fn share(&self, point: &Point) -> Option<f64> {
        Some(self.device_seconds(point.runs, point.blocks)? / point.seconds)
    }

    /// From one checkpoint's beginning to the next one's.
    fn wal(&self, point: &Point) -> f64 {
        self.wal_rate * point.seconds + self.image_bytes * point.blocks
    }

    /// After how much WAL a checkpoint has to begin, if there is to be so much at the end of the next one.
    fn between(&self, wal: f64) -> f64 {
        wal / (1.0 + self.completion_target)
    }

    /// Of the longest round with no more than that; whether longer ones have no more, too, as far as they are known.
    fn round(&self, wanted: f64, of: impl Fn(&Point) -> f64) -> (f64, bool) {
        let found = self.curve.longest_with(wanted, of);
        (found.unwrap_or(self.curve.longest()).seconds, found.is_none())
    }

    /// Of rounds with so much WAL, of which longer ones have no more per second.
    fn round_of_wal(&self, bytes: f64) -> (f64, bool) {
        let (seconds, or_longer) = self.round(bytes, |point| self.wal(point));
        let longer = if or_longer { bytes / self.wal(&self.curve.longest()) } else { 1.0 };
        (seconds * longer, or_longer)
    }

    /// How long checkpoints are apart without a target.
    fn now(&self) -> f64 {
        self.checkpoint_timeout.min(self.round_of_wal(self.between(self.max_wal_bytes)).0)
    }

    /// Of such a round, which may be longer; none of them are longer than now.
    fn cost(&self, target: Option<f64>, (round, or_longer): (f64, bool)) -> (Cost, Point) {
        let (now, longest) = (self.now(), self.curve.longest());
        let round = round.min(now);
        let point = self.curve.longest_with(round, |point| point.seconds).unwrap_or(longest);
        let cost = Cost {
            target_seconds: target,
            possible: self.share(&point).is_none_or(|share| share <= 1.0),
            round_seconds: round,
            as_now: round >= now,
            at_most: round > longest.seconds || (or_longer && round < now),
            pages_per_s: point.blocks / point.seconds,
            operations_per_s: point.runs / point.seconds,
            volume_share: self.share(&point),
            image_bytes_per_s: self.image_bytes * point.blocks / point.seconds,
            takes_seconds: 0.0,
        };
        (cost, point)
    }

    /// For no target, and five; none if the volume is not known.
    pub(super) fn stop(&self) -> Vec<Cost> {
        let takes = |point: &Point| self.device_seconds(point.held_runs, point.held_blocks);
        let (now, point) = self.cost(None, (f64::INFINITY, false));
        let Some(takes_seconds) = takes(&point) else { return Vec::new() };
        let mut costs = vec![Cost { takes_seconds, ..now }];
        for target in offered(takes_seconds) {
            let round = self.round(PART * target, |point| takes(point).unwrap_or(0.0));
            let (cost, point) = self.cost(Some(*target), round);
            let takes_seconds = takes(&point).unwrap_or(0.0);
            // Checkpoints stay as they are.
            costs.push(Cost { takes_seconds, image_bytes_per_s: costs[0].image_bytes_per_s, ..cost });
        }
        costs
    }

    /// Likewise; none on a standby.
    pub(super) fn recovery(&self) -> Vec<Cost> {
        let Some(rate) = self.replay_rate else { return Vec::new() };
        // At most, where rounds are longer than what is known.
        let longer = |cost: &Cost, point: &Point| cost.round_seconds / point.seconds;
        let page = self.device_seconds(1.0, 1.0).unwrap_or(0.0);
        let recovery = |wal: f64| wal / rate + page * (wal / self.block_bytes).min(self.shared_buffers);
        let wal = |seconds: f64| {
            (seconds / (1.0 / rate + page / self.block_bytes)).max((seconds - page * self.shared_buffers) * rate)
        };
        let takes = |point: &Point, longer: f64| recovery(self.wal(point) * (1.0 + self.completion_target) * longer);
        let (now, point) = self.cost(None, (f64::INFINITY, false));
        let mut costs = vec![Cost { takes_seconds: takes(&point, longer(&now, &point)), ..now }];
        for target in offered(costs[0].takes_seconds) {
            let bytes = self.between(wal(PART * target)).max(LEAST_SEGMENTS * self.segment_bytes);
            let (round, or_longer) = self.round_of_wal(bytes);
            let (cost, point) = self.cost(Some(*target), (round.max(LEAST_INTERVAL), or_longer));
            let takes_seconds = takes(&point, longer(&cost, &point));
            // At least: no other page is changed in what is not known.
            let least = takes(&Point { seconds: cost.round_seconds, ..point }, 1.0);
            let possible = cost.possible && least <= *target;
            costs.push(Cost { takes_seconds, possible, ..cost });
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 blocks in turn, ten per second, none beside another; seen for 400 s.
    fn model() -> Model {
        let point = |index: u32| {
            let seconds = f64::from(index) / 4.0;
            let (turn, all) = (seconds.min(10.0), (seconds - 10.0).max(0.0));
            let (blocks, held) = (10.0 * turn, (5.0 * turn * turn + 100.0 * all) / seconds);
            Point { seconds, blocks, runs: blocks, held_blocks: held, held_runs: held }
        };
        Model {
            curve: Curve((1..=800).map(point).collect()),
            write_iops: Some(20.0),
            block_bytes: 8192.0,
            wal_rate: 1e6,
            image_bytes: 8000.0,
            replay_rate: Some(10e6),
            checkpoint_timeout: 100.0,
            completion_target: 1.0,
            max_wal_bytes: 1e12,
            segment_bytes: 1e6,
            ..Model::default()
        }
    }

    fn near(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 0.02, "{value}, not {wanted}");
    }

    #[test]
    fn a_stop_target_has_pages_written_before_too_many_are_dirty() {
        let [now, one, _, five, ..] = &model().stop()[..] else { panic!() };
        near(now.round_seconds, 100.0);
        near(now.pages_per_s, 1.0);
        near(now.takes_seconds, 95.0 / 20.0);
        // 16 dirty blocks are those of rounds of 3.2 s, in which no block comes twice.
        near(one.round_seconds, 3.2);
        near(one.operations_per_s, 10.0);
        near(one.volume_share.unwrap(), 0.5);
        near(one.takes_seconds, 0.8);
        assert!(one.possible && !one.at_most && one.image_bytes_per_s == now.image_bytes_per_s);
        assert!(five.target_seconds == Some(5.0) && !five.as_now);
        // By bytes, and where nothing is known.
        let slow = Model { write_bandwidth: Some(8192.0 * 10.0), ..model() };
        near(slow.stop()[1].round_seconds, 1.6);
        assert_eq!(Model { write_iops: None, ..model() }.stop(), []);
    }

    #[test]
    fn what_the_volume_can_not_write_is_impossible() {
        // Rounds of 20 s have 100 blocks, 75 at a moment: those of 15 s.
        let costs = Model { write_iops: Some(5.0), ..model() }.stop();
        let possible: Vec<f64> =
            costs.iter().filter(|cost| cost.possible).filter_map(|cost| cost.target_seconds).collect();
        assert_eq!(possible, [20.0]);
        near(costs[1].volume_share.unwrap(), 2.0);
    }

    #[test]
    fn a_recovery_target_has_checkpoints_before_there_is_too_much_wal() {
        let costs = model().recovery();
        near(costs[0].takes_seconds, 2.0 * 100.8e6 / 10e6);
        // With all of 100 shared buffers written at the end.
        near(Model { shared_buffers: 100.0, ..model() }.recovery()[0].takes_seconds, 20.16 + 5.0);
        let of = |target| costs.iter().find(|cost| cost.target_seconds == Some(target)).unwrap();
        // Of 80 MB half until the next one begins, images of all 100 blocks among them; but no more often than each 10 s.
        near(of(10.0).round_seconds, 39.2);
        near(of(10.0).pages_per_s, 100.0 / 39.2);
        near(of(10.0).image_bytes_per_s, 800_000.0 / 39.2);
        assert!(of(5.0).possible && !of(2.0).possible && of(30.0).as_now);
        assert_eq!(of(2.0).round_seconds, 10.0);
        // Nor where only the first 15 s are known: 30 MB, and images at least of what these have changed.
        let known = Curve(model().curve.0[..60].to_vec());
        let costs = Model { curve: known, checkpoint_timeout: 30.0, ..model() }.recovery();
        assert_eq!(costs.iter().filter(|cost| cost.possible).count(), 4, "{costs:?}");
        assert_eq!(Model { replay_rate: None, ..model() }.recovery(), []);
    }

    #[test]
    fn longer_than_was_looked_is_a_bound() {
        let model = Model { checkpoint_timeout: 1000.0, max_wal_bytes: 600e6, write_iops: Some(1.5), ..model() };
        let (stop, recovery) = (model.stop(), model.recovery());
        // 300 MB of WAL.
        near(stop[0].round_seconds, 298.8);
        let last = stop.last().unwrap();
        assert!(stop[0].at_most && last.at_most && last.possible && !last.as_now, "{last:?}");
        near(last.pages_per_s, 0.5);
        assert!(recovery.last().unwrap().at_most);
    }

    #[test]
    fn five_targets_are_offered_up_to_what_it_takes_without() {
        assert_eq!(offered(0.5), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(offered(45.0), [5.0, 10.0, 20.0, 30.0, 60.0]);
        assert_eq!(offered(1e9), [120.0, 300.0, 600.0, 1800.0, 3600.0]);
    }
}
