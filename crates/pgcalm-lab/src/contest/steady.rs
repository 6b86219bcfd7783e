//! When a run with `--steady` may end: after some checkpoints, with as much dirty as at its beginning.
//!
//! What is dirty rises and falls with a checkpoint's phase, so it is read whenever one has ended, and only these readings are
//! compared. The measured part is from such an end to such an end: whole turns of what repeats itself.
//!
//! A load that has run for seconds is not where one is that has run for days. So there is a warm-up, as long for all contestants:
//! a run that is not steady from its end goes on, measured from there, so that whoever takes longer to become steady shows it.

use std::time::Duration;

use pgcalm_render::number::short;

use crate::backlog::{BacklogWatch, Reading};
use crate::contest::report::{BacklogAt, DirtyAt, Steadiness};
use crate::server_log::CheckpointLog;

/// Checkpoints that are to end in the measured part: with one or two, a stall at each of them could be one by chance.
pub(crate) const CHECKPOINTS: usize = 3;

/// Share of the larger of both amounts by which they may differ.
const SHARE: f64 = 0.1;

/// A smaller difference is none: other programs of the host keep up to 16 MiB dirty, at either end.
const FLOOR_MIB: f64 = 32.0;

/// From the end of the last checkpoint to that of the run: the full second in which it ended, and one after it.
const AFTER_S: f64 = 2.0;

/// Why a run is not steady by what was dirty when checkpoints had ended, the first of them at the beginning of the measured
/// part; `None` if it is. What is dirty may fall (`may_fall`) for whom more writes than are to be are a loss, which claims of
/// his can bear; if stock's fell, others would look better than they are.
pub(crate) fn objection(dirty: &[BacklogAt], may_fall: bool) -> Option<String> {
    let ended = dirty.len().saturating_sub(1);
    let (Some(begin), Some(end)) = (dirty.first(), dirty.last()) else {
        return Some("no checkpoint ended".to_string());
    };
    if ended < CHECKPOINTS {
        return Some(format!("{ended} of {CHECKPOINTS} checkpoints ended in the measured part"));
    }
    let known = begin.dirty_shared_buffers_mib.is_some() && end.dirty_shared_buffers_mib.is_some();
    let amount = |at: &BacklogAt| match known {
        true => at.mib(),
        // Those of one reading alone would look like a change.
        false => at.dirty_kernel_mib,
    };
    let (begin, end) = (amount(begin), amount(end));
    let allowed = (SHARE * begin.max(end)).max(FLOOR_MIB);
    let apart = if may_fall { end - begin } else { (end - begin).abs() };
    (apart > allowed).then(|| {
        format!(
            "{} MiB were dirty after the last checkpoint, {} MiB after the one at its beginning",
            short(end),
            short(begin)
        )
    })
}

/// Whether it is steady from the first of these ends of checkpoints on, for so many seconds.
fn is_steady(dirty: &[(f64, BacklogAt)], least: f64, may_fall: bool) -> bool {
    let (Some((begin, _)), Some((end, _))) = (dirty.first(), dirty.last()) else { return false };
    end - begin >= least && objection(&amounts(dirty), may_fall).is_none()
}

fn amounts(dirty: &[(f64, BacklogAt)]) -> Vec<BacklogAt> {
    dirty.iter().map(|(_, dirty)| *dirty).collect()
}

/// Watches one run. Times are seconds of the epoch, as the server's log has them.
#[derive(Debug)]
pub(crate) struct SteadyWatch<'a> {
    backlog: BacklogWatch<'a>,
    /// When the load began.
    started: f64,
    /// Load before a checkpoint may be the beginning.
    warm_up: f64,
    /// The least to be measured.
    least: f64,
    /// Whether less may be dirty at the end.
    may_fall: bool,
    /// When the last checkpoint ended that was looked at; a server that was restarted has a new log.
    seen: f64,
    /// When a checkpoint ended, and what was dirty then.
    dirty: Vec<(f64, BacklogAt)>,
    asked: Option<(f64, Reading)>,
    /// When the run may end.
    end: Option<f64>,
}

impl<'a> SteadyWatch<'a> {
    /// Of a load that begins at `started`.
    pub(crate) fn new(
        backlog: BacklogWatch<'a>,
        started: f64,
        warm_up: Duration,
        least: Duration,
        may_fall: bool,
    ) -> Self {
        Self {
            backlog,
            started,
            warm_up: warm_up.as_secs_f64(),
            least: least.as_secs_f64(),
            may_fall,
            seen: started,
            dirty: Vec::new(),
            asked: None,
            end: None,
        }
    }

    /// Reads what is dirty if a checkpoint has ended. Whether the run may end.
    pub(crate) fn look(&mut self, log: &CheckpointLog, now: f64) -> anyhow::Result<bool> {
        if let Some((at, reading)) = &mut self.asked
            && let Some(dirty) = reading.poll()?
        {
            let at = *at;
            self.asked = None;
            self.dirty.push((at, dirty));
            if is_steady(&self.dirty, self.least, self.may_fall) {
                self.end = Some(at.ceil() + AFTER_S);
            }
        }
        if let Some(last) = log.complete.last()
            && last.end_s > self.seen
            && self.asked.is_none()
        {
            self.seen = last.end_s;
            // One that was begun before the load wrote what was dirty before.
            if last.start_s >= self.started && last.end_s >= self.started + self.warm_up {
                self.asked = Some((last.end_s, self.backlog.reading()?));
            }
        }
        Ok(self.end.is_some_and(|end| now >= end))
    }

