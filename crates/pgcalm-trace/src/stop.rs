//! Signals that end what runs until it is told to.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use anyhow::Context;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;

/// A flag that is set once a signal has asked this process to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on SIGINT, SIGTERM and SIGHUP set the flag instead of ending the process.
    pub fn install() -> anyhow::Result<Self> {
        let flag = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag.0))
                .context("install signal handler")?;
        }
        Ok(flag)
    }

    /// Ends the trace as a signal would.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether one has arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
