//! What a failover manager would see: a row that is updated each second on the primary and looked for on the standby.
//!
//! Two threads, since a write may hang for as long as it likes while the standby is looked at. Both are superusers, whom
//! the guard exempts, as the roles of failover managers are.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_postgres::Client;

use crate::background::{Background, sleep_until};
use crate::connection::connect;
use crate::interrupt::Interrupt;
use crate::replica::replication_log::Timeouts;
use crate::replica::report::{Heartbeat, Sample, Silence};
use crate::server::Server;

/// Between beats.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Between looks at the standby.
const LOOK: Duration = Duration::from_millis(100);

/// Makes the row.
pub(super) fn prepare(server: &Server, interrupt: &Interrupt) -> anyhow::Result<()> {
    server.sql("create table heartbeat (written_s float8); insert into heartbeat values (0)", interrupt)?;
    Ok(())
}

/// Times in seconds since the load began.
#[derive(Debug, Default)]
struct Beats {
    /// When the primary confirmed each.
    confirmed: Vec<f64>,
    /// When the standby showed each that it did, and when that was written.
    seen: Vec<(f64, f64)>,
}

/// Beats that are written and looked for.
#[derive(Debug)]
pub(super) struct Pulse {
    started: Instant,
    beats: Arc<Mutex<Beats>>,
    threads: Vec<Background<anyhow::Result<()>>>,
    stopped_s: Option<f64>,
}

impl Pulse {
    /// Starts it. The standby is level with the primary: both count as alive at `started`, from which times are counted.
    pub(super) fn start(started: Instant, primary: &Path, standby: &Path) -> anyhow::Result<Self> {
        let writer = connect(primary)?;
        let reader = connect(standby)?;
        let mut pulse = Self { started, beats: Arc::default(), threads: Vec::new(), stopped_s: None };
        pulse.spawn(writer, INTERVAL, write);
        pulse.spawn(reader, LOOK, look);
        Ok(pulse)
    }

    /// Calls `turn` each `interval` in a thread.
    fn spawn(
        &mut self,
        mut client: Client,
        interval: Duration,
        turn: fn(&mut Client, Instant, &Mutex<Beats>) -> anyhow::Result<()>,
    ) {
        let started = self.started;
        let beats = Arc::clone(&self.beats);
        let thread = Background::start(move |stop| {
            // By the statement's own commit, whatever the load's is: a manager wants to know that the disk answers.
            client.batch_execute("set synchronous_commit = on")?;
            while !stop.is_set() {
                let next = Instant::now() + interval;
                turn(&mut client, started, &beats)?;
                sleep_until(next, stop);
            }
            Ok(())
        });
        // When the run has failed its servers end, and with them the threads.
        self.threads.push(thread.with_patience(Duration::ZERO));
    }

    /// What comes after this moment counts no more. Waits for nothing: a beat may hang until the caps are lifted.
    pub(super) fn stop(&mut self) {
        self.threads.iter().for_each(Background::tell);
        self.stopped_s = Some(self.started.elapsed().as_secs_f64());
    }

    /// Waits for the threads and says what a failover manager would have made of it.
    pub(super) fn finish(
        mut self,
        patience: Duration,
        samples: &[Sample],
        timeouts: Timeouts,
    ) -> anyhow::Result<Heartbeat> {
        self.threads.iter().for_each(Background::tell);
        let end = self.stopped_s.unwrap_or_else(|| self.started.elapsed().as_secs_f64());
        for thread in self.threads.drain(..) {
            thread.finish().context("a thread of the heartbeat panicked")?.context("heartbeat")?;
        }
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(outcome(&beats, end, patience.as_secs_f64(), samples, timeouts))
    }
}

fn write(client: &mut Client, started: Instant, beats: &Mutex<Beats>) -> anyhow::Result<()> {
    let now = started.elapsed().as_secs_f64();
    client.execute("update heartbeat set written_s = $1", &[&now])?;
    let confirmed = started.elapsed().as_secs_f64();
    let mut beats = beats.lock().unwrap_or_else(PoisonError::into_inner);
    beats.confirmed.push(confirmed);
    Ok(())
}

fn look(client: &mut Client, started: Instant, beats: &Mutex<Beats>) -> anyhow::Result<()> {
    let written: f64 = match client.query_one("select written_s from heartbeat", &[]) {
        Ok(row) => row.try_get(0)?,
        // A conflict with recovery: the next look tells.
        Err(error) if error.as_db_error().is_some() && !client.is_closed() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let now = started.elapsed().as_secs_f64();
    let mut beats = beats.lock().unwrap_or_else(PoisonError::into_inner);
    let last = beats.seen.last().map_or(0.0, |(_, written)| *written);
    if written > last {
        beats.seen.push((now, written));
    }
    Ok(())
}

fn outcome(beats: &Beats, end: f64, patience: f64, samples: &[Sample], timeouts: Timeouts) -> Heartbeat {
    let before_end = |time: &f64| *time <= end;
    let confirmed: Vec<f64> = beats.confirmed.iter().copied().filter(before_end).collect();
    let seen: Vec<(f64, f64)> = beats.seen.iter().copied().filter(|(time, _)| before_end(time)).collect();
    let seen_at: Vec<f64> = seen.iter().map(|(time, _)| *time).collect();
    let silence = |stretches: Vec<Stretch>| {
        let mut silence = longest(&stretches, patience);
        silence.behind_bytes = silence.failover_s.and_then(|time| behind(samples, time));
        silence
    };
    Heartbeat {
        patience_s: patience,
        written: confirmed.len() as u32,
        primary: silence(gaps(&confirmed, end)),
        standby: silence(gaps(&seen_at, end)),
        age: silence(ages(&seen, end)),
        sender_timeouts: timeouts.of_sender,
        receiver_timeouts: timeouts.of_receiver,
    }
}

/// A time in which what a manager looks at grows older: at `from` it is of `since`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    since: f64,
    from: f64,
    until: f64,
}

