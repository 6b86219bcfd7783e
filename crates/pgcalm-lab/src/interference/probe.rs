//! One operation after another, each of them timed, in a thread of its own.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::stop::Stop;

use crate::background::Background;

/// Ended operations: when, and how long each took.
type Timings = Vec<(Instant, Duration)>;

/// A running probe.
#[derive(Debug)]
pub(super) struct Probe {
    started: Instant,
    thread: Background<anyhow::Result<Timings>>,
}

/// What a probe has seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Operations per second that ended in time.
    pub per_s: f64,
    /// Longest operation, that which ended late included.
    pub max_ms: f64,
}

impl Probe {
    /// Calls `operation` with 0, 1 and so on, with `pause` between, until it is to end.
    pub(super) fn start(pause: Duration, operation: impl FnMut(u64) -> anyhow::Result<()> + Send + 'static) -> Self {
        Self::start_prepared(pause, || Ok(()), operation)
    }

    /// The same with `prepare` before each operation, which is not timed.
    pub(super) fn start_prepared(
        pause: Duration,
        prepare: impl FnMut() -> anyhow::Result<()> + Send + 'static,
        operation: impl FnMut(u64) -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        let started = Instant::now();
        Self { started, thread: Background::start(move |stop| run(pause, prepare, operation, stop)) }
    }

    /// Ends it, once the operation under way has ended; `window` is for how long it counts.
    pub(super) fn finish(self, window: Duration) -> anyhow::Result<Seen> {
        let timings = self.thread.finish().context("a probe has panicked")??;
        Ok(seen(&timings, self.started, window))
    }
}

fn run(
    pause: Duration,
    mut prepare: impl FnMut() -> anyhow::Result<()>,
    mut operation: impl FnMut(u64) -> anyhow::Result<()>,
    stop: &Stop,
) -> anyhow::Result<Timings> {
    let mut timings = Vec::new();
    let mut number = 0;
    while !stop.is_set() {
        prepare().with_context(|| format!("before operation {number} of a probe"))?;
        let started = Instant::now();
        operation(number).with_context(|| format!("operation {number} of a probe"))?;
        timings.push((Instant::now(), started.elapsed()));
        number += 1;
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
    Ok(timings)
}

fn seen(timings: &[(Instant, Duration)], started: Instant, window: Duration) -> Seen {
    let in_time = timings.iter().filter(|(end, _)| end.duration_since(started) <= window).count();
    let max = timings.iter().map(|(_, took)| *took).max();
    Seen { per_s: in_time as f64 / window.as_secs_f64(), max_ms: max.unwrap_or_default().as_secs_f64() * 1e3 }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn what_ends_late_counts_for_the_longest_only() {
        let started = Instant::now();
        let timing = |end: u64, took: u64| (started + Duration::from_secs(end), Duration::from_secs(took));
        let seen = seen(&[timing(1, 1), timing(4, 3), timing(30, 26)], started, Duration::from_secs(10));
        assert_eq!(seen.per_s, 0.2);
        assert_eq!(seen.max_ms, 26_000.0);
    }

    #[test]
    fn an_operation_that_fails_fails_the_probe() {
        let (failing, failed) = mpsc::channel();
        let probe = Probe::start(Duration::ZERO, move |number| match number {
            0 => Ok(()),
            _ => {
                failing.send(())?;
                Err(anyhow!("no"))
            }
        });
        failed.recv().unwrap();
        let error = probe.finish(Duration::from_secs(1)).unwrap_err();
        assert!(format!("{error:#}").contains("operation 1"), "{error:#}");
    }
}