    fn objection(&self) -> Option<String> {
        objection(&amounts(&self.dirty), self.may_fall)
    }

    /// How many checkpoints have ended in the measured part; `None` before it.
    pub(crate) fn ended(&self) -> Option<usize> {
        self.dirty.len().checked_sub(1)
    }

    /// When the measured part begins.
    pub(crate) fn begin(&self) -> f64 {
        self.dirty.first().map_or(self.started + self.warm_up, |(begin, _)| *begin)
    }

    /// Seconds of load before the measured part.
    pub(crate) fn warmed_up(&self) -> f64 {
        (self.begin() - self.started).max(0.0)
    }

    /// What a report says of it.
    pub(crate) fn finish(self, failed: bool) -> Steadiness {
        let begin = self.begin();
        let objection = if failed { Some("the server gave up".to_string()) } else { self.objection() };
        Steadiness {
            objection,
            warm_up_s: self.warmed_up(),
            dirty: self.dirty.into_iter().map(|(at, dirty)| DirtyAt { at_s: at - begin, dirty }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(amounts: &[(f64, f64)]) -> Vec<BacklogAt> {
        amounts
            .iter()
            .map(|(buffers, kernel)| BacklogAt { dirty_shared_buffers_mib: Some(*buffers), dirty_kernel_mib: *kernel })
            .collect()
    }

    #[test]
    fn three_checkpoints_have_to_end_after_the_one_at_the_beginning() {
        let even = [(500.0, 100.0); 4];
        assert_eq!(objection(&series(&even), false), None);
        let said = objection(&series(&even[..3]), false).unwrap();
        assert_eq!(said, "2 of 3 checkpoints ended in the measured part");
        assert_eq!(objection(&[], false).unwrap(), "no checkpoint ended");
    }

    #[test]
    fn a_tenth_of_the_larger_amount_is_the_limit_either_way() {
        let of = |begin, end| objection(&series(&[begin, (9e9, 0.0), (0.0, 0.0), end]), false).is_none();
        assert!(of((900.0, 0.0), (1000.0, 0.0)));
        assert!(!of((899.0, 0.0), (1000.0, 0.0)));
        assert!(of((1000.0, 0.0), (900.0, 0.0)));
        assert!(!of((1000.0, 0.0), (899.0, 0.0)));
        // From the kernel to the buffers is no change.
        assert!(of((100.0, 900.0), (600.0, 400.0)));
        let said = objection(&series(&[(200.0, 0.0), (0.0, 0.0), (0.0, 0.0), (200.0, 300.0)]), false);
        assert_eq!(
            said.unwrap(),
            "500 MiB were dirty after the last checkpoint, 200 MiB after the one at its beginning"
        );
    }

    #[test]
    fn a_run_is_steady_from_the_end_of_its_warm_up_or_not_at_all() {
        let at = |amounts: &[f64]| -> Vec<(f64, BacklogAt)> {
            let dirty = series(&amounts.iter().map(|amount| (*amount, 0.0)).collect::<Vec<_>>());
            dirty.into_iter().enumerate().map(|(number, dirty)| (number as f64 * 10.0, dirty)).collect()
        };
        assert!(is_steady(&at(&[200.0; 4]), 25.0, false));
        assert!(!is_steady(&at(&[200.0; 4]), 35.0, false));
        assert!(!is_steady(&at(&[]), 25.0, false));
        // Not by leaving out how it became so; whoever may write more than he dirties is.
        assert!(is_steady(&at(&[400.0, 300.0, 205.0, 200.0, 204.0, 202.0]), 25.0, true));
        assert!(!is_steady(&at(&[200.0, 200.0, 200.0, 240.0]), 25.0, true));
        assert!(!is_steady(&at(&[400.0, 300.0, 205.0, 200.0, 204.0, 202.0]), 25.0, false));
        assert!(is_steady(&at(&[400.0, 200.0, 100.0, 390.0]), 25.0, false));
    }

    #[test]
    fn tiny_amounts_are_alike() {
        let of = |begin, end| objection(&series(&[begin, begin, begin, end]), false).is_none();
        assert!(of((0.0, 1.0), (20.0, 13.0)));
        assert!(!of((0.0, 1.0), (20.0, 14.0)));
    }

    #[test]
    fn where_buffers_are_not_known_the_kernels_pages_are_compared() {
        let mut dirty = series(&[(0.0, 100.0); 4]);
        dirty[3].dirty_shared_buffers_mib = None;
        dirty[0].dirty_shared_buffers_mib = Some(800.0);
        assert_eq!(objection(&dirty, false), None);
        dirty[3].dirty_kernel_mib = 200.0;
        assert!(objection(&dirty, false).is_some());
    }
}
