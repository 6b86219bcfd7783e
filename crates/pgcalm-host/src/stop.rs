//! Signals that end what runs until it is told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A signal that comes later than this after the first is meant as a second one: `timeout` and some supervisors send each
/// twice, to the process and to its group.
const AGAIN: Duration = Duration::from_millis(500);

/// The flag of this process's signals.
static OF_PROCESS: OnceLock<Stop> = OnceLock::new();

/// A flag that is set once a signal has asked this process to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on SIGINT, SIGTERM and SIGHUP set the flag instead of ending the process, half a second long. After that the
    /// next one ends it as it would have without this, whatever the process waits for.
    pub fn install() -> io::Result<Self> {
        let flag = Self::default();
        for signal in SIGNALS {
            signal_hook::flag::register(signal, Arc::clone(&flag.0))?;
        }
        let signals = Signals::new(SIGNALS)?;
        thread::Builder::new().name("pgcalm signals".to_string()).spawn(move || end_at_second(signals))?;
        let _ = OF_PROCESS.set(flag.clone());
        Ok(flag)
    }

    /// Ends the work as a signal would.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether one has arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a signal has asked this process to end; never without [`Stop::install`].
pub fn is_asked_for() -> bool {
    OF_PROCESS.get().is_some_and(Stop::is_set)
}

fn end_at_second(mut signals: Signals) {
    let mut first = None;
    for signal in signals.forever() {
        if first.get_or_insert_with(Instant::now).elapsed() >= AGAIN {
            // Fails for signals that can't be caught only.
            let _ = emulate_default_handler(signal);
        }
    }
}
