//! What has been put off when the load ends, and how long it takes to be written.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::meminfo::MemInfo;

use crate::contest::report::{Backlog, BacklogAt};
use crate::control_group::ControlGroup;
use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::{memory, tool};

const MIB: f64 = (1 << 20) as f64;

/// Between the two readings, unless the run is short.
const LAST_MINUTE: Duration = Duration::from_secs(60);

/// Share of what was written by which the backlog may change in a steady state.
const STEADY_SHARE: f64 = 0.1;

/// Dirty + Writeback of a host whose server has nothing left to be written: its other programs write, too.
const DRAINED_MIB: f64 = 16.0;

/// A smaller fall is not one.
const FALL_MIB: f64 = 1.0;

/// How long Dirty + Writeback may not fall before it is taken to be at its lowest.
const SETTLED: Duration = Duration::from_secs(5);

/// How long the server may take to tell its dirty buffers at the end: in a stall it may not answer at all.
const ANSWER: Duration = Duration::from_secs(5);

/// Watches the backlog of one run.
#[derive(Debug)]
pub(crate) struct BacklogWatch<'a> {
    server: &'a Server,
    root: &'a HostRoot,
    /// Name of the data device.
    device: &'a str,
    /// The group that plays the host's memory.
    memory: Option<&'a ControlGroup>,
    interrupt: &'a Interrupt,
    /// Length of the run.
    load: Duration,
    /// Asks for the bytes of dirty shared buffers, or why it can't be asked.
    query: Result<&'static str, String>,
    earlier: Option<Reading>,
}

/// A reading of the backlog; the server may still be asked.
#[derive(Debug)]
pub(crate) struct Reading {
    at: Instant,
    kernel_mib: f64,
    /// Written to the device up to then.
    written_bytes: u64,
    buffers: Option<Question>,
}

/// psql with a question that is not waited for; ended when dropped.
#[derive(Debug)]
struct Question(Child);

/// What came of the drain.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Drain {
    seconds: Option<f64>,
    left_mib: Option<f64>,
}

impl<'a> BacklogWatch<'a> {
    /// Makes the server ready to be asked. To be called before the caps are there.
    pub(crate) fn prepare(
        server: &'a Server,
        root: &'a HostRoot,
        device: &'a str,
        memory: Option<&'a ControlGroup>,
        load: Duration,
        interrupt: &'a Interrupt,
    ) -> anyhow::Result<Self> {
        Ok(Self { server, root, device, memory, interrupt, load, query: query(server, interrupt)?, earlier: None })
    }

    /// Takes the first reading once it is due, `elapsed` after the beginning of the load.
    pub(crate) fn poll(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        if self.earlier.is_none() && elapsed + last_minute(self.load) >= self.load {
            self.earlier = Some(self.reading()?);
        }
        Ok(())
    }

    /// Takes the second reading and, within `bound` from the end of the load, waits until the backlog is written. `capped` tells
    /// whether the caps are still there: a drain without them says nothing.
    pub(crate) fn finish(
        mut self,
        load_ended: Instant,
        bound: Option<Duration>,
        capped: bool,
    ) -> anyhow::Result<Option<Backlog>> {
        let mut end = self.reading()?;
        let Some(mut earlier) = self.earlier.take() else { return Ok(None) };
        let mut unknown = self.query.as_ref().err().cloned();
        let mut at = |reading: &mut Reading| -> anyhow::Result<BacklogAt> {
            let answer = reading.answer(self.interrupt)?;
            if let Err(reason) = &answer {
                unknown.get_or_insert_with(|| reason.clone());
            }
            Ok(BacklogAt { dirty_shared_buffers_mib: answer.ok().flatten(), dirty_kernel_mib: reading.kernel_mib })
        };
        let (before, after) = (at(&mut earlier)?, at(&mut end)?);
        let written = end.written_bytes.saturating_sub(earlier.written_bytes) as f64 / MIB;
        let drain = match bound {
            Some(bound) if capped => self.drain(load_ended, bound)?,
            // Clients that were held longer than that: nothing was drained within it.
            Some(_) | None => Some(Drain::default()),
        };
        Ok(Some(Backlog {
            steady_state: steady(&before, &after, written),
            minute_before_end: before,
            end: after,
            last_minute_s: (end.at - earlier.at).as_secs_f64(),
            written_last_minute_mib: written,
            drain_s: drain.and_then(|drain| drain.seconds),
            drain_bound_s: bound.filter(|_| drain.is_some()).map(|bound| bound.as_secs_f64()),
            left_after_drain_mib: drain.and_then(|drain| drain.left_mib),
            shared_buffers_unknown: unknown,
        }))
    }

