//! `pgcalm trace locks`.

mod acquisition_slices;
mod checkpoint_periods;
mod lock_name;
mod period;
pub mod report;
mod without_ebpf;

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::NS_PER_S;
use crate::locks::acquisition_slices::AcquisitionSlices;
use crate::locks::checkpoint_periods::{CheckpointPeriods, Lengths};
use crate::locks::period::seconds;
use crate::locks::report::{AroundCheckpoint, Line, Period};
use crate::{checkpoint_flags, clock};

pub use crate::probes::locks::Acquisitions;
use crate::probes::locks::{CheckpointChange, Counts, LockProbes, TimedCounts};
use crate::relation_names::{NAMES, Names};
use crate::report::{EndReason, Take};
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Target;

/// What is to be traced.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How long; until something else ends it if none.
    pub duration: Option<Duration>,
    /// How many checkpoints; no limit if none.
    pub count: Option<u64>,
    /// Whether and how to count acquisitions of lightweight locks.
    pub acquisitions: Acquisitions,
    /// Time before and after a checkpoint that is shown apart.
    pub around: Duration,
    /// Time from a checkpoint's start that is shown apart.
    pub first: Duration,
    /// How to connect to the database for the names of relations, and for samples where there is no eBPF, as libpq has it.
    pub connect: Option<String>,
}

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(target: &Target, options: &Options, stop: &Stop, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
    let mut session = match Session::with_probes(target, stop, options.duration)? {
        Ok(session) => session,
        Err(reason) => return without_ebpf::run(target, options, stop, &reason, take),
    };
    let probes = LockProbes::attach(&mut session, options.acquisitions, options.first)?;
    // Dropped before the group from here on: libbpf's links to USDT probes point into their object.
    let mut session = session;
    let names = Names::of(&mut session, options.connect.as_deref())?;
    let mut shown = Vec::new();
    match options.acquisitions {
        Acquisitions::No => {}
        Acquisitions::Estimated => shown.push(format!(
            "acquisitions, estimated from {} ms of each {} ms, in one active process at a time",
            acquisition_slices::SLICE.as_millis(),
            acquisition_slices::STEP.as_millis()
        )),
        Acquisitions::All => shown.push("all acquisitions".to_string()),
    }
    take(Line::Start(session.start_line("locks", shown)))?;
    let started_ns = clock::monotonic_ns();
    let around_ns = options.around.as_nanos() as u64;
    Trace {
        session,
        slices: AcquisitionSlices::default(),
        probes,
        names,
        options,
        started_ns,
        around_ns,
        outside: VecDeque::new(),
        periods: CheckpointPeriods::new(Lengths { around_ns, first_ns: options.first.as_nanos() as u64 }),
        begun: 0,
        told: 0,
    }
    .run(take)
}

/// Counts outside of checkpoints at a moment, CLOCK_MONOTONIC in ns.
type Snapshot = (u64, Counts);

struct Trace<'a> {
    /// First, so that its links are dropped before the probes' object.
    session: Session,
    /// Before the probes' object, as well.
    slices: AcquisitionSlices,
    probes: LockProbes,
    names: Option<Names>,
    options: &'a Options,
    started_ns: u64,
    around_ns: u64,
    /// One for each second of the time that can still be the one before a checkpoint.
    outside: VecDeque<Snapshot>,
    periods: CheckpointPeriods,
    begun: u64,
    told: u64,
}

impl Trace<'_> {
    fn run(mut self, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
        let reason = loop {
            let status = if self.options.acquisitions == Acquisitions::Estimated {
                let next = self.slices.follow(&self.probes, &self.session)?;
                self.session.wait_until(&[&self.probes.events], next)?
            } else {
                self.session.wait(&[&self.probes.events])?
            };
            self.follow(take)?;
            if self.options.count.is_some_and(|count| self.told >= count) {
                break EndReason::Count;
            }
            if let Some(reason) = status.end() {
                break reason;
            }
        };
        let counts = self.counts()?;
        let now = clock::monotonic_ns();
        if let Some(line) = self.periods.finish(now, &counts) {
            self.tell(line, take)?;
        }
        let mut total = period::between(&Counts::default(), &counts.all(), seconds(self.started_ns, now));
        // Of a server that has ended nobody can be asked any more.
        if reason != EndReason::ServerEnded {
            self.name_relations([&mut total]);
        }
        take(Line::Total(total))?;
        take(Line::End(self.session.end_line(reason, self.probes.drops())))?;
        Ok(reason)
    }

    fn follow(&mut self, take: Take<'_, Line>) -> anyhow::Result<()> {
        for change in self.probes.take_changes()? {
            let counts = self.counts()?;
            match change {
                CheckpointChange::Start { time_ns, flags, restartpoint } => {
                    let line = self.line(time_ns, flags, restartpoint, &counts);
                    if let Some(before) = self.periods.begin(line, time_ns, &counts) {
                        self.tell(before, take)?;
                    }
                }
                CheckpointChange::Done { time_ns } => {
                    self.periods.end(time_ns, &counts);
                    // The time before the next one does not reach beyond this.
                    self.outside = [(time_ns, counts.outside())].into();
                }
            }
        }
        let now = clock::monotonic_ns();
        if self.periods.is_due(now) {
            let counts = self.counts()?;
            if let Some(line) = self.periods.advance(now, &counts) {
                self.tell(line, take)?;
            }
        }
        let is_due = self.outside.back().is_none_or(|(time, _)| now >= time + NS_PER_S);
        if is_due {
            let outside = self.counts()?.outside();
            self.outside.push_back((now, outside));
            while self.outside.get(1).is_some_and(|(time, _)| time + self.around_ns <= now) {
                self.outside.pop_front();
            }
        }
        Ok(())
    }

    /// What was counted; acquisitions as far as the slices that are over tell.
    fn counts(&self) -> anyhow::Result<TimedCounts> {
        let mut counts = self.probes.counts()?;
        for (counts, sums) in counts.0.iter_mut().zip(&self.slices.sums) {
            for (lock, number) in sums {
                counts.acquisitions.insert(lock.clone(), number.round() as u64);
            }
        }
        Ok(counts)
    }

    /// What is known of a checkpoint that begins.
    fn line(&mut self, time_ns: u64, flags: i64, restartpoint: bool, counts: &TimedCounts) -> Box<AroundCheckpoint> {
        self.begun += 1;
        let outside = counts.outside();
        let before = match self.outside.front() {
            Some((time, earlier)) => period::between(earlier, &outside, seconds(*time, time_ns)),
            None => period::between(&Counts::default(), &outside, seconds(self.started_ns, time_ns)),
        };
        Box::new(AroundCheckpoint {
            number: self.begun,
            restartpoint,
            time: clock::unix_seconds(time_ns),
            reason: checkpoint_flags::reason(flags).to_string(),
            complete: false,
            before,
            first: Period::default(),
            during: Period::default(),
            after: Period::default(),
        })
    }

    /// Fills in names, if the database can be asked.
    fn name_relations<const N: usize>(&mut self, periods: [&mut Period; N]) {
        let Some(names) = &mut self.names else { return };
        for period in periods {
            if let Err(error) = names.resolve_locks(&mut period.locks) {
                self.session.miss(NAMES, &format!("{error:#}"));
            }
        }
    }

    fn tell(&mut self, mut line: Box<AroundCheckpoint>, take: Take<'_, Line>) -> anyhow::Result<()> {
        self.name_relations([&mut line.before, &mut line.first, &mut line.during, &mut line.after]);
        self.told += 1;
        take(Line::Checkpoint(line))
    }
}
