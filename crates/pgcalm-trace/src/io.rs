//! `pgcalm trace io`.

pub mod report;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::clock;
use crate::clock::monotonic_ns;
use crate::io::report::{Calls, Interval, Line, Operation, Process};
use crate::operations::{OperationKey, OperationTotal};
use crate::probes::io::Io;
use crate::report::file_kind::FileKind;
use crate::report::{EndReason, Take};
use crate::session::{Session, Status};
use crate::stop::Stop;
use crate::target::Target;

/// What is to be traced.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long; until something else ends it if none.
    pub duration: Option<Duration>,
    /// Length of an interval; only the total is reported if none.
    pub interval: Option<Duration>,
}

/// How often processes that have ended are taken out of the kernel's map, if no interval does it.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(target: &Target, options: &Options, stop: &Stop, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
    let session = Session::start(target, stop, options.duration)?;
    let io = Io::load(&session)?;
    // Dropped before the group from here on: libbpf's links to USDT probes point into their object.
    let mut session = session;
    io.attach(&mut session);
    take(Line::Start(session.start_line("io", Vec::new())))?;
    let began_ns = monotonic_ns();
    let step = options.interval.unwrap_or(CLEAN_UP).as_nanos() as u64;
    let mut books = Books::default();
    let mut last_ns = began_ns;
    let reason = loop {
        let status = session.wait_until(&[], last_ns + step)?;
        let now_ns = monotonic_ns();
        if now_ns >= last_ns + step || status != Status::Running {
            let differences = books.take(&io, &session)?;
            if options.interval.is_some() {
                take(Line::Interval(interval(differences, &books, last_ns, now_ns)))?;
            }
            last_ns = now_ns;
        }
        if let Some(reason) = status.end() {
            break reason;
        }
    };
    take(Line::Total(books.total(began_ns, last_ns)))?;
    take(Line::End(session.end_line(reason, io.drops())))?;
    Ok(reason)
}

/// Totals by what they are of.
type Totals = HashMap<OperationKey, OperationTotal>;

/// Role and client of a process.
type Name = (String, Option<String>);

/// What was read so far.
#[derive(Default)]
struct Books {
    /// In the kernel's map at the last look.
    before: Totals,
    /// Of the whole trace, of processes that go on.
    sums: Totals,
    names: HashMap<u32, Name>,
    /// Processes that had ended at the last look.
    ended: HashSet<u32>,
    /// Those that were read to their end in the last look.
    closed: HashSet<u32>,
    /// Of the whole trace, of processes that have ended: by role, as of process 0. Each connection is one, and numbers come again.
    sums_of_ended: HashMap<String, Totals>,
}

impl Books {
    /// What was added since the last call.
    fn take(&mut self, io: &Io, session: &Session) -> anyhow::Result<Totals> {
        let name = |pid| {
            let client = session.title(pid).and_then(|title| title.client.clone());
            (session.role(pid).to_string(), client)
        };
        let differences = self.add(io.totals()?, name, |key| io.forget(key));
        let pids: HashSet<u32> = self.before.keys().map(|key| key.tgid).collect();
        self.ended = pids.into_iter().filter(|pid| !session.is_alive(*pid)).collect();
        Ok(differences)
    }

    /// Adds what the kernel's map holds; `forget` takes out of it what is no longer needed there.
    fn add(
        &mut self,
        totals: Vec<(OperationKey, OperationTotal)>,
        name: impl Fn(u32) -> Name,
        forget: impl Fn(&OperationKey),
    ) -> Totals {
        // Not before the interval was made of it.
        for pid in self.closed.drain() {
            self.names.remove(&pid);
        }
        let mut differences = Totals::new();
        for (key, now) in totals {
            let before = self.before.get(&key).copied().unwrap_or_default();
            let difference = now.since(&before);
            self.names.insert(key.tgid, name(key.tgid));
            if difference.ns.count > 0 {
                self.sums.entry(key).or_default().add(&difference);
                differences.insert(key, difference);
            }
            // What was read of a process just before it ended may lack its last calls.
            if self.ended.contains(&key.tgid) {
                forget(&key);
                self.before.remove(&key);
            } else {
                self.before.insert(key, now);
            }
        }
        self.closed = std::mem::take(&mut self.ended);
        let is_closed = |key: &&OperationKey| self.closed.contains(&key.tgid);
        let closed: Vec<OperationKey> = self.sums.keys().filter(is_closed).copied().collect();
        for key in closed {
            let role = self.names.get(&key.tgid).map_or_else(String::new, |(role, _)| role.clone());
            let sums = self.sums_of_ended.entry(role).or_default();
            if let Some(sum) = self.sums.remove(&key) {
                sums.entry(key.of_process(0)).or_default().add(&sum);
            }
        }
        differences
    }

