//! `pgcalm trace connect`.

pub mod report;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use pgcalm_host::server_process::Role;

use crate::clock::monotonic_ns;
use crate::connect::report::{Connection, Hanging, Line, PHASES, Phase, PhaseCalls, PhaseName, Summary};
use crate::kernel_symbols::{KernelSymbols, Stacks};
use crate::operations::{OperationKey, OperationTotal};
use crate::probes::connect::{Connect, Finished};
use crate::report::{EndReason, Take};
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Target;
use crate::waits::{Activity, Charge, ChargeKey};
use crate::why::attribution::{Spent, WalLoad, What};
use crate::why::report::Stack;
use crate::why::{attribution, stack_class};
use crate::{clock, syscalls};

/// What is to be traced.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long; until something else ends it if none.
    pub duration: Option<Duration>,
    /// How many connections; no limit if none.
    pub count: Option<u64>,
    /// A connection that takes longer is reported before it is ready, too.
    pub threshold: Duration,
}

/// How often what other processes of the server, as parallel workers, have left in the kernel's maps is taken out, if no
/// connection does it.
const CLEAN_UP: Duration = Duration::from_secs(1);

/// Stacks that are shown of a connection.
const STACKS: usize = 10;

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(target: &Target, options: &Options, stop: &Stop, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
    let mut session = Session::start(target, stop, options.duration)?;
    let symbols = KernelSymbols::read(&target.root)?;
    let connect = Connect::load(&mut session, &symbols)?;
    // Dropped before the group from here on: libbpf's links to USDT probes point into their object.
    let mut session = session;
    connect.attach(&mut session);
    take(Line::Start(session.start_line("connect", vec![format!("threshold {} s", options.threshold.as_secs_f64())])))?;
    let (looked, ended) = (Instant::now(), HashSet::new());
    let mut reader =
        Reader { connect: &connect, major: target.major, symbols, stacks: Stacks::default(), looked, ended };
    let mut summary = Summary::default();
    let mut total_ms = 0.0;
    let mut reported: HashSet<u32> = HashSet::new();
    let reason = loop {
        let status = session.wait(&[&connect.events])?;
        for connection in reader.finished(&session)? {
            reported.remove(&connection.pid);
            if connection.ready {
                summary.ready += 1;
                total_ms += connection.total_ms;
                summary.max_ms = summary.max_ms.max(connection.total_ms);
            } else {
                summary.ended += 1;
            }
            take(Line::Connection(connection))?;
        }
        for hanging in reader.hanging(options.threshold)? {
            if reported.insert(hanging.pid) {
                take(Line::Hanging(hanging))?;
            }
        }
        if options.count.is_some_and(|count| summary.ready + summary.ended >= count) {
            break EndReason::Count;
        }
        if let Some(reason) = status.end() {
            break reason;
        }
    };
    if summary.ready > 0 {
        summary.mean_ms = total_ms / summary.ready as f64;
    }
    take(Line::Summary(summary))?;
    take(Line::End(session.end_line(reason, connect.drops())))?;
    Ok(reason)
}

/// From what the kernel has counted to the model.
struct Reader<'a> {
    connect: &'a Connect,
    /// Major version of the server.
    major: u32,
    symbols: KernelSymbols,
    stacks: Stacks,
    /// When the maps were last looked through.
    looked: Instant,
    /// Processes that had ended by then.
    ended: HashSet<u32>,
}

