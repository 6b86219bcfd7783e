//! Signals that end a run early.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;

use crate::LabError;

/// How often waits look at the flag.
const POLL: Duration = Duration::from_millis(20);

/// A flag that is set once a signal has asked this process to end.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP set the flag instead of ending the process.
    pub fn install() -> anyhow::Result<Self> {
        let flag = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag.0))
                .context("install signal handler")?;
        }
        Ok(flag)
    }

    /// Fails with [`LabError::Interrupted`] once a signal has arrived.
    pub fn check(&self) -> Result<(), LabError> {
        if self.0.load(Ordering::Relaxed) {
            Err(LabError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Sleeps, and fails at once when a signal arrives.
    pub fn sleep(&self, duration: Duration) -> Result<(), LabError> {
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
