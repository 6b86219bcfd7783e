//! When a request is done. Pure arithmetic on a clock that the caller reads: nothing here waits.
//!
//! Each limit has a virtual clock: the moment up to which its allowance is used. A request moves it on by what the request
//! costs, and is done when all its limits' clocks and its latency have been reached. That is a token bucket whose tokens
//! are counted in time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::limits::{Allowance, Limits, Rate};

/// How far a limit's clock may be behind: what went unused for longer is lost. Without any, the time that a client takes
/// between an answer and its next request would be lost each time. Over T it lets a volume do (T + SLACK) / T of its limit.
const SLACK: u64 = 20_000_000;

const SECOND: u128 = 1_000_000_000;

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the volume.
    Read,
    /// To the volume.
    Write,
}

/// What a request was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// When it is done, in nanoseconds of the caller's clock.
    pub due: u64,
    /// Operations that it counts as.
    pub operations: u64,
    /// How much later than on an idle volume.
    pub throttled: Duration,
}

/// The limits of one volume at work.
#[derive(Debug)]
pub struct Limiter {
    limits: Limits,
    operations: Meters,
    bytes: Meters,
    /// When those at work are done.
    at_work: BinaryHeap<Reverse<u64>>,
}

impl Limiter {
    /// A volume that has been idle, at `now` (nanoseconds of a clock that never goes back).
    pub fn new(limits: Limits, now: u64) -> Self {
        Self {
            limits,
            operations: Meters::new(&limits.operations, now),
            bytes: Meters::new(&limits.bytes, now),
            at_work: BinaryHeap::new(),
        }
    }

    /// Grants a request that arrives at `now`.
    pub fn admit(&mut self, now: u64, direction: Direction, bytes: u64) -> Admission {
        while self.at_work.peek().is_some_and(|done| done.0 <= now) {
            self.at_work.pop();
        }
        let mut begin = now;
        if self.at_work.len() >= self.limits.depth as usize
            && let Some(Reverse(done)) = self.at_work.pop()
        {
            begin = done;
        }
        let operations = self.limits.operations_of(bytes);
        let latency = self.limits.latency.as_nanos() as u64;
        let due = (begin + latency)
            .max(self.operations.charge(begin, direction, operations))
            .max(self.bytes.charge(begin, direction, bytes));
        self.at_work.push(Reverse(due));
        Admission { due, operations, throttled: Duration::from_nanos(due - now - latency) }
    }
}

/// The clocks of one allowance.
#[derive(Debug)]
struct Meters {
    shared: Option<Meter>,
    read: Option<Meter>,
    write: Option<Meter>,
}

impl Meters {
    fn new(allowance: &Allowance, now: u64) -> Self {
        let meter = |rate: Option<Rate>| rate.map(|rate| Meter::new(rate, now));
        Self { shared: meter(allowance.shared), read: meter(allowance.read), write: meter(allowance.write) }
    }

    fn charge(&mut self, now: u64, direction: Direction, amount: u64) -> u64 {
        let own = match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        };
        let mut done = now;
        for meter in [&mut self.shared, own].into_iter().flatten() {
            done = done.max(meter.charge(now, amount));
        }
        done
    }
}

#[derive(Debug)]
struct Meter {
    rate: Rate,
    /// Up to when the allowance is used.
    clock: u64,
    /// Saved credits at `clock`; below zero inside of `charge` only.
    credits: f64,
}

impl Meter {
    fn new(rate: Rate, now: u64) -> Self {
        Self { rate, clock: now, credits: rate.burst.map_or(0.0, |burst| burst.initial as f64) }
    }

    fn charge(&mut self, now: u64, amount: u64) -> u64 {
        let begin = self.clock.max(now.saturating_sub(SLACK));
        let Some(burst) = self.rate.burst else {
            self.clock = begin + span(amount, self.rate.sustained);
            return self.clock;
        };
        let sustained = self.rate.sustained as f64;
        let capacity = burst.capacity as f64;
        let credits = earned(self.credits, sustained, begin - self.clock, capacity);
        // Those that are missing have to be earned first.
        let missing = ((amount as f64 - credits) / sustained * 1e9).max(0.0) as u64;
        let end = begin + span(amount, burst.rate).max(missing);
        self.credits = earned(credits - amount as f64, sustained, end - begin, capacity);
        self.clock = end;
        end
    }
}

fn earned(credits: f64, per_second: f64, nanoseconds: u64, capacity: f64) -> f64 {
    (credits + per_second * nanoseconds as f64 / 1e9).min(capacity)
}

/// What `amount` takes at `rate` per second, in nanoseconds.
fn span(amount: u64, rate: u64) -> u64 {
    (u128::from(amount) * SECOND / u128::from(rate.max(1))) as u64
}

#[cfg(test)]
mod tests;
