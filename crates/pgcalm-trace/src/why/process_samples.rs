//! From samples of processes to the time that each spent on what.
//!
//! Time on a processor and time waiting for one are the scheduler's own sums. The rest of a process' time it slept: that
//! is divided among what its samples in sleep found, so that all of it together is the time that has passed.

use std::collections::HashMap;

use super::attribution::{EVENT_ACTIVITY, EVENT_CLASS, EVENT_CLIENT};
use crate::report::file_kind::FileKind;
use crate::syscalls::NO_SYSCALL;
use crate::waits;
use crate::waits::{Activity, Charge, ChargeKey};

/// Records, page images and bytes that were inserted into WAL.
pub(crate) type WalUsage = [u64; 3];

/// What a process did at a moment; `struct process_sample` of bpf/process_sample.bpf.h, stack and disk looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// On a processor since the process' start, ns.
    pub on_cpu_ns: u64,
    /// Waiting for one since then, ns.
    pub run_queue_ns: u64,
    /// How often it was on one.
    pub times_run: u64,
    /// Tells one system call from the next.
    pub call_identity: u64,
    /// WAL since its start; none if it was not read.
    pub wal_usage: Option<WalUsage>,
    /// What it slept in; none if it ran or was ready to.
    pub sleep: Option<Sleep>,
}

/// What a process sleeps in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleep {
    /// The same as when it was last looked at: it has not run since.
    Same,
    /// Something else, perhaps.
    In(ChargeKey),
}

/// A system call that a process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Number; [`NO_SYSCALL`] if in none.
    pub syscall: u16,
    /// Kind of the file that it works on.
    pub file: FileKind,
    /// When it was first seen in it, CLOCK_MONOTONIC in ns.
    pub since_ns: u64,
    /// When it was last seen in it.
    pub seen_ns: u64,
    /// Whether it has waited for the client or for work in it.
    pub is_idle: bool,
    identity: u64,
}

/// What is known of a process.
#[derive(Debug)]
struct Process {
    last: Sample,
    /// At the last look that was charged.
    charged: Sample,
    state: Option<ChargeKey>,
    sleeps: HashMap<ChargeKey, u64>,
    call: Option<Call>,
    /// At the last look that told; none yet for one of before the trace.
    wal_usage: Option<WalUsage>,
}

/// All processes of a trace.
#[derive(Debug, Default)]
pub struct Processes {
    processes: HashMap<u32, Process>,
    ended: Vec<(u32, Process)>,
    long_calls: Vec<(u32, Call)>,
    wal_usage: WalUsage,
    /// Whether processes that are new now were forked since the trace began: their WAL is all of the trace.
    has_begun: bool,
}

impl Processes {
    /// How often a process that slept when it was last looked at had run.
    pub fn times_run_asleep(&self, pid: u32) -> Option<u64> {
        let process = self.processes.get(&pid)?;
        process.state.map(|_| process.last.times_run)
    }

    /// All processes have been looked at once: the trace begins.
    pub fn begin(&mut self) {
        self.has_begun = true;
        self.charge();
    }

    /// Processes that were not told to have ended.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// Takes a sample; a call that has ended meanwhile and lasted longer than `long_call_ns` is kept. WAL counts if
    /// `counts_wal`: leaders of parallel workers take over what these have inserted.
    pub fn take(&mut self, pid: u32, sample: Sample, long_call_ns: u64, counts_wal: bool) {
        let has_begun = self.has_begun;
        let process = self.processes.entry(pid).or_insert_with(|| Process {
            last: sample,
            charged: sample,
            state: None,
            sleeps: HashMap::new(),
            call: None,
            wal_usage: has_begun.then_some([0; 3]),
        });
        if let Some(usage) = sample.wal_usage {
            if counts_wal && let Some(before) = &process.wal_usage {
                add_since(&mut self.wal_usage, &usage, before);
            }
            process.wal_usage = Some(usage);
        }
        process.last = sample;
        match sample.sleep {
            None => process.state = None,
            Some(Sleep::Same) => {}
            Some(Sleep::In(key)) => process.state = Some(key),
        }
        let Some(key) = process.state else { return };
        *process.sleeps.entry(key).or_default() += 1;
        let identity = match sample.sleep {
            Some(Sleep::Same) => process.call.map_or(0, |call| call.identity),
            _ => sample.call_identity,
        };
        match &mut process.call {
            Some(call) if call.identity == identity => call.seen_ns = sample.time_ns,
            call => {
                let ended = call.replace(Call {
                    syscall: key.syscall,
                    file: key.file(),
                    since_ns: sample.time_ns,
                    seen_ns: sample.time_ns,
                    is_idle: false,
                    identity,
                });
                if let Some(ended) = ended
                    && ended.is_long(long_call_ns)
                {
                    self.long_calls.push((pid, ended));
                }
            }
        }
        if let Some(call) = &mut process.call {
            call.is_idle |= key.is_idle();
        }
    }

