//! When WAL is removed, if everything goes on as it does.
//!
//! WAL goes at the end of a checkpoint only (`CreateCheckPoint` in xlog.c): segments before its redo position, unless
//! `wal_keep_size` or a slot keeps them (`KeepLogSeg`), the latter up to `max_slot_wal_keep_size`. So the coming checkpoints
//! are laid out by the rules that begin them, time and WAL, and the first is taken at whose end the segment is no longer kept.
//! Those that somebody asks for (CHECKPOINT, a base backup) can't be foreseen.

use crate::lsn::Lsn;

/// Below this rate of WAL nothing is foreseen, bytes/s: an idle server makes some 100 bytes at a time
/// (`LogStandbySnapshot`), and skips checkpoints.
pub const IDLE_BYTES_PER_S: f64 = 1024.0;

/// How far is looked ahead, s: seven days.
const HORIZON_S: f64 = 7.0 * 86_400.0;

/// What goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The primary's insert position.
    pub insert_lsn: Lsn,
    /// Its rate, bytes/s.
    pub generation: f64,
    /// Redo position of the last complete checkpoint.
    pub redo_lsn: Lsn,
    /// Since that began, s.
    pub checkpoint_age_s: f64,
    /// `checkpoint_timeout`, s.
    pub timeout_s: f64,
    /// WAL after which one begins, bytes.
    pub trigger_bytes: u64,
    /// How long one takes, s.
    pub duration_s: f64,
    /// Size of a segment, bytes.
    pub segment_bytes: u64,
}

/// A checkpoint to come; one that is under way began before now.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Coming {
    begins_s: f64,
    ends_s: f64,
}

impl Pace {
    /// When the next checkpoint is over, s from now; 0 if it should be by now. None if the server is idle.
    pub fn next_checkpoint_end(&self) -> Option<f64> {
        self.coming().next().map(|checkpoint| checkpoint.ends_s)
    }

    /// When the first checkpoint is over of those that are so in `seconds` or later.
    pub fn checkpoint_end_after(&self, seconds: f64) -> Option<f64> {
        self.coming().map(|checkpoint| checkpoint.ends_s).find(|end| *end >= seconds)
    }

    /// When the segment with `position` is removed, s from now, if that moves on by `rate` bytes/s and `keep` bytes are kept
    /// behind the end of WAL in any case. None if it is not within seven days.
    pub fn removal(&self, position: Lsn, rate: f64, keep: u64) -> Option<f64> {
        let rate = rate.max(0.0);
        // Whole segments, rounded down (`ConvertToXSegs` in xlog_internal.h).
        let keep_segments = (keep / self.segment_bytes.max(1)) as f64;
        // One that does not fall behind further is in danger of the checkpoint under way and the next one only.
        let looks = if rate >= self.generation { 2 } else { usize::MAX };
        self.coming().take(looks).find_map(|checkpoint| {
            let needed = self.segment(position.0 as f64 + rate * checkpoint.ends_s);
            let redo = (self.insert_lsn.0 as f64 + self.generation * checkpoint.begins_s).max(self.redo_lsn.0 as f64);
            let end = self.insert_lsn.0 as f64 + self.generation * checkpoint.ends_s;
            let removed = needed < self.segment(redo) && self.segment(end) - needed > keep_segments;
            removed.then_some(checkpoint.ends_s)
        })
    }

    fn segment(&self, position: f64) -> f64 {
        (position / self.segment_bytes.max(1) as f64).floor()
    }