    /// Those of the whole trace, as rows of a report.
    fn total(&mut self, began_ns: u64, ended_ns: u64) -> Interval {
        let mut total = interval(std::mem::take(&mut self.sums), self, began_ns, ended_ns);
        for (role, sums) in std::mem::take(&mut self.sums_of_ended) {
            self.names.insert(0, (role, None));
            total.processes.extend(interval(sums, self, began_ns, ended_ns).processes);
        }
        sort(&mut total.processes);
        total
    }
}

fn interval(totals: Totals, books: &Books, began_ns: u64, ended_ns: u64) -> Interval {
    let length_s = ended_ns.saturating_sub(began_ns) as f64 / 1e9;
    let mut by_process: HashMap<u32, Vec<Calls>> = HashMap::new();
    for (key, total) in totals {
        by_process.entry(key.tgid).or_default().push(Calls {
            operation: key.operation(),
            file: key.file(),
            calls: total.ns.count,
            errors: total.errors,
            bytes: total.bytes,
            duration: total.ns.to_model(),
        });
    }
    let mut processes: Vec<Process> = by_process
        .into_iter()
        .map(|(pid, mut operations)| {
            operations.sort_by_key(|calls| (calls.operation, calls.file));
            let bytes_per_s = |operation| {
                let bytes: u64 = operations
                    .iter()
                    .filter(|calls| calls.operation == operation && calls.file == FileKind::Socket)
                    .map(|calls| calls.bytes)
                    .sum();
                bytes as f64 / length_s.max(0.001)
            };
            let (role, client) = books.names.get(&pid).cloned().unwrap_or_default();
            Process {
                pid,
                role,
                client,
                syscalls: operations.iter().map(|calls| calls.calls).sum(),
                sent_bytes_per_s: bytes_per_s(Operation::Write),
                received_bytes_per_s: bytes_per_s(Operation::Read),
                operations,
            }
        })
        .collect();
    sort(&mut processes);
    Interval { time: clock::unix_seconds(began_ns), length_s, processes }
}

fn sort(processes: &mut [Process]) {
    processes.sort_by_key(|process| (std::cmp::Reverse(process.syscalls), process.pid));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::KernelHistogram;

    #[test]
    fn processes_that_have_ended_are_one_row_and_their_numbers_come_again() {
        let of = |pid, count| {
            let ns = KernelHistogram { count, ..KernelHistogram::default() };
            (OperationKey::default().of_process(pid), OperationTotal { ns, ..OperationTotal::default() })
        };
        let name = |pid: u32| {
            let role = if pid == 5 { "checkpointer" } else { "backend" };
            (role.to_string(), None)
        };
        let mut books = Books::default();
        books.add(vec![of(5, 10), of(7, 1), of(8, 1)], name, |_| {});
        books.ended = HashSet::from([7, 8]);
        let last = books.add(vec![of(5, 20), of(7, 4), of(8, 1)], name, |_| {});
        assert_eq!(interval(last, &books, 0, 1).processes.len(), 2);
        assert_eq!((books.sums.len(), books.before.len()), (1, 1));
        // Another backend has the number of one that has ended.
        books.add(vec![of(5, 20), of(7, 2)], name, |_| {});
        assert_eq!(books.names.len(), 2);
        let rows: Vec<_> = books.total(0, 1).processes.into_iter().map(|it| (it.pid, it.role, it.syscalls)).collect();
        let row = |pid, role: &str, calls| (pid, role.to_string(), calls);
        assert_eq!(rows, [row(5, "checkpointer", 20), row(0, "backend", 5), row(7, "backend", 2)]);
    }
}
