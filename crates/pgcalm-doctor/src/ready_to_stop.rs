//! Has written ahead what a fast stop would have to write, until that would be short.
//!
//! What does it is a spread checkpoint, which writes as slowly as those that come by time: the load feels no more of it than of those,
//! and none is done at once. `CHECKPOINT (MODE SPREAD)` asks for one since 19. Before, `pg_backup_start(…, fast => false)` does, which
//! begins a base backup: that belongs to its session, writes no file, and is given up when the session ends, with a WARNING in the
//! server's log. It switches to a new WAL segment, and holds full_page_writes on meanwhile.

use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::{Failure, HostRoot, Unknown};
use pgcalm_postgres::estimate::{Basis, Pending};
use pgcalm_postgres::{Caller, Client, DefaultUser, Session, Version, Wanted, with_cause};
use postgres::error::SqlState;
use serde::{Deserialize, Serialize};

use crate::collect::amounts::Amounts;
use crate::collect::{self, host};
use crate::{estimate, words};

/// Between looks.
const LOOK: Duration = Duration::from_secs(1);
/// And so many times what one took.
const LOOK_PART: u32 = 20;
/// Between lines of progress.
const SAY: Duration = Duration::from_secs(2);
/// After a checkpoint that did nothing.
const SKIPPED: Duration = Duration::from_secs(10);

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which server, and the caps that are known of its volume.
    pub collect: collect::Options,
    /// How long a stop may take.
    pub within: Duration,
    /// How long to work for it.
    pub timeout: Duration,
}

/// How far it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Whether a fast stop would take no longer than `within_seconds`.
    pub ready: bool,
    /// What it may take.
    pub within_seconds: f64,
    /// What it would take now.
    pub stop_seconds: f64,
    /// How that was come by: `measured` by pg_calm, `from caps` with each page an operation, or `upper bound` with all shared buffers dirty.
    pub basis: String,
    /// What it would have taken at first.
    pub first_stop_seconds: f64,
    /// Dirty shared buffers; null if nobody counts them.
    pub dirty_buffers: Option<u64>,
    /// Page cache that waits to be written, of others on the host, too. When a checkpoint that was asked for has ended, it is at most what
    /// others than the checkpointer wrote meanwhile. Of a server whose host is not seen it is that alone, else null, and then it is not
    /// ready; it stays null since PostgreSQL 17 in recovery and while a transaction is open for over five seconds, whose writes are not
    /// told. `measured` does not need it.
    pub unflushed_bytes: Option<u64>,
    /// Spread checkpoints that were asked for and have ended.
    pub checkpoints: u32,
    /// Time that went by.
    pub waited_seconds: f64,
}

impl Report {
    /// In a sentence without its end.
    pub fn text(&self) -> String {
        let dirty = self.dirty_buffers.map_or("unknown".to_string(), |buffers| buffers.to_string());
        // pg_calm knows what is the server's own of the page cache, and has it in its figure.
        let unflushed = match self.unflushed_bytes {
            _ if self.basis == Basis::Measured.name() => String::new(),
            Some(bytes) => format!(", {} unflushed", words::size(bytes)),
            None => ", unflushed unknown".to_string(),
        };
        format!(
            "a fast stop would take {} ({}): dirty buffers {dirty}{unflushed}",
            words::time(self.stop_seconds),
            self.basis
        )
    }
}

