//! The times that are told of each checkpoint, from its start until all of them are over.

use crate::locks::period;
use crate::locks::period::seconds;
use crate::locks::report::AroundCheckpoint;
use crate::probes::locks::{Counts, TimedCounts};

/// How long the times are that are told apart, ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    /// After a checkpoint.
    pub around_ns: u64,
    /// From its start on.
    pub first_ns: u64,
}

/// One checkpoint at a time. Moments are CLOCK_MONOTONIC in ns.
///
/// What is counted within checkpoints, and in their first seconds, grows in no other time. So it does not matter when it is read
/// after such a time is over, as long as the next one has not begun.
pub(super) struct CheckpointPeriods {
    lengths: Lengths,
    /// Of all checkpoints before: within them, and in their first seconds.
    within_before: Counts,
    first_before: Counts,
    last: Option<Last>,
}

/// The checkpoint that began last, until all is known that is told of it.
struct Last {
    line: Box<AroundCheckpoint>,
    started_ns: u64,
    first_is_over: bool,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    During,
    /// It has ended at that time; the counts outside then.
    After(u64, Counts),
    /// The time after it is over, too.
    Over,
}

impl CheckpointPeriods {
    /// Before any checkpoint.
    pub(super) fn new(lengths: Lengths) -> Self {
        Self { lengths, within_before: Counts::default(), first_before: Counts::default(), last: None }
    }

    /// A checkpoint begins, as `line` has it; returns the one before if not all was told of it.
    ///
    /// One that did not end was given up by an error, or its end was dropped: there is nothing to tell of it.
    pub(super) fn begin(
        &mut self,
        line: Box<AroundCheckpoint>,
        time_ns: u64,
        counts: &TimedCounts,
    ) -> Option<Box<AroundCheckpoint>> {
        let before = self.finish(time_ns, counts);
        self.last = Some(Last { line, started_ns: time_ns, first_is_over: false, stage: Stage::During });
        before.filter(|line| line.complete)
    }

    /// It ends. The end of one that began before the trace tells nothing.
    pub(super) fn end(&mut self, time_ns: u64, counts: &TimedCounts) {
        self.end_during(time_ns, counts);
        if let Some(last) = &mut self.last
            && matches!(last.stage, Stage::During)
        {
            last.line.complete = true;
            last.stage = Stage::After(time_ns, counts.outside());
        }
    }