    /// A process is no more; `wal_usage` is what it said at its end.
    pub fn end(&mut self, pid: u32, wal_usage: Option<WalUsage>, counts_wal: bool) {
        let process = self.processes.remove(&pid);
        if let Some(usage) = wal_usage
            && counts_wal
        {
            let before = process.as_ref().map_or(Some([0; 3]), |process| process.wal_usage);
            if let Some(before) = before {
                add_since(&mut self.wal_usage, &usage, &before);
            }
        }
        self.ended.extend(process.map(|process| (pid, process)));
    }

    /// WAL inserted since the trace began.
    pub fn wal_usage(&self) -> WalUsage {
        self.wal_usage
    }

    /// Processes that are there, with the call that each was last seen in.
    pub fn calls(&self) -> HashMap<u32, Option<Call>> {
        let calls = self.processes.iter();
        calls.map(|(pid, process)| (*pid, process.call)).collect()
    }

    /// Long calls that have ended since the last look.
    pub fn take_long_calls(&mut self) -> Vec<(u32, Call)> {
        std::mem::take(&mut self.long_calls)
    }

    /// The time since the last call, up to each process' last sample.
    pub fn charge(&mut self) -> Vec<(ChargeKey, Charge)> {
        let mut charges = Vec::new();
        let mut ended = std::mem::take(&mut self.ended);
        let ended = ended.iter_mut().map(|(pid, process)| (*pid, process));
        let there = self.processes.iter_mut();
        for (pid, process) in ended.chain(there.map(|(pid, process)| (*pid, process))) {
            process.charge(pid, &mut charges);
        }
        charges
    }
}

impl Process {
    fn charge(&mut self, pid: u32, charges: &mut Vec<(ChargeKey, Charge)>) {
        let (from, to) = (&self.charged, &self.last);
        let passed = to.time_ns.saturating_sub(from.time_ns);
        let on_cpu = to.on_cpu_ns.saturating_sub(from.on_cpu_ns);
        let run_queue = to.run_queue_ns.saturating_sub(from.run_queue_ns);
        // The sums of a process that runs or is queued come late: what is more than the time that has passed belongs to
        // the time before, which counts as sleep.
        let on_cpu = on_cpu.min(passed);
        let run_queue = run_queue.min(passed - on_cpu);
        let slept = passed - on_cpu - run_queue;
        let mut add = |key: ChargeKey, ns: u64, count: u64| {
            if ns > 0 {
                charges.push((key, Charge { ns, count }));
            }
        };
        add(ChargeKey::new(pid, Activity::OnCpu, 0), on_cpu, 1);
        add(ChargeKey::new(pid, Activity::RunQueue, 0), run_queue, 1);
        let sleeps = std::mem::take(&mut self.sleeps);
        let mut sleeps: Vec<(ChargeKey, u64)> = sleeps.into_iter().collect();
        if sleeps.is_empty() {
            // Too short for any sample to see.
            sleeps.push((ChargeKey::new(pid, Activity::WaitEvent, 0), 1));
        }
        let all: u64 = sleeps.iter().map(|(_, count)| count).sum();
        let mut seen = 0;
        let mut charged = 0;
        for (key, count) in sleeps {
            seen += count;
            // Of the sum, so that rounding loses nothing.
            let up_to = (u128::from(slept) * u128::from(seen) / u128::from(all)) as u64;
            add(key, up_to - charged, count);
            charged = up_to;
        }
        self.charged = self.last;
    }
}

impl Call {
    /// Whether the process was in it for longer, other than for want of work.
    pub fn is_long(&self, long_call_ns: u64) -> bool {
        self.syscall != NO_SYSCALL && !self.is_idle && self.seen_ns.saturating_sub(self.since_ns) > long_call_ns
    }
}

impl ChargeKey {
    /// Whether it waits for the client or for work.
    fn is_idle(&self) -> bool {
        let class = self.detail as u32 & EVENT_CLASS;
        self.activity() == Some(Activity::WaitEvent) && matches!(class, EVENT_CLIENT | EVENT_ACTIVITY)
    }
}

fn add_since(sum: &mut WalUsage, now: &WalUsage, before: &WalUsage) {
    for (sum, (now, before)) in sum.iter_mut().zip(now.iter().zip(before)) {
        *sum += now.saturating_sub(*before);
    }
}

/// Stacks by numbers of our own, so that equal ones are looked up once.
#[derive(Debug, Default)]
pub(crate) struct StackNumbers {
    numbers: HashMap<Vec<u8>, u32>,
    stacks: Vec<Vec<u8>>,
}

/// More different stacks than this are not told apart from none.
const MAX_STACKS: usize = 16384;