/// Works until a stop would be short, or the time is over; says each two seconds how far it is. A server that could not be asked, and
/// a volume of which no cap is known, are errors.
pub fn run(
    root: &HostRoot,
    options: &Options,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&Report),
) -> anyhow::Result<Report> {
    let began = Instant::now();
    let mut look = Look::new(root, options)?;
    let mut report = Report { within_seconds: options.within.as_secs_f64(), ..Report::default() };
    look.fill(&mut report)?;
    report.first_stop_seconds = report.stop_seconds;
    let mut said = began;
    let mut flush: Option<Flush> = None;
    let mut took = Duration::ZERO;
    while !report.ready && began.elapsed() < options.timeout {
        if report.basis == Basis::UpperBound.name() && report.stop_seconds > report.within_seconds {
            anyhow::bail!(Failure::Host(
                "how many shared buffers are dirty is not known: CREATE EXTENSION pg_buffercache in the database that is connected to, and \
                 a role that is a member of pg_monitor; or pg_calm"
                    .to_string(),
            ));
        }
        match flush.take() {
            Some(done) if done.thread.is_finished() => {
                let is_told = done.is_told;
                let before = done.ended()?;
                report.checkpoints += 1;
                look.is_synced(before, is_told)?;
                look.fill(&mut report)?;
                if report.ready {
                    break;
                }
            }
            Some(running) => flush = Some(running),
            None if look.rests_until.is_some_and(|until| Instant::now() < until) => {}
            None => flush = Some(look.flush(options.timeout.saturating_sub(began.elapsed()))?),
        }
        if said.elapsed() >= SAY {
            say(&report);
            said = Instant::now();
        }
        // What a look costs a server without a summary of its buffers is a small part of the time.
        let wait = LOOK.max(took * LOOK_PART).min(options.timeout.saturating_sub(began.elapsed()));
        let slept = Instant::now();
        while slept.elapsed() < wait && !stop() {
            thread::sleep(LOOK.min(wait.saturating_sub(slept.elapsed())));
        }
        if stop() {
            look.cancel(flush.as_ref());
            return Err(Failure::Interrupted("a checkpoint that has begun goes on").into());
        }
        let before = Instant::now();
        look.again()?;
        took = before.elapsed();
        if let Some(flush) = &mut flush {
            flush.is_told &= !look.amounts.writes_are_late;
        }
        look.fill(&mut report)?;
        report.waited_seconds = began.elapsed().as_secs_f64();
    }
    look.cancel(flush.as_ref());
    report.waited_seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// Pages that others than the checkpointer wrote; none if that is not told, or statistics were reset.
fn written_since(before: &Amounts, now: &Amounts) -> Option<u64> {
    now.other_writes.checked_sub(before.other_writes).filter(|_| !now.writes_are_late)
}

/// The server from look to look.
struct Look<'a> {
    root: &'a HostRoot,
    options: &'a Options,
    client: Client,
    version: Version,
    pending: Pending,
    amounts: Amounts,
    /// Whether the host's page cache is this server's.
    is_local: bool,
    /// Page cache that waits to be written, if anything tells.
    unflushed: Option<u64>,
    /// Until when another checkpoint would be as useless as the last one was.
    rests_until: Option<Instant>,
}

impl<'a> Look<'a> {
    fn new(root: &'a HostRoot, options: &'a Options) -> anyhow::Result<Self> {
        let (facts, connection) = collect::collect(root, &options.collect)?.connected()?;
        let told = |why: Unknown| Failure::Host(why.unknown);
        let pending = estimate::pending_with(&facts, &options.collect).map_err(told)?;
        let mut client = connection.client;
        let version = Version::read(&mut client)?;
        let amounts = Amounts::read(&mut client, version).context("what a stop would have to write")?;
        let is_local = facts.host.is_some();
        let mut look =
            Self { root, options, client, version, pending, amounts, is_local, unflushed: None, rests_until: None };
        look.count_unflushed(None);
        Ok(look)
    }

    fn again(&mut self) -> anyhow::Result<()> {
        self.amounts = Amounts::read(&mut self.client, self.version).context("what a stop would have to write")?;
        self.pending.told_seconds = self.amounts.stop_seconds;
        self.pending.dirty_buffers = self.amounts.dirty_buffers;
        self.count_unflushed(None);
        Ok(())
    }

    /// The group of a memory limit has pages that others brought in charged to them, such as a restore of the cache: all of the host's
    /// count, unless it is known that there is less.
    fn count_unflushed(&mut self, at_most: Option<u64>) {
        let seen = host::unflushed(self.root, None).filter(|_| self.is_local);
        self.unflushed = seen.into_iter().chain(at_most).min();
        self.pending.unflushed_bytes = self.unflushed.unwrap_or(0);
    }

    fn fill(&self, report: &mut Report) -> anyhow::Result<()> {
        let Some((seconds, basis)) = self.pending.stop() else {
            anyhow::bail!(Failure::Usage(
                "how fast the volume writes is not known, no cap can be seen: give --iops or --bandwidth".to_string(),
            ));
        };
        report.stop_seconds = seconds;
        report.basis = basis.name().to_string();
        let is_known = basis == Basis::Measured || self.unflushed.is_some();
        report.ready = is_known && seconds <= report.within_seconds;
        report.dirty_buffers = self.pending.dirty_buffers;
        report.unflushed_bytes = self.unflushed;
        Ok(())
    }

