//! Watches the instances of a host in a thread, at an interval.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_postgres::Address;

use crate::history::{History, HistoryLimits};
use crate::model::{Host, IncidentCount, Reachability};

mod assembler;
mod look;
mod watched;

use assembler::Assembler;

/// What is watched, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connection strings of libpq's; empty: all instances of this host, those that are started later, too.
    pub connect: Vec<String>,
    /// Between samples.
    pub interval: Duration,
    /// Samples that are kept for looking back; `None`: none.
    pub history: Option<HistoryLimits>,
    /// The host.
    pub root: HostRoot,
    /// Where incidents are counted, for who shows them.
    pub incidents: Option<IncidentSource>,
}

/// Tells how many incidents there have been; asked at each sample.
#[derive(Clone)]
pub struct IncidentSource(pub Arc<dyn Fn() -> Vec<IncidentCount> + Send + Sync>);

impl std::fmt::Debug for IncidentSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IncidentSource")
    }
}

impl Default for Options {
    /// All local instances, each second, with the last hour.
    fn default() -> Self {
        Self {
            connect: Vec::new(),
            interval: Duration::from_secs(1),
            history: Some(HistoryLimits::default()),
            root: HostRoot::default(),
            incidents: None,
        }
    }
}

/// Watches a host until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// From this age on a sample is old.
    old: Duration,
    changed: Condvar,
    history: History,
}

#[derive(Debug)]
struct State {
    stop: bool,
    latest: Arc<Host>,
    taken: Instant,
    ways: Arc<Vec<Way>>,
    blind: bool,
}

/// How an instance can be looked at between two samples.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// Its name in the samples.
    pub name: String,
    /// Where it listens; `None` if nowhere.
    pub address: Option<Address>,
    /// Its postmaster's process id and start, if that is seen.
    pub postmaster: Option<(i32, u64)>,
}

impl Monitor {
    /// Starts watching.
    ///
    /// # Errors
    ///
    /// [`Usage`](pgcalm_host::Failure::Usage) for a connection string that can't be read or names a server twice; others if /proc can't
    /// be read or no thread be started. A server that can't be reached is no error: the samples say so.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let mut assembler = Assembler::new(options.clone())?;
        let first = assembler.assemble();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                stop: false,
                latest: Arc::new(first),
                taken: Instant::now(),
                ways: Arc::new(assembler.ways()),
                blind: assembler.is_blind(),
            }),
            old: options.interval * 3 + SLACK,
            changed: Condvar::new(),
            history: History::new(options.history.unwrap_or(HistoryLimits { bytes: 0, span: Duration::ZERO })),
        });
        let ours = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("pgcalm monitor".to_string())
            .spawn(move || run(&ours, &mut assembler, &options))
            .context("start a thread")?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The latest sample. Never waits for a server.
    pub fn latest(&self) -> Arc<Host> {
        Arc::clone(&self.shared.lock().latest)
    }

    /// The latest sample, unless it is so old that what takes them hangs, as at a record on a volume that does, or has failed: its
    /// values would look like those of the moment.
    pub(crate) fn fresh(&self) -> Option<Arc<Host>> {
        let state = self.shared.lock();
        (state.taken.elapsed() < self.shared.old).then(|| Arc::clone(&state.latest))
    }

    /// Makes the latest sample old.
    #[cfg(test)]
    pub(crate) fn age(&self) {
        self.shared.lock().taken = Instant::now().checked_sub(self.shared.old).unwrap();
    }

    /// The latest sample, the ways to its instances, and whether it is not known which there are.
    pub(crate) fn latest_with_ways(&self) -> (Arc<Host>, Arc<Vec<Way>>, bool) {
        let state = self.shared.lock();
        (Arc::clone(&state.latest), Arc::clone(&state.ways), state.blind)
    }

    /// The samples so far; empty unless [`Options::history`] asked for them.
    pub fn history(&self) -> &History {
        &self.shared.history
    }

    /// Waits for a sample of which `condition` holds; `None` if there is none within `time`.
    pub fn wait_for(&self, time: Duration, condition: impl Fn(&Host) -> bool) -> Option<Arc<Host>> {
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, time, |state| !state.stop && !condition(&state.latest))
            .unwrap_or_else(PoisonError::into_inner);
        condition(&state.latest).then(|| Arc::clone(&state.latest))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        // It waits for nothing but its own pause, /proc, and briefly for a look.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is an assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much later than three intervals a sample may be on a host that is busy.
const SLACK: Duration = Duration::from_secs(15);

/// A server that has not answered yet is looked at again after this time, however long the interval is.
const SOON: Duration = Duration::from_secs(1);

fn run(shared: &Shared, assembler: &mut Assembler, options: &Options) {
    let mut next = Instant::now() + options.interval.min(SOON);
    loop {
        let pause = next.saturating_duration_since(Instant::now());
        let state = shared.lock();
        let (state, _) = shared
            .changed
            .wait_timeout_while(state, pause, |state| !state.stop)
            .unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            return;
        }
        drop(state);
        // After a time in which this process was stopped, samples of that time are not made up for.
        next = (next + options.interval).max(Instant::now());
        let host = assembler.assemble();
        if host.instances.iter().any(|instance| instance.reachability == Reachability::Connecting) {
            next = next.min(Instant::now() + SOON);
        }
        if options.history.is_some() {
            // Nothing but a lack of memory keeps a sample out.
            let _ = shared.history.push(&host);
        }
        let (ways, blind) = (Arc::new(assembler.ways()), assembler.is_blind());
        let mut state = shared.lock();
        state.latest = Arc::new(host);
        state.taken = Instant::now();
        state.ways = ways;
        state.blind = blind;
        drop(state);
        shared.changed.notify_all();
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
