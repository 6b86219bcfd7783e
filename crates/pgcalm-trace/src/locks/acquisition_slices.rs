//! Acquisitions of lightweight locks, estimated: they are counted in one process at a time, for a slice of the time.
//!
//! Each acquisition is a trap, and a busy server makes a hundred thousand per second. So the probes are attached to one
//! process, drawn from those that used a processor of late, for [`SLICE`] of each [`STEP`]: the breakpoints are in that
//! process' memory alone. What it acquires stands for all of the drawn-from processes and for the whole step.

use std::collections::HashMap;
use std::time::Duration;

use libbpf_rs::Link;

use crate::clock::monotonic_ns;
use crate::probes::locks::{ByTime, Lock, LockProbes};
use crate::random::Random;
use crate::session::Session;

/// How long the probes stay in a process.
pub(super) const SLICE: Duration = Duration::from_millis(50);
/// From the begin of one slice to that of the next.
pub(super) const STEP: Duration = Duration::from_millis(250);

/// Acquisitions by lock.
pub(super) type Acquisitions = ByTime<HashMap<Lock, f64>>;

/// What is under way.
#[derive(Default)]
enum State {
    /// The first step.
    #[default]
    New,
    /// A process is traced, out of so many.
    Slice { links: Vec<Link>, began_ns: u64, processes: usize },
    /// Between two slices: what the last one has counted, from when to when, and of how many processes it was one.
    Pause { counted: ByTime<HashMap<Lock, u64>>, began_ns: u64, ended_ns: u64, processes: usize },
}

impl State {
    /// When it is over, CLOCK_MONOTONIC in ns; none yet if nothing has begun.
    fn due_ns(&self) -> Option<u64> {
        match self {
            State::New => None,
            State::Slice { began_ns, .. } => Some(began_ns + SLICE.as_nanos() as u64),
            State::Pause { began_ns, .. } => Some(began_ns + STEP.as_nanos() as u64),
        }
    }
}

/// The slices of a trace.
#[derive(Default)]
pub(super) struct AcquisitionSlices {
    state: State,
    random: Random,
    /// Time on a processor of each process at the last look, ns.
    on_cpu_ns: HashMap<u32, u64>,
    /// In the kernel's map at the last look.
    before: ByTime<HashMap<Lock, u64>>,
    /// The estimates.
    pub sums: Acquisitions,
}

impl AcquisitionSlices {
    /// Begins and ends slices; returns when it wants to be called again, CLOCK_MONOTONIC in ns.
    pub(super) fn follow(&mut self, probes: &LockProbes, session: &Session) -> anyhow::Result<u64> {
        let now = monotonic_ns();
        if let Some(due) = self.state.due_ns()
            && now < due
        {
            return Ok(due);
        }
        match std::mem::take(&mut self.state) {
            State::Slice { links, began_ns, processes } => {
                // The kernel takes the breakpoints out at once, and then waits for others before it returns.
                let ended_ns = monotonic_ns();
                drop(links);
                let after = probes.counted_acquisitions()?;
                let counted = difference(&self.before, &after);
                self.before = after;
                self.state = State::Pause { counted, began_ns, ended_ns, processes };
                Ok(began_ns + STEP.as_nanos() as u64)
            }
            State::Pause { counted, began_ns, ended_ns, processes } => {
                self.add(&counted, weight(began_ns, ended_ns, now, processes));
                self.begin(probes, session)
            }
            State::New => self.begin(probes, session),
        }
    }

    fn begin(&mut self, probes: &LockProbes, session: &Session) -> anyhow::Result<u64> {
        let active = self.active(session);
        let mut links = Vec::new();
        if !active.is_empty() {
            let chosen = active[self.random.below(active.len() as u64) as usize];
            // It may have ended just now; nothing is counted then.
            links = probes.attach_acquisitions(chosen as i32).unwrap_or_default();
        }
        // Attaching takes its time.
        let began_ns = monotonic_ns();
        self.state = State::Slice { links, began_ns, processes: active.len() };
        Ok(began_ns + SLICE.as_nanos() as u64)
    }

    /// The processes that have run since the last call. Not the postmaster: its children would inherit the breakpoints.
    fn active(&mut self, session: &Session) -> Vec<u32> {
        let now: HashMap<u32, u64> = session
            .processes()
            .filter(|pid| *pid != session.target.pid() as u32)
            .filter_map(|pid| {
                // Documentation/scheduler/sched-stats.rst: the first number is the time on a processor.
                let text = session.target.root.read(format!("proc/{pid}/schedstat"));
                let number = text.ok()?.split_whitespace().next()?.parse().ok()?;
                Some((pid, number))
            })
            .collect();
        let before = std::mem::replace(&mut self.on_cpu_ns, now);
        self.on_cpu_ns.iter().filter(|(pid, now)| before.get(pid) != Some(now)).map(|(pid, _)| *pid).collect()
    }

    fn add(&mut self, counted: &ByTime<HashMap<Lock, u64>>, weight: f64) {
        for (sums, counted) in self.sums.iter_mut().zip(counted) {
            for (lock, number) in counted {
                *sums.entry(lock.clone()).or_default() += *number as f64 * weight;
            }
        }
    }
}

/// What one acquisition that was counted in a slice stands for.
fn weight(began_ns: u64, ended_ns: u64, next_ns: u64, processes: usize) -> f64 {
    let slice = ended_ns.saturating_sub(began_ns).max(1) as f64;
    let step = next_ns.saturating_sub(began_ns) as f64;
    processes as f64 * step / slice
}

fn difference(before: &ByTime<HashMap<Lock, u64>>, after: &ByTime<HashMap<Lock, u64>>) -> ByTime<HashMap<Lock, u64>> {
    std::array::from_fn(|time| {
        after[time]
            .iter()
            .filter_map(|(lock, now)| {
                let new = now - before[time].get(lock).unwrap_or(&0).min(now);
                (new > 0).then(|| (lock.clone(), new))
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::locks::What;
    use pgcalm_host::server_process::Role;

    #[test]
    fn a_slice_of_one_process_stands_for_all_and_for_the_whole_step() {
        let lock = Lock { what: What::Lightweight("WALInsert".to_string()), mode: 0, role: Role::Backend };
        let counts = |number| {
            let mut counts = ByTime::<HashMap<Lock, u64>>::default();
            counts[0].insert(lock.clone(), number);
            counts
        };
        let mut slices = AcquisitionSlices::default();
        let counted = difference(&counts(100), &counts(130));
        slices.add(&counted, weight(1000, 1050, 1250, 4));
        // 30 in a fifth of the step, in one of four.
        assert_eq!(slices.sums[0][&lock], 600.0);
        assert!(difference(&counts(7), &counts(7))[0].is_empty());
    }
}