    /// Reads it; the server is asked, and not waited for.
    pub(crate) fn reading(&self) -> anyhow::Result<Reading> {
        let stat = DeviceStat::read(self.root, self.device)?;
        Ok(Reading {
            at: Instant::now(),
            kernel_mib: self.kernel_mib()?,
            written_bytes: stat.write_bytes,
            buffers: match self.query {
                Ok(query) => Some(Question::ask(self.server, query)?),
                Err(_) => None,
            },
        })
    }

    /// Where the server has the page cache for itself, without what other programs of the host write.
    fn kernel_mib(&self) -> anyhow::Result<f64> {
        if let Some(memory) = self.memory {
            return Ok(memory::dirty_bytes(memory)? as f64 / MIB);
        }
        let memory = MemInfo::read(self.root)?;
        Ok((memory.dirty_kib + memory.writeback_kib) as f64 / 1024.0)
    }

    /// `None` if the server refused the checkpoint.
    fn drain(&self, load_ended: Instant, bound: Duration) -> anyhow::Result<Option<Drain>> {
        let mut checkpoint = Some(Question::ask(self.server, "checkpoint")?);
        let mut level = Level::default();
        loop {
            if let Some(question) = &mut checkpoint
                && let Some(answer) = question.poll()?
            {
                if answer.is_err() {
                    return Ok(None);
                }
                checkpoint = None;
            }
            let (elapsed, left_mib) = (load_ended.elapsed(), self.kernel_mib()?);
            if checkpoint.is_none()
                && let Some((drained, left_mib)) = level.settled(elapsed, left_mib)
            {
                return Ok(Some(Drain {
                    seconds: Some(drained.as_secs_f64()).filter(|_| drained <= bound),
                    left_mib: Some(left_mib),
                }));
            }
            // A level that was reached within the bound is known only a while later.
            let last = if checkpoint.is_some() { bound } else { bound + SETTLED };
            if elapsed > last {
                return Ok(Some(Drain { seconds: None, left_mib: Some(left_mib) }));
            }
            self.interrupt.sleep(Duration::from_millis(100))?;
        }
    }
}

/// What to ask for the bytes of dirty shared buffers, or why nothing can be.
fn query(server: &Server, interrupt: &Interrupt) -> anyhow::Result<Result<&'static str, String>> {
    let available =
        server.sql("select count(*) from pg_available_extensions where name = 'pg_buffercache'", interrupt)?;
    if available.trim() == "0" {
        return Ok(Err("extension pg_buffercache is not installed with this server".to_string()));
    }
    server.sql("create extension if not exists pg_buffercache", interrupt)?;
    // From PostgreSQL 16 on there is a way that makes no row of each buffer.
    let summary = server.sql("select to_regprocedure('pg_buffercache_summary()') is not null", interrupt)?;
    Ok(Ok(if summary.trim() == "t" {
        "select buffers_dirty * current_setting('block_size')::bigint from pg_buffercache_summary()"
    } else {
        "select count(*) filter (where isdirty) * current_setting('block_size')::bigint from pg_buffercache"
    }))
}

/// How long before the end the first reading is taken.
fn last_minute(load: Duration) -> Duration {
    LAST_MINUTE.min(load / 2)
}

fn steady(before: &BacklogAt, after: &BacklogAt, written_mib: f64) -> bool {
    let buffers = before
        .dirty_shared_buffers_mib
        .zip(after.dirty_shared_buffers_mib)
        .map_or(0.0, |(before, after)| after - before);
    let change = buffers + after.dirty_kernel_mib - before.dirty_kernel_mib;
    change.abs() <= STEADY_SHARE * written_mib
}

/// Finds out when an amount that falls is at its lowest.
#[derive(Debug, Default)]
struct Level {
    lowest: Option<(Duration, f64)>,
}

impl Level {
    /// When it was reached, and the amount, once that is known.
    fn settled(&mut self, at: Duration, left_mib: f64) -> Option<(Duration, f64)> {
        if left_mib < DRAINED_MIB {
            return Some((at, left_mib));
        }
        match self.lowest {
            Some((since, lowest)) if left_mib > lowest - FALL_MIB => (at - since >= SETTLED).then_some((since, lowest)),
            _ => {
                self.lowest = Some((at, left_mib));
                None
            }
        }
    }
}

