//! Signals that end a run early.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::stop::Stop;

use pgcalm_host::Failure;

/// How often waits look at the flag.
const POLL: Duration = Duration::from_millis(20);

/// A [`Stop`] that is an error of the lab's.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Stop);

impl Interrupt {
    /// As [`Stop::install`] does.
    pub fn install() -> anyhow::Result<Self> {
        Ok(Self(Stop::install().context("install signal handlers")?))
    }

    /// Fails with [`Failure::Interrupted`] once a signal has arrived.
    pub fn check(&self) -> Result<(), Failure> {
        if self.0.is_set() { Err(Failure::Interrupted("the lab has been taken down")) } else { Ok(()) }
    }

    /// Sleeps, and fails at once when a signal arrives.
    pub fn sleep(&self, duration: Duration) -> Result<(), Failure> {
        let end = Instant::now() + duration;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }
}
