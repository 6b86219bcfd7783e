//! `pgcalm trace why`.

pub mod attribution;
pub(crate) mod disk_idle;
pub mod event_names;
mod history;
mod kernel_threads;
pub mod lock_names;
pub(crate) mod process_samples;
pub mod report;
mod sampled_second;
mod second;
pub mod stack_class;
mod views;
pub mod without_ebpf;

use std::time::Duration;

use crate::clock::{NS_PER_S, monotonic_ns};
use crate::error::host_apart;
use crate::kernel_symbols::KernelSymbols;
use crate::probes::why::Why;
use crate::random::Random;
use crate::report::{EndReason, Take};
use crate::session::{Session, Status};
use crate::stop::Stop;
use crate::target::Target;
use crate::why::report::{Line, Summary};
use crate::why::second::Seconds;

/// What is to be traced.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long; until something else ends it if none.
    pub duration: Option<Duration>,
    /// A backend that is in one system call for longer calls for a verdict.
    pub threshold: Duration,
    /// Whether to attach to the server's program, for commits, WAL and checkpoints; samples alone change nothing in it.
    pub probes: bool,
    /// Whether to count calls on WAL files, which every system call of the host pays for.
    pub wal_calls: bool,
    /// How to connect to the database where there is no eBPF, as libpq has it.
    pub connect: Option<String>,
}

/// Mean time between two samples: some 100 in a second of each process.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// A second that the end of the trace cuts off is reported from this length on.
const SHORTEST_SECOND_NS: u64 = NS_PER_S / 2;

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(target: &Target, options: &Options, stop: &Stop, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
    match host_apart(with_ebpf(target, options, stop, take))? {
        Ok(reason) => Ok(reason),
        Err(reason) => without_ebpf::run(target, options, stop, &reason, take),
    }
}

/// The same by eBPF alone.
///
/// [`Failure::Host`](pgcalm_host::Failure::Host) before any line if that can't be used here.
pub fn with_ebpf(target: &Target, options: &Options, stop: &Stop, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
    let mut session = Session::start(target, stop, options.duration)?;
    if !options.probes {
        session.leave_probes();
    }
    let symbols = KernelSymbols::read(&target.root)?;
    let threshold_ns = u64::try_from(options.threshold.as_nanos()).unwrap_or(u64::MAX);
    let mut why = Why::load(&mut session, threshold_ns, options)?;
    // Dropped before the group from here on: libbpf's links to USDT probes point into their object.
    let mut session = session;
    if options.probes {
        why.attach(&mut session);
    }
    let mut shown = vec![
        format!("threshold {} s", options.threshold.as_secs_f64()),
        format!("samples each {} ms", SAMPLE_EVERY.as_millis()),
    ];
    if options.wal_calls {
        shown.push("wal-calls".to_string());
    }
    why.sample(&mut session)?;
    let mut seconds = Seconds::start(&mut why, &session, symbols, threshold_ns)?;
    take(Line::Start(session.start_line("why", shown)))?;
    let mut summary = Summary::default();
    let mut next = monotonic_ns() + NS_PER_S;
    let mut random = Random::default();
    let reason = loop {
        // What happens at a fixed pace must not fall into step with the samples.
        let mean = SAMPLE_EVERY.as_nanos() as u64;
        let moment = (monotonic_ns() + mean / 2 + random.below(mean)).min(next);
        let status = session.wait_until(&[], moment)?;
        why.sample(&mut session)?;
        let now = monotonic_ns();
        seconds.take_events(&why)?;
        if now >= next || (status != Status::Running && now + NS_PER_S >= next + SHORTEST_SECOND_NS) {
            let (second, verdict) = seconds.close(&mut why, &session)?;
            summary.all.add(&second);
            if verdict.is_some() {
                summary.with_verdict.add(&second);
            }
            take(Line::Second(second))?;
            if let Some(verdict) = verdict {
                take(Line::Verdict(verdict))?;
            }
            // A tracer that could not run for more than a second does not catch up with short ones.
            next = (next + NS_PER_S).max(now + SHORTEST_SECOND_NS);
        }
        if let Some(reason) = status.end() {
            break reason;
        }
    };
    take(Line::Summary(summary))?;
    take(Line::End(session.end_line(reason, why.drops())))?;
    Ok(reason)
}