impl StackNumbers {
    /// The number of a stack; [`waits::NO_STACK`] if there are too many.
    pub(crate) fn number(&mut self, stack: Vec<u8>) -> u64 {
        if let Some(number) = self.numbers.get(&stack) {
            return u64::from(*number);
        }
        if self.stacks.len() >= MAX_STACKS {
            return waits::NO_STACK;
        }
        let number = self.stacks.len() as u32;
        self.numbers.insert(stack.clone(), number);
        self.stacks.push(stack);
        u64::from(number)
    }

    /// The addresses of a stack.
    pub(crate) fn stack(&self, number: u32) -> Option<Vec<u8>> {
        self.stacks.get(number as usize).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 7;

    fn sample(time_ns: u64, on_cpu_ns: u64, run_queue_ns: u64, sleep: Option<Sleep>) -> Sample {
        Sample { time_ns, on_cpu_ns, run_queue_ns, times_run: 1, call_identity: 0, wal_usage: None, sleep }
    }

    fn event(event: u32) -> ChargeKey {
        ChargeKey::new(PID, Activity::WaitEvent, u64::from(event))
    }

    fn ns(charges: &[(ChargeKey, Charge)], key: &ChargeKey) -> u64 {
        let same = charges.iter().filter(|(other, _)| other == key);
        same.map(|(_, charge)| charge.ns).sum()
    }

    #[test]
    fn sleep_is_divided_by_samples_and_all_together_is_the_time_that_has_passed() {
        let mut processes = Processes::default();
        processes.take(PID, sample(1000, 10, 20, None), u64::MAX, true);
        let (lock, client) = (event(0x0300_0000), event(EVENT_CLIENT));
        for (time, sleep) in
            [(1100, Some(Sleep::In(lock))), (1200, Some(Sleep::Same)), (1300, Some(Sleep::In(client))), (1400, None)]
        {
            processes.take(PID, sample(time, 60, 50, sleep), u64::MAX, true);
        }
        let charges = processes.charge();
        assert_eq!(ns(&charges, &ChargeKey::new(PID, Activity::OnCpu, 0)), 50);
        assert_eq!(ns(&charges, &ChargeKey::new(PID, Activity::RunQueue, 0)), 30);
        // Two and one of three samples; which of them is rounded up depends on which comes first.
        let (lock, client) = (ns(&charges, &lock), ns(&charges, &client));
        assert!(matches!((lock, client), (213, 107) | (214, 106)), "{lock}, {client}");
        assert_eq!(charges.iter().map(|(_, charge)| charge.ns).sum::<u64>(), 400);
        // Nothing twice.
        assert!(processes.charge().is_empty());
    }

    #[test]
    fn sleep_that_no_sample_saw_is_unknown() {
        let mut processes = Processes::default();
        processes.take(PID, sample(0, 0, 0, None), u64::MAX, true);
        processes.take(PID, sample(100, 60, 0, None), u64::MAX, true);
        let charges = processes.charge();
        assert_eq!(ns(&charges, &event(0)), 40);
    }

    #[test]
    fn a_call_is_long_if_it_stays_the_same_and_the_client_is_not_waited_for() {
        let mut processes = Processes::default();
        let mut key = ChargeKey::new(PID, Activity::Uninterruptible, 0);
        key.syscall = 75;
        let call = |time, identity| Sample { call_identity: identity, ..sample(time, 0, 0, Some(Sleep::In(key))) };
        for (time, identity) in [(0, 1), (50, 1), (100, 2), (300, 2), (400, 3)] {
            processes.take(PID, call(time, identity), 100, true);
        }
        let long = processes.take_long_calls();
        assert_eq!(long.len(), 1);
        assert_eq!((long[0].1.since_ns, long[0].1.seen_ns), (100, 300));

        let mut idle = event(EVENT_CLIENT);
        idle.syscall = 232;
        let wait = |time| sample(time, 0, 0, Some(Sleep::In(idle)));
        processes.take(PID, wait(500), 100, true);
        processes.take(PID, wait(900), 100, true);
        let call = processes.calls()[&PID].unwrap();
        assert!(call.is_idle && !call.is_long(100));
    }

    #[test]
    fn wal_is_what_each_process_adds_to_what_it_had_and_what_it_says_at_its_end() {
        let mut processes = Processes::default();
        let wal = |usage| Sample { wal_usage: Some(usage), ..sample(0, 0, 0, None) };
        processes.take(PID, wal([10, 1, 1000]), u64::MAX, true);
        processes.begin();
        processes.take(PID, wal([15, 2, 9000]), u64::MAX, true);
        // A parallel worker's is its leader's, too.
        processes.take(8, wal([5, 5, 5]), u64::MAX, false);
        processes.end(PID, Some([16, 2, 9100]), true);
        // One that came and went between two looks.
        processes.end(9, Some([1, 0, 50]), true);
        // One that is new, and has inserted before its first look.
        processes.take(10, wal([100, 0, 7000]), u64::MAX, true);
        assert_eq!(processes.wal_usage(), [107, 1, 15150]);
    }
}