impl Reading {
    /// The backlog, once the server has answered or has had the time for it; without shared buffers if it did not.
    pub(crate) fn poll(&mut self) -> anyhow::Result<Option<BacklogAt>> {
        let answer = match &mut self.buffers {
            None => None,
            Some(question) => match question.poll()? {
                Some(answer) => answer.ok().and_then(|text| text.trim().parse::<f64>().ok()),
                None if self.at.elapsed() < ANSWER => return Ok(None),
                None => None,
            },
        };
        Ok(Some(BacklogAt {
            dirty_shared_buffers_mib: answer.map(|bytes| bytes / MIB),
            dirty_kernel_mib: self.kernel_mib,
        }))
    }

    /// MiB of dirty shared buffers, or why they are not known; `Ok(None)` if they were not asked for.
    fn answer(&mut self, interrupt: &Interrupt) -> anyhow::Result<Result<Option<f64>, String>> {
        let Some(question) = &mut self.buffers else { return Ok(Ok(None)) };
        let end = Instant::now() + ANSWER;
        loop {
            if let Some(answer) = question.poll()? {
                return Ok(answer.and_then(|text| {
                    text.trim()
                        .parse::<f64>()
                        .map(|bytes| Some(bytes / MIB))
                        .map_err(|_| format!("pg_buffercache answered `{}`", text.trim()))
                }));
            }
            if Instant::now() > end {
                return Ok(Err(format!("the server did not answer within {} s", ANSWER.as_secs())));
            }
            interrupt.sleep(Duration::from_millis(20))?;
        }
    }
}

impl Question {
    fn ask(server: &Server, sql: &str) -> anyhow::Result<Self> {
        let mut command = server.psql();
        command.args(["-c", sql]).stdout(Stdio::piped()).stderr(Stdio::piped());
        tool::spawn(&mut command).map(Self)
    }

    /// The answer, or what psql complained of, once it has ended. Both are lines that fit into a pipe.
    fn poll(&mut self) -> anyhow::Result<Option<Result<String, String>>> {
        let Some(status) = self.0.try_wait()? else { return Ok(None) };
        let (mut answer, mut complaint) = (String::new(), String::new());
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut answer).context("read psql")?;
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut complaint).context("read psql")?;
        }
        Ok(Some(if status.success() { Ok(answer) } else { Err(tool::last_line(&complaint).to_string()) }))
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // It has ended, or nobody waits for it any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(buffers: Option<f64>, kernel: f64) -> BacklogAt {
        BacklogAt { dirty_shared_buffers_mib: buffers, dirty_kernel_mib: kernel }
    }

    #[test]
    fn a_backlog_that_moves_from_the_kernel_to_the_buffers_does_not_grow() {
        assert!(steady(&at(Some(100.0), 900.0), &at(Some(600.0), 400.0), 10.0));
    }

    #[test]
    fn a_tenth_of_what_was_written_is_the_limit_either_way() {
        let before = at(Some(0.0), 500.0);
        assert!(steady(&before, &at(Some(0.0), 600.0), 1000.0));
        assert!(!steady(&before, &at(Some(0.0), 601.0), 1000.0));
        assert!(!steady(&before, &at(Some(0.0), 399.0), 1000.0));
        // The buffers of one reading alone would look like a change.
        assert!(steady(&before, &at(None, 500.0), 1000.0));
    }

    #[test]
    fn a_short_run_has_a_short_last_minute() {
        assert_eq!(last_minute(Duration::from_secs(600)), Duration::from_secs(60));
        assert_eq!(last_minute(Duration::from_secs(6)), Duration::from_secs(3));
    }

    #[test]
    fn drained_is_when_little_is_left() {
        let mut level = Level::default();
        let second = Duration::from_secs;
        assert_eq!(level.settled(second(1), 400.0), None);
        assert_eq!(level.settled(second(2), 15.9), Some((second(2), 15.9)));
    }

    #[test]
    fn what_no_longer_falls_was_drained_when_it_stopped() {
        let mut level = Level::default();
        let second = Duration::from_secs;
        assert_eq!(level.settled(second(1), 400.0), None);
        assert_eq!(level.settled(second(4), 300.0), None);
        // What others write makes it rise and fall.
        assert_eq!(level.settled(second(8), 300.5), None);
        assert_eq!(level.settled(second(9), 299.5), Some((second(4), 300.0)));
    }
}