    /// Whether something is over by then that [`advance`](Self::advance) can take.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.is_first_due(now_ns) || self.is_after_due(now_ns)
    }

    /// Takes what is over by then; returns the checkpoint once that was the last of it.
    pub(super) fn advance(&mut self, now_ns: u64, counts: &TimedCounts) -> Option<Box<AroundCheckpoint>> {
        if self.is_first_due(now_ns) {
            self.end_first(now_ns, counts);
        }
        if self.is_after_due(now_ns) {
            self.end_after(now_ns, counts);
        }
        self.last.take_if(|last| last.first_is_over && matches!(last.stage, Stage::Over)).map(|last| last.line)
    }

    /// Takes what there is by then, as nothing more will come, and returns the checkpoint.
    pub(super) fn finish(&mut self, now_ns: u64, counts: &TimedCounts) -> Option<Box<AroundCheckpoint>> {
        self.end_first(now_ns, counts);
        self.end_during(now_ns, counts);
        self.end_after(now_ns, counts);
        self.last.take().map(|last| last.line)
    }

    fn is_first_due(&self, now_ns: u64) -> bool {
        self.last.as_ref().is_some_and(|last| !last.first_is_over && now_ns >= last.started_ns + self.lengths.first_ns)
    }

    fn is_after_due(&self, now_ns: u64) -> bool {
        self.last.as_ref().is_some_and(
            |last| matches!(last.stage, Stage::After(ended_ns, _) if now_ns >= ended_ns + self.lengths.around_ns),
        )
    }

    fn end_first(&mut self, now_ns: u64, counts: &TimedCounts) {
        let Some(last) = self.last.as_mut().filter(|last| !last.first_is_over) else { return };
        let end_ns = now_ns.min(last.started_ns + self.lengths.first_ns);
        let first = counts.first();
        last.line.first = period::between(&self.first_before, &first, seconds(last.started_ns, end_ns));
        last.first_is_over = true;
        self.first_before = first;
    }

    fn end_during(&mut self, now_ns: u64, counts: &TimedCounts) {
        let Some(last) = &mut self.last else { return };
        if matches!(last.stage, Stage::During) {
            let within = counts.within();
            last.line.during = period::between(&self.within_before, &within, seconds(last.started_ns, now_ns));
            self.within_before = within;
        }
    }

    fn end_after(&mut self, now_ns: u64, counts: &TimedCounts) {
        let Some(last) = &mut self.last else { return };
        if let Stage::After(ended_ns, at_end) = &last.stage {
            last.line.after = period::between(at_end, &counts.outside(), seconds(*ended_ns, now_ns));
            last.stage = Stage::Over;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::locks::report::Period;
    use pgcalm_host::server_process::Role;

    use super::*;
    use crate::histogram::KernelHistogram;
    use crate::probes::locks::{Lock, What};

    const S: u64 = 1_000_000_000;

    /// So many waits outside, within, outside in the first seconds, within in the first seconds.
    fn counts(numbers: [u64; 4]) -> TimedCounts {
        TimedCounts(numbers.map(|number| {
            let mut histogram = KernelHistogram::default();
            (0..number).for_each(|_| histogram.take(1000));
            let lock = Lock { what: What::Lightweight("WALWrite".to_string()), mode: 0, role: Role::Backend };
            Counts { waits: [(lock, histogram)].into(), ..Counts::default() }
        }))
    }

    fn waits(period: &Period) -> (u64, f64) {
        let waits = period.locks.iter().map(|lock| lock.waits.count).sum();
        (waits, period.seconds)
    }

    fn line(number: u64) -> Box<AroundCheckpoint> {
        Box::new(AroundCheckpoint {
            number,
            restartpoint: false,
            time: 0.0,
            reason: "time".to_string(),
            complete: false,
            before: Period::default(),
            first: Period::default(),
            during: Period::default(),
            after: Period::default(),
        })
    }

    /// A checkpoint that begins at 100 s; the time after it is 2 s, the first seconds are 5.
    fn begun() -> CheckpointPeriods {
        let mut periods = CheckpointPeriods::new(Lengths { around_ns: 2 * S, first_ns: 5 * S });
        assert!(periods.begin(line(1), 100 * S, &counts([10, 0, 0, 0])).is_none());
        periods
    }

    #[test]
    fn a_long_checkpoint_has_its_first_seconds_in_it() {
        let mut periods = begun();
        assert!(!periods.is_due(104 * S));
        assert!(periods.is_due(106 * S));
        assert!(periods.advance(106 * S, &counts([10, 1, 0, 7])).is_none());
        assert!(!periods.is_due(119 * S));
        periods.end(120 * S, &counts([10, 2, 0, 7]));
        assert!(periods.advance(121 * S, &counts([12, 2, 0, 7])).is_none());
        let line = periods.advance(122 * S, &counts([14, 2, 0, 7])).unwrap();
        assert!(line.complete);
        assert_eq!(waits(&line.first), (7, 5.0));
        assert_eq!(waits(&line.during), (2 + 7, 20.0));
        assert_eq!(waits(&line.after), (4, 2.0));
    }

    #[test]
    fn the_first_seconds_of_a_short_checkpoint_reach_beyond_its_end() {
        let mut periods = begun();
        periods.end(101 * S, &counts([10, 0, 0, 3]));
        assert!(periods.advance(103 * S, &counts([10, 0, 2, 3])).is_none());
        let line = periods.advance(105 * S, &counts([19, 0, 4, 3])).unwrap();
        assert_eq!(waits(&line.first), (4 + 3, 5.0));
        assert_eq!(waits(&line.during), (3, 1.0));
        // The time after it is that of around, however long the first seconds are.
        assert_eq!(waits(&line.after), (2, 2.0));
    }

    #[test]
    fn a_start_that_is_read_late_loses_nothing() {
        let mut periods = begun();
        periods.end(101 * S, &counts([10, 0, 0, 3]));
        periods.advance(105 * S, &counts([10, 0, 0, 3]));
        // Two waits of it had ended when its start was read.
        assert!(periods.begin(line(2), 200 * S, &counts([10, 0, 0, 5])).is_none());
        let line = periods.finish(202 * S, &counts([10, 0, 0, 6])).unwrap();
        assert!(!line.complete);
        assert_eq!(waits(&line.first), (3, 2.0));
        assert_eq!(waits(&line.during), (3, 2.0));
        assert_eq!(waits(&line.after), (0, 0.0));
    }

    #[test]
    fn the_next_checkpoint_ends_what_goes_on_of_the_last() {
        let mut periods = begun();
        periods.end(101 * S, &counts([10, 0, 0, 3]));
        let first = periods.begin(line(2), 102 * S, &counts([10, 0, 1, 3])).unwrap();
        assert_eq!((first.number, waits(&first.first)), (1, (4, 2.0)));
        // The second is given up.
        assert!(periods.begin(line(3), 103 * S, &counts([10, 0, 1, 9])).is_none());
        periods.end(104 * S, &counts([10, 0, 1, 9]));
        let third = periods.finish(104 * S, &counts([10, 0, 1, 9])).unwrap();
        assert_eq!((third.number, waits(&third.during)), (3, (0, 1.0)));
    }
}