    /// Asks for a spread checkpoint, in a session of its own, which waits for its end.
    fn flush(&mut self, patience: Duration) -> anyhow::Result<Flush> {
        let caller = Caller {
            application_name: "pgcalm ready-to-stop",
            user: DefaultUser::OperatingSystem,
            connect_timeout: Duration::from_secs(10),
            gives_up: true,
            session: Some(Session {
                // Whoever waits is cancelled before; this is for the case that this program is killed.
                statement_timeout: patience + Duration::from_secs(10),
                lock_timeout: Duration::from_secs(5),
            }),
        };
        let wanted = Wanted {
            connect: self.options.collect.connect.as_deref(),
            instance: self.options.collect.instance.as_deref(),
        };
        let mut client = wanted.address(self.root, &caller)?.connect()?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let sql = spread_checkpoint(self.version);
        let thread = thread::Builder::new()
            .name("pgcalm checkpoint".to_string())
            .spawn(move || client.batch_execute(sql))
            .context("start a thread")?;
        Ok(Flush { thread, pid, before: self.amounts, is_told: !self.amounts.writes_are_late })
    }

    /// When a checkpoint of ours has ended, what others have written since it was asked for is all that can be unflushed, whatever others
    /// on the host have. It is so at that moment only: a later checkpoint, and before 16 what backends write, is told when the
    /// checkpointer has come to it (`pgstat_report_checkpointer`).
    ///
    /// A standby skips a restartpoint if it has replayed no checkpoint since the last one (`CreateRestartPoint`, xlog.c), and the caller
    /// hears nothing of it: then nothing is synced.
    fn is_synced(&mut self, before: Amounts, is_told: bool) -> anyhow::Result<()> {
        self.again()?;
        if before.restart_point.is_some() && before.restart_point == self.amounts.restart_point {
            self.rests_until = Some(Instant::now() + SKIPPED);
            return Ok(());
        }
        let pages = written_since(&before, &self.amounts).filter(|_| is_told);
        self.count_unflushed(pages.map(|pages| pages * self.pending.block_bytes));
        Ok(())
    }

    /// Nobody waits for the checkpoint any more; it goes on, and a stop makes it fast.
    fn cancel(&mut self, flush: Option<&Flush>) {
        if let Some(flush) = flush {
            let _ = self.client.execute("SELECT pg_cancel_backend($1)", &[&flush.pid]);
        }
    }
}

fn spread_checkpoint(version: Version) -> &'static str {
    match version.major() {
        ..=18 => "SELECT pg_backup_start('pgcalm ready-to-stop', false)",
        19.. => "CHECKPOINT (MODE SPREAD, FLUSH_UNLOGGED TRUE)",
    }
}

/// A checkpoint that is under way.
struct Flush {
    thread: JoinHandle<Result<(), postgres::Error>>,
    /// Of the session that waits for it.
    pid: i32,
    before: Amounts,
    /// Whether all that others wrote meanwhile is told: an index that was built is not, since 17 (bulk_write.c).
    is_told: bool,
}

impl Flush {
    /// What came of it; what was written before it was asked for.
    fn ended(self) -> anyhow::Result<Amounts> {
        let result = self.thread.join().map_err(|_| anyhow::anyhow!("the thread that asks for a checkpoint ended"))?;
        match result {
            Ok(()) => Ok(self.before),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Err(Failure::Host(format!(
                "a spread checkpoint: {}; before PostgreSQL 19 GRANT EXECUTE ON FUNCTION pg_backup_start TO the role, since 19 \
                 GRANT pg_checkpoint; or connect as a superuser",
                with_cause(&error)
            ))
            .into()),
            Err(error) => Err(anyhow::Error::from(error).context("a spread checkpoint")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_known_while_it_is_told() {
        let before = Amounts { other_writes: 100, ..Amounts::default() };
        let now = Amounts { other_writes: 130, ..Amounts::default() };
        assert_eq!(written_since(&before, &now), Some(30));
        assert_eq!(written_since(&before, &Amounts { writes_are_late: true, ..now }), None);
        // Statistics were reset.
        assert_eq!(written_since(&now, &before), None);
    }
}
