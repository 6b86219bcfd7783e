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
    let sums = std::mem::take(&mut books.sums);
    take(Line::Total(interval(sums, &books, began_ns, last_ns)))?;
    take(Line::End(session.end_line(reason, io.drops())))?;
    Ok(reason)
}

/// Totals by what they are of.
type Totals = HashMap<OperationKey, OperationTotal>;

/// What was read so far.
#[derive(Default)]
struct Books {
    /// In the kernel's map at the last look.
    before: Totals,
    /// Of the whole trace.
    sums: Totals,
    names: HashMap<u32, (String, Option<String>)>,
    /// Processes that had ended at the last look.
    ended: HashSet<u32>,
}

impl Books {
    /// What was added since the last call.
    fn take(&mut self, io: &Io, session: &Session) -> anyhow::Result<Totals> {
        let mut differences = Totals::new();
        for (key, now) in io.totals()? {
            let before = self.before.get(&key).copied().unwrap_or_default();
            let difference = now.since(&before);
            self.name(session, key.tgid);
            if difference.ns.count > 0 {
                let sum = self.sums.entry(key).or_default();
                sum.errors += difference.errors;
                sum.bytes += difference.bytes;
                sum.ns.add(&difference.ns);
                differences.insert(key, difference);
            }
            // What was read of a process just before it ended may lack its last calls.
            if self.ended.contains(&key.tgid) {
                io.forget(&key);
                self.before.remove(&key);
            } else {
                self.before.insert(key, now);
            }
        }
        let pids: HashSet<u32> = self.before.keys().map(|key| key.tgid).collect();
        self.ended = pids.into_iter().filter(|pid| !session.is_alive(*pid)).collect();
        Ok(differences)
    }

    fn name(&mut self, session: &Session, pid: u32) {
        let client = session.title(pid).and_then(|title| title.client.clone());
        self.names.insert(pid, (session.role(pid).to_string(), client));
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
    processes.sort_by_key(|process| (std::cmp::Reverse(process.syscalls), process.pid));
    Interval { time: clock::unix_seconds(began_ns), length_s, processes }
}
