//! Signals that end what runs until it is told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

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
    /// next one ends it as it would have without this, whatever the process waits for. What is ignored stays so, as SIGHUP with
    /// `nohup`, but for SIGINT.
    pub fn install() -> io::Result<Self> {
        let flag = Self::default();
        let signals = heeded(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        for signal in &signals {
            signal_hook::flag::register(*signal, Arc::clone(&flag.0))?;
        }
        let signals = Signals::new(&signals)?;
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

/// All that this process does not ignore by its `status`. SIGINT counts even then: shells have what scripts run in the background
/// ignore it, and scripts end that with it.
fn heeded(status: &str) -> Vec<i32> {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let is_ignored = |signal: i32| (ignored >> (signal - 1)) & 1 == 1;
    SIGNALS.into_iter().filter(|signal| *signal == SIGINT || !is_ignored(*signal)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_hangup_is_left_alone_and_an_ignored_interrupt_is_not() {
        assert_eq!(heeded("Name:\tpgcalm\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000000000\n"), [SIGINT, SIGTERM]);
        assert_eq!(heeded("SigIgn:\t0000000000001000\n"), SIGNALS);
        assert_eq!(heeded(""), SIGNALS);
    }
}