impl Reader<'_> {
    fn finished(&mut self, session: &Session) -> anyhow::Result<Vec<Connection>> {
        let finished = self.connect.finished()?;
        if finished.is_empty() && self.looked.elapsed() < CLEAN_UP {
            return Ok(Vec::new());
        }
        self.looked = Instant::now();
        let mut others: HashSet<u32> = HashSet::new();
        let mut charges: HashMap<u32, Vec<(ChargeKey, Charge)>> = HashMap::new();
        for (key, charge) in self.connect.charges()? {
            if finished.iter().any(|finished| finished.pid == key.tgid) {
                charges.entry(key.tgid).or_default().push((key, charge));
                self.connect.forget_charge(&key);
            } else if self.ended.contains(&key.tgid) {
                self.connect.forget_charge(&key);
            } else {
                others.insert(key.tgid);
            }
        }
        let mut calls: HashMap<u32, Vec<(OperationKey, OperationTotal)>> = HashMap::new();
        for (key, total) in self.connect.operations()? {
            if finished.iter().any(|finished| finished.pid == key.tgid) {
                calls.entry(key.tgid).or_default().push((key, total));
                self.connect.forget_operation(&key);
            } else if self.ended.contains(&key.tgid) {
                self.connect.forget_operation(&key);
            } else {
                others.insert(key.tgid);
            }
        }
        // A connection that has just ended may be told at the next look only, and what is known of it is kept for that.
        self.ended = others.into_iter().filter(|pid| !session.is_alive(*pid)).collect();
        Ok(finished
            .iter()
            .map(|finished| {
                self.connection(
                    finished,
                    &charges.remove(&finished.pid).unwrap_or_default(),
                    &calls.remove(&finished.pid).unwrap_or_default(),
                )
            })
            .collect())
    }

    fn connection(
        &mut self,
        finished: &Finished,
        charges: &[(ChargeKey, Charge)],
        calls: &[(OperationKey, OperationTotal)],
    ) -> Connection {
        let phases = PHASES
            .into_iter()
            .enumerate()
            .filter(|(number, _)| finished.began_ns[*number] > 0)
            .map(|(number, name)| {
                let end =
                    finished.began_ns[number + 1..].iter().copied().find(|ns| *ns > 0).unwrap_or(finished.ended_ns);
                let ns = end.saturating_sub(finished.began_ns[number]);
                self.phase(number as u8, name, ns, charges, calls)
            })
            .collect();
        Connection {
            pid: finished.pid,
            time: clock::unix_seconds(finished.began_ns[0]),
            total_ms: ms(finished.ended_ns.saturating_sub(finished.began_ns[0])),
            ready: finished.ready,
            phases,
            stacks: self.stacks_of(charges),
        }
    }

    fn phase(
        &mut self,
        number: u8,
        phase: PhaseName,
        ns: u64,
        charges: &[(ChargeKey, Charge)],
        calls: &[(OperationKey, OperationTotal)],
    ) -> Phase {
        let spent: Vec<Spent> = charges
            .iter()
            .filter(|(key, _)| key.phase == number)
            .filter_map(|(key, charge)| {
                let what = attribution::named(self.what(key)?, self.major);
                Some(Spent { role: Role::Backend, what, ns: charge.ns })
            })
            .collect();
        let attribution = attribution::attribute(&spent, &WalLoad::default());
        let mut calls: Vec<PhaseCalls> = calls
            .iter()
            .filter(|(key, _)| key.phase == number)
            .map(|(key, total)| PhaseCalls {
                operation: key.operation(),
                file: key.file(),
                calls: total.ns.count,
                errors: total.errors,
                bytes: total.bytes,
                ms: ms(total.ns.sum),
            })
            .collect();
        calls.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Phase {
            phase,
            ms: ms(ns),
            on_cpu_ms: ms(attribution.on_cpu_ns),
            client_ms: ms(attribution.client_ns),
            lost_ms: ms(attribution.lost_ns),
            shares: attribution.shares,
            calls,
        }
    }

    fn what(&mut self, key: &ChargeKey) -> Option<What> {
        Some(match key.activity()? {
            Activity::OnCpu => What::OnCpu,
            Activity::RunQueue => What::RunQueue,
            Activity::Uninterruptible => What::Uninterruptible {
                frames: self.frames(key.detail),
                operation: syscalls::operation(key.syscall),
                file: key.file(),
                throttled: key.is_throttled(),
            },
            // Without the server's probes the wait event tells of locks.
            Activity::Lwlock | Activity::HeavyweightLock | Activity::WaitEvent => What::WaitEvent {
                event: self.connect.knows_wait_events.then_some(key.detail as u32),
                operation: syscalls::operation(key.syscall),
                polls: syscalls::polls(key.syscall),
            },
        })
    }

    fn frames(&mut self, detail: u64) -> Vec<String> {
        match u32::try_from(detail) {
            Ok(id) => self.stacks.frames(id, &self.symbols, |id| self.connect.stack(id)).to_vec(),
            Err(_) => Vec::new(),
        }
    }

    fn stacks_of(&mut self, charges: &[(ChargeKey, Charge)]) -> Vec<Stack> {
        let mut slept: Vec<_> = charges
            .iter()
            .filter(|(key, charge)| key.activity() == Some(Activity::Uninterruptible) && charge.ns > 0)
            .collect();
        slept.sort_by_key(|(_, charge)| std::cmp::Reverse(charge.ns));
        slept
            .into_iter()
            .take(STACKS)
            .map(|(key, charge)| {
                let frames = self.frames(key.detail);
                let operation = syscalls::operation(key.syscall);
                Stack {
                    role: Role::Backend.to_string(),
                    seconds: charge.ns as f64 / 1e9,
                    syscall: syscalls::name(key.syscall),
                    file: key.file(),
                    cause: stack_class::cause(&frames, operation, key.file(), key.is_throttled()),
                    frames,
                }
            })
            .collect()
    }

    fn hanging(&mut self, threshold: Duration) -> anyhow::Result<Vec<Hanging>> {
        let now_ns = monotonic_ns();
        let states = self.connect.under_way()?;
        Ok(states
            .into_iter()
            .filter_map(|(pid, state)| {
                let so_far = now_ns.saturating_sub(self.connect.forked_ns(pid)?);
                if u128::from(so_far) < threshold.as_nanos() {
                    return None;
                }
                let frames = if state.key.activity() == Some(Activity::Uninterruptible) {
                    self.frames(state.key.detail)
                } else {
                    Vec::new()
                };
                Some(Hanging {
                    pid,
                    so_far_ms: ms(so_far),
                    phase: PHASES[usize::from(state.phase) % PHASES.len()],
                    syscall: syscalls::name(state.syscall),
                    file: state.key.file(),
                    frames,
                })
            })
            .collect())
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