    fn coming(&self) -> impl Iterator<Item = Coming> + use<> {
        let pace = *self;
        let interval = pace.timeout_s.min(pace.trigger_bytes as f64 / pace.generation).max(0.1);
        let since_redo = pace.insert_lsn.bytes_since(pace.redo_lsn) as f64;
        let first =
            (pace.timeout_s - pace.checkpoint_age_s).min((pace.trigger_bytes as f64 - since_redo) / pace.generation);
        let mut begins_s = first;
        std::iter::from_fn(move || {
            // Not a number, either.
            if !(pace.generation >= IDLE_BYTES_PER_S && begins_s <= HORIZON_S) {
                return None;
            }
            let ends_s = (begins_s + pace.duration_s).max(0.0);
            let coming = Coming { begins_s, ends_s };
            begins_s = (begins_s + interval).max(ends_s);
            Some(coming)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SEGMENT: u64 = 16 * MIB;

    /// 8 MiB/s of WAL, a checkpoint each 512 MiB (64 s), taking 30 s; the last began 32 s ago.
    fn pace() -> Pace {
        Pace {
            insert_lsn: Lsn(1000 * SEGMENT),
            generation: 8.0 * MIB as f64,
            redo_lsn: Lsn(1000 * SEGMENT - 256 * MIB),
            checkpoint_age_s: 32.0,
            timeout_s: 300.0,
            trigger_bytes: 512 * MIB,
            duration_s: 30.0,
            segment_bytes: SEGMENT,
        }
    }

    #[test]
    fn a_standby_that_stands_still_loses_its_segment_at_the_end_of_the_next_checkpoint() {
        // Begins in 32 s, ends 30 s later.
        assert_eq!(pace().next_checkpoint_end(), Some(62.0));
        assert_eq!(pace().removal(Lsn(1000 * SEGMENT - 100 * MIB), 0.0, 0), Some(62.0));
    }

    #[test]
    fn what_is_kept_moves_it_to_a_later_checkpoint() {
        // At 62 s it is 596 MiB behind, at 126 s 1108 MiB, at 190 s 1620 MiB.
        let position = Lsn(1000 * SEGMENT - 100 * MIB);
        assert_eq!(pace().removal(position, 0.0, 512 * MIB), Some(62.0));
        assert_eq!(pace().removal(position, 0.0, 1024 * MIB), Some(126.0));
        assert_eq!(pace().removal(position, 0.0, 1536 * MIB), Some(190.0));
        // 37 segments are kept of 38, which it is behind by: one in part is none.
        assert_eq!(pace().removal(position, 0.0, 592 * MIB), Some(62.0));
        assert_eq!(pace().removal(position, 0.0, 607 * MIB), Some(62.0));
    }

    #[test]
    fn a_standby_that_comes_on_is_lost_later_or_never() {
        let position = Lsn(1000 * SEGMENT - 100 * MIB);
        let half = 4.0 * MIB as f64;
        // 100 MiB behind, 4 MiB/s more each second: 1024 MiB after 231 s, and checkpoints end at 62 + 64 n.
        assert_eq!(pace().removal(position, half, 1024 * MIB), Some(62.0 + 3.0 * 64.0));
        assert_eq!(pace().removal(position, 8.0 * MIB as f64, 1024 * MIB), None);
        // It is past the redo position when that checkpoint is over.
        assert_eq!(pace().removal(position, 8.0 * MIB as f64, 0), None);
    }

    #[test]
    fn a_checkpoint_under_way_counts_from_where_it_began() {
        let late = Pace { redo_lsn: Lsn(1000 * SEGMENT - 1024 * MIB), ..pace() };
        // It began 64 s ago at half of that; over at any moment.
        assert_eq!(late.next_checkpoint_end(), Some(0.0));
        assert_eq!(late.removal(Lsn(1000 * SEGMENT - 600 * MIB), 0.0, 0), Some(0.0));
        // Beyond its redo position: safe until the next, which begins at once.
        assert_eq!(late.removal(Lsn(1000 * SEGMENT - 100 * MIB), 0.0, 0), Some(30.0));
    }

    #[test]
    fn nothing_is_foreseen_for_an_idle_server() {
        let idle = Pace { generation: 0.0, checkpoint_age_s: 4000.0, ..pace() };
        assert_eq!(idle.next_checkpoint_end(), None);
        assert_eq!(idle.removal(Lsn(0), 0.0, 0), None);
        assert_eq!(Pace { generation: f64::NAN, ..idle }.next_checkpoint_end(), None);
    }
}
