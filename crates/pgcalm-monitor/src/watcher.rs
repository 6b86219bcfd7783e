//! Watches one server, in a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgcalm_host::HostRoot;
use pgcalm_postgres::Address;

use crate::model::{Instance, Reachability};
use crate::server::{Facts, Gone, Memory, Server, Unwatched};

/// A server that does not answer for so long is shown as hung, and its last sample no more.
const HUNG_AFTER: Duration = Duration::from_secs(3);

/// Between attempts to connect: twice as long each time, since each failure is a line in the server's log.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The longest one while a server starts or recovers: its users ask as often, and are let in before it is over.
const LONGEST_PAUSE_IF_CLOSED: Duration = Duration::from_secs(4);

/// A thread that samples a server at an interval.
///
/// It may block for as long as the server doesn't answer, as one that is stopped or whose disk hangs: nobody waits for it.
/// Dropping the watcher ends the thread when it comes back.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    stop: bool,
    /// Since when a sample has been waited for, over all attempts since the last one.
    asking_since: Option<Instant>,
    sample: Option<(Instant, Instance)>,
    facts: Option<Facts>,
    gone: Gone,
    unreachable: Option<Reachability>,
}

impl Watcher {
    /// Starts watching. `gone`: that of the watcher before, whose server was restarted.
    pub(crate) fn start(address: Address, interval: Duration, root: HostRoot, gone: Gone) -> std::io::Result<Self> {
        let state = State { gone, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        let watched = Arc::clone(&shared);
        thread::Builder::new().name("pgcalm watcher".to_string()).spawn(move || {
            // A bug in here must not look like a server that hangs.
            let watching = AssertUnwindSafe(|| watch(&watched, &address, interval, &root));
            if catch_unwind(watching).is_err() {
                let mut state = watched.lock();
                state.asking_since = None;
                let why = "pgcalm failed at reading its answer".to_string();
                state.unreachable = Some(Reachability::Unreachable { why, closed: false, denied: false });
            }
        })?;
        Ok(Self { shared })
    }

    /// What changes rarely, as last seen.
    pub(crate) fn facts(&self) -> Option<Facts> {
        self.shared.lock().facts.clone()
    }

    /// For the watcher after this one.
    pub(crate) fn gone(&self) -> Gone {
        self.shared.lock().gone
    }

    /// The last sample if it is fresh; else only its reachability is set. Never waits for the server.
    pub(crate) fn view(&self, interval: Duration) -> Instance {
        let state = self.shared.lock();
        let hung = state.asking_since.map(|since| since.elapsed()).filter(|waited| *waited >= HUNG_AFTER);
        let reachability = match (&state.unreachable, hung, &state.sample) {
            (Some(unreachable), None, _) => unreachable.clone(),
            (_, Some(waited), _) => Reachability::Hung { seconds: waited.as_secs_f64() },
            // Without an answer for less than that time, the sample before is still the latest there is.
            (None, None, Some((when, instance))) if when.elapsed() < interval * 2 + HUNG_AFTER => {
                return instance.clone();
            }
            _ => Reachability::Connecting,
        };
        Instance { reachability, ..Instance::default() }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is an assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; false if the thread is to end.
    fn pause(&self, time: Duration) -> bool {
        let state = self.lock();
        let (state, _) =
            self.wake.wait_timeout_while(state, time, |state| !state.stop).unwrap_or_else(PoisonError::into_inner);
        !state.stop
    }
}

impl State {
    /// One that has answered, and since then says nothing, hangs until it does, while a new connection is tried, too: who uses it
    /// waits as long. Gives whether that is so.
    fn failed(&mut self, error: &Unwatched, answered: bool) -> bool {
        let hangs = answered && error.timed_out;
        if !hangs {
            self.asking_since = None;
            let (closed, denied) = (error.closed, error.denied);
            self.unreachable = Some(Reachability::Unreachable { why: error.to_string(), closed, denied });
        }
        hangs
    }
}

/// Before the next attempt, where it would be so long. One that hangs logs nothing, and is to be heard as soon as it goes on.
fn pause_after(failed: &Unwatched, hangs: bool, pause: Duration) -> Duration {
    match (hangs, failed.closed) {
        (true, _) => FIRST_PAUSE,
        (_, true) => pause.min(LONGEST_PAUSE_IF_CLOSED),
        _ => pause,
    }
}

fn watch(shared: &Shared, address: &Address, interval: Duration, root: &HostRoot) {
    let mut memory = Memory::after(shared.lock().gone);
    let mut pause = FIRST_PAUSE;
    // And since then no more than nothing was said.
    let mut answered = false;
    loop {
        shared.lock().asking_since.get_or_insert_with(Instant::now);
        let failed = match Server::open(address, root, &memory) {
            Ok(server) => {
                (pause, answered) = (FIRST_PAUSE, true);
                match sample_while_it_goes(shared, server, interval, &mut memory) {
                    Some(error) => error,
                    None => return,
                }
            }
            Err(error) => error,
        };
        answered = shared.lock().failed(&failed, answered);
        memory.interrupt(failed.timed_out);
        pause = pause_after(&failed, answered, pause);
        if !shared.pause(pause) {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Samples until the connection fails; `None` if the thread is to end.
fn sample_while_it_goes(
    shared: &Shared,
    mut server: Server,
    interval: Duration,
    memory: &mut Memory,
) -> Option<Unwatched> {
    loop {
        let began = Instant::now();
        shared.lock().asking_since.get_or_insert(began);
        let sample = server.sample(memory);
        {
            let mut state = shared.lock();
            match sample {
                Ok(sample) => {
                    state.asking_since = None;
                    state.sample = Some((Instant::now(), sample));
                    state.facts = Some(server.facts().clone());
                    state.gone = memory.gone();
                    state.unreachable = None;
                }
                Err(error) => return Some(error),
            }
        }
        if !shared.pause(interval.saturating_sub(began.elapsed())) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(timed_out: bool) -> Unwatched {
        Unwatched { reason: "no".to_string(), timed_out, closed: false, denied: false }
    }

    #[test]
    fn a_server_that_recovers_is_heard_soon_after() {
        let closed = Unwatched { closed: true, ..error(false) };
        assert!(pause_after(&closed, false, LONGEST_PAUSE) < Duration::from_secs(5));
        assert_eq!(pause_after(&error(false), false, LONGEST_PAUSE), LONGEST_PAUSE);
        let mut state = State::default();
        state.failed(&closed, true);
        assert!(matches!(state.unreachable, Some(Reachability::Unreachable { closed: true, .. })));
    }

    #[test]
    fn a_server_that_hangs_is_not_given_session_after_session() {
        let mut memory = Memory::default();
        let (mut sessions, mut hung) = (0, Duration::ZERO);
        while hung < Duration::from_secs(3600) {
            sessions += 1;
            hung += memory.patience() + pause_after(&error(true), true, FIRST_PAUSE);
            memory.interrupt(true);
        }
        assert!(sessions < 10, "{sessions}");
        // It is never endless, as where the host was gone for days.
        for _ in 0..100 {
            memory.interrupt(true);
        }
        assert!(memory.patience() < Duration::from_secs(3600));
    }

    #[test]
    fn a_server_whose_time_is_up_hangs_on_until_it_says_something() {
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Condvar::new() });
        let watcher = Watcher { shared: Arc::clone(&shared) };
        let asked = Instant::now().checked_sub(HUNG_AFTER * 4).unwrap();
        let hangs_since_then = || match watcher.view(HUNG_AFTER).reachability {
            Reachability::Hung { seconds } => seconds >= (HUNG_AFTER * 4).as_secs_f64(),
            _ => false,
        };
        shared.lock().asking_since = Some(asked);
        // The session, and an attempt to make another.
        for _ in 0..2 {
            assert!(shared.lock().failed(&error(true), true));
            assert!(hangs_since_then());
        }
        let refused = Reachability::Unreachable { why: "no".to_string(), closed: false, denied: false };
        assert!(!shared.lock().failed(&error(false), true));
        assert_eq!(watcher.view(HUNG_AFTER).reachability, refused);
        // One that was never reached is told with what may be wrong.
        shared.lock().asking_since = Some(asked);
        assert!(!shared.lock().failed(&error(true), false));
        assert_eq!(watcher.view(HUNG_AFTER).reachability, refused);
    }
}