/// From one time to the next, beginning with 0 and ending with `end`.
fn gaps(times: &[f64], end: f64) -> Vec<Stretch> {
    let begins = std::iter::once(0.0).chain(times.iter().copied());
    let ends = times.iter().copied().chain([end]);
    begins.zip(ends).map(|(since, until)| Stretch { since, from: since, until }).collect()
}

/// From one sight of a heartbeat to the next; it was written before it was seen.
fn ages(seen: &[(f64, f64)], end: f64) -> Vec<Stretch> {
    let begins = std::iter::once((0.0, 0.0)).chain(seen.iter().copied());
    let ends = seen.iter().map(|(time, _)| *time).chain([end]);
    begins.zip(ends).map(|((from, since), until)| Stretch { since, from, until }).collect()
}

/// The greatest age at the end of any stretch, and when patience ends first.
fn longest(stretches: &[Stretch], patience: f64) -> Silence {
    let mut silence = Silence::default();
    for stretch in stretches {
        let age = stretch.until - stretch.since;
        if age > silence.longest_s {
            silence.longest_s = age;
            silence.ended_s = stretch.until;
        }
        if age > patience && silence.failover_s.is_none() {
            silence.failover_s = Some((stretch.since + patience).max(stretch.from));
        }
    }
    silence
}

/// WAL that a standby lacks on its own disk, by the last sample until `time`; that it has not replayed while it is not
/// connected.
fn behind(samples: &[Sample], time: f64) -> Option<u64> {
    samples
        .iter()
        .filter(|sample| sample.time_s <= time)
        .filter_map(|sample| sample.flush.bytes.or(sample.replay.bytes))
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::report::Lag;

    fn judged(confirmed: &[f64], seen: &[(f64, f64)], end: f64) -> Heartbeat {
        let beats = Beats { confirmed: confirmed.to_vec(), seen: seen.to_vec() };
        let sample =
            |time_s: f64, bytes| Sample { time_s, flush: Lag { bytes: Some(bytes), s: None }, ..Sample::default() };
        let samples = [sample(0.0, 1), sample(4.0, 2), sample(8.0, 3)];
        outcome(&beats, end, 3.0, &samples, Timeouts::default())
    }

    #[test]
    fn patience_ends_by_the_first_silence_that_is_longer_and_the_longest_is_told() {
        let heartbeat = judged(&[1.0, 5.0, 6.0, 12.0], &[], 13.0);
        assert_eq!(heartbeat.written, 4);
        assert_eq!(heartbeat.primary.longest_s, 6.0);
        assert_eq!(heartbeat.primary.ended_s, 12.0);
        // Between the first and the second beat; the sample at 4.0 is the last before.
        assert_eq!(heartbeat.primary.failover_s, Some(4.0));
        assert_eq!(heartbeat.primary.behind_bytes, Some(2));
        // Nothing was ever seen on the standby.
        assert_eq!(heartbeat.standby.longest_s, 13.0);
        assert_eq!(heartbeat.standby.failover_s, Some(3.0));
    }

    #[test]
    fn a_silence_as_long_as_patience_is_none_and_one_at_the_end_counts() {
        let heartbeat = judged(&[3.0, 6.0], &[(3.0, 3.0), (6.0, 6.0)], 9.0);
        assert_eq!(heartbeat.primary.failover_s, None);
        assert_eq!(heartbeat.age.failover_s, None);
        let heartbeat = judged(&[3.0, 6.0], &[], 9.5);
        assert_eq!(heartbeat.primary.failover_s, Some(9.0));
    }

    #[test]
    fn beats_that_come_one_by_one_may_be_old_nevertheless() {
        let seen = [(1.0, 0.9), (2.0, 1.0), (3.0, 1.1), (4.5, 1.2), (5.0, 1.3)];
        let heartbeat = judged(&[], &seen, 5.0);
        assert_eq!(heartbeat.standby.longest_s, 1.5);
        assert_eq!(heartbeat.standby.failover_s, None);
        // Beat 1.1 is shown until 4.5: 3.4 old; 3 at 4.1.
        assert!((heartbeat.age.failover_s.unwrap() - 4.1).abs() < 1e-9);
        assert!((heartbeat.age.longest_s - 3.8).abs() < 1e-9);
    }

    #[test]
    fn what_is_seen_already_too_old_ends_patience_at_once() {
        let heartbeat = judged(&[], &[(2.0, 1.5), (4.0, 0.5)], 4.2);
        // Until 4.0 what is shown is 2.5 old, then 3.5.
        assert_eq!(heartbeat.age.failover_s, Some(4.0));
    }

    #[test]
    fn beats_after_the_end_do_not_count() {
        let heartbeat = judged(&[1.0, 9.0], &[], 2.0);
        assert_eq!(heartbeat.written, 1);
        assert_eq!(heartbeat.primary.longest_s, 1.0);
    }
}
