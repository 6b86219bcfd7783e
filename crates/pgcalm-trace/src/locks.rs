//! `pgcalm trace locks`.

mod acquisition_slices;
mod lock_name;
mod period;
pub mod report;
mod without_ebpf;

use std::collections::VecDeque;
use std::time::Duration;

use crate::checkpoint_flags;
use crate::clock;
use crate::clock::NS_PER_S;
use crate::locks::acquisition_slices::AcquisitionSlices;
use crate::locks::report::AroundCheckpoint;
use crate::locks::report::Line;
use crate::locks::report::Period;
pub use crate::probes::locks::Acquisitions;
use crate::probes::locks::CheckpointChange;
use crate::probes::locks::Counts;
use crate::probes::locks::LockProbes;
use crate::relation_names::NAMES;
use crate::relation_names::Names;
use crate::report::EndReason;
use crate::session::Session;
use crate::session::Status;
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
    /// How to connect to the database for the names of relations, and for samples where there is no eBPF, as libpq has it.
    pub connect: Option<String>,
}

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(
    target: &Target,
    options: &Options,
    stop: &Stop,
    take: &mut dyn FnMut(Line) -> anyhow::Result<()>,
) -> anyhow::Result<EndReason> {
    let mut session = match Session::with_probes(target, stop, options.duration)? {
        Ok(session) => session,
        Err(reason) => return without_ebpf::run(target, options, stop, &reason, take),
    };
    let probes = LockProbes::attach(&mut session, options.acquisitions)?;
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
    Trace {
        session,
        slices: AcquisitionSlices::default(),
        probes,
        names,
        options,
        started_ns,
        around_ns: options.around.as_nanos() as u64,
        outside: VecDeque::new(),
        state: State::Between,
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
    state: State,
    begun: u64,
    told: u64,
}

enum State {
    /// No checkpoint is under way.
    Between,
    /// One is; what is known of it, and the counts at its start: outside and within checkpoints.
    During(Box<(AroundCheckpoint, u64, [Counts; 2])>),
    /// One has ended at that time; the counts outside then.
    After(Box<(AroundCheckpoint, u64, Counts)>),
}

impl Trace<'_> {
    fn run(
        mut self,
        take: &mut dyn FnMut(Line) -> anyhow::Result<()>,
    ) -> anyhow::Result<EndReason> {
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
            match status {
                Status::Running => {}
                Status::TimeIsUp => break EndReason::Duration,
                Status::Stopped => break EndReason::Interrupted,
                Status::ServerEnded => break EndReason::ServerEnded,
            }
        };
        let [outside, within] = self.counts()?;
        let now = clock::monotonic_ns();
        self.finish_after(now, &outside, take)?;
        let mut all = outside;
        all.add(&within);
        let mut total = period::between(&Counts::default(), &all, seconds(self.started_ns, now));
        // Of a server that has ended nobody can be asked any more.
        if reason != EndReason::ServerEnded {
            self.name_relations([&mut total]);
        }
        take(Line::Total(total))?;
        let mut drops = self.session.drops();
        drops.add(self.probes.drops());
        take(Line::End(self.session.end_line(reason, drops)))?;
        Ok(reason)
    }

    fn follow(&mut self, take: &mut dyn FnMut(Line) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for change in self.probes.take_changes()? {
            let counts = self.counts()?;
            match change {
                CheckpointChange::Start {
                    time_ns,
                    flags,
                    restartpoint,
                } => {
                    self.finish_after(time_ns, &counts[0], take)?;
                    self.begin(time_ns, flags, restartpoint, counts);
                }
                CheckpointChange::Done { time_ns } => self.end(time_ns, counts),
            }
        }
        let now = clock::monotonic_ns();
        match &self.state {
            State::After(after) if now >= after.1 + self.around_ns => {
                let [outside, _] = self.counts()?;
                self.finish_after(now, &outside, take)?;
            }
            _ => {}
        }
        let is_due = self
            .outside
            .back()
            .is_none_or(|(time, _)| now >= time + NS_PER_S);
        if is_due {
            let [outside, _] = self.counts()?;
            self.outside.push_back((now, outside));
            while self
                .outside
                .get(1)
                .is_some_and(|(time, _)| time + self.around_ns <= now)
            {
                self.outside.pop_front();
            }
        }
        Ok(())
    }

    /// What was counted outside of checkpoints and within; acquisitions as far as the slices that are over tell.
    fn counts(&self) -> anyhow::Result<[Counts; 2]> {
        let mut counts = self.probes.counts()?;
        for (counts, sums) in counts.iter_mut().zip(&self.slices.sums) {
            for (lock, number) in sums {
                counts
                    .acquisitions
                    .insert(lock.clone(), number.round() as u64);
            }
        }
        Ok(counts)
    }

    fn begin(&mut self, time_ns: u64, flags: i64, restartpoint: bool, counts: [Counts; 2]) {
        self.begun += 1;
        let before = match self.outside.front() {
            Some((time, earlier)) => period::between(earlier, &counts[0], seconds(*time, time_ns)),
            None => period::between(
                &Counts::default(),
                &counts[0],
                seconds(self.started_ns, time_ns),
            ),
        };
        let checkpoint = AroundCheckpoint {
            number: self.begun,
            restartpoint,
            time: clock::unix_seconds(time_ns),
            reason: checkpoint_flags::reason(flags).to_string(),
            before,
            during: Period::default(),
            after: Period::default(),
        };
        self.state = State::During(Box::new((checkpoint, time_ns, counts)));
    }

    fn end(&mut self, time_ns: u64, [outside, within]: [Counts; 2]) {
        // The end of one that began before the trace tells nothing.
        let State::During(during) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        let (mut checkpoint, started_ns, [_, earlier]) = *during;
        checkpoint.during = period::between(&earlier, &within, seconds(started_ns, time_ns));
        self.state = State::After(Box::new((checkpoint, time_ns, outside)));
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

    /// Tells of the checkpoint whose time after goes on, if there is one.
    fn finish_after(
        &mut self,
        now: u64,
        outside: &Counts,
        take: &mut dyn FnMut(Line) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !matches!(self.state, State::After(_)) {
            return Ok(());
        }
        if let State::After(after) = std::mem::replace(&mut self.state, State::Between) {
            let (mut checkpoint, ended_ns, earlier) = *after;
            checkpoint.after = period::between(&earlier, outside, seconds(ended_ns, now));
            self.name_relations([
                &mut checkpoint.before,
                &mut checkpoint.during,
                &mut checkpoint.after,
            ]);
            self.told += 1;
            take(Line::Checkpoint(Box::new(checkpoint)))?;
        }
        Ok(())
    }
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / NS_PER_S as f64
}
