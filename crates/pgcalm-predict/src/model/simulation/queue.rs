//! What the device has been given and not done.

use std::collections::VecDeque;

use super::super::caps::Caps;
use super::super::caps::Work;

/// One piece after the other: what comes later waits, as it does behind the kernel's throttle.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Queue {
    waiting: VecDeque<Work>,
    /// Seconds of work done.
    worked: f64,
}

impl Queue {
    pub fn add(&mut self, work: Work) {
        if work.operations > 0.0 {
            self.waiting.push_back(work);
        }
    }

    /// Bytes under writeback.
    pub fn bytes(&self) -> f64 {
        self.waiting.iter().map(|work| work.bytes).sum()
    }

    /// Until all of it is done.
    pub fn seconds(&self, caps: &Caps) -> f64 {
        self.waiting.iter().map(|work| caps.seconds(*work)).sum()
    }

    /// Seconds that it has worked.
    pub fn worked(&self) -> f64 {
        self.worked
    }

    /// Lets the device work for so long. Returns the seconds that were left.
    pub fn work(&mut self, caps: &Caps, mut seconds: f64) -> f64 {
        while let Some(first) = self.waiting.front_mut() {
            let needed = caps.seconds(*first);
            if needed > seconds {
                *first = *first * (1.0 - seconds / needed);
                self.worked += seconds;
                return 0.0;
            }
            seconds -= needed;
            self.worked += needed;
            self.waiting.pop_front();
        }
        seconds
    }
}
