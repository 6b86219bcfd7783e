//! What the server's log and views tell of checkpoints where its probes are out of reach.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_postgres::{Client, Version, Writes};

use crate::checkpoint::Options;
use crate::checkpoint::assemble::Building;
use crate::checkpoint::report::{Checkpoint, Line};
use crate::clock::NS_PER_S;
use crate::probes::checkpoint::SecondCount;
use crate::report::{Drops, End, EndReason, Missing, Take};
use crate::server_log::ServerLog;
use crate::server_log::message::Message;
use crate::stop::Stop;
use crate::target::Target;
use crate::{checkpoint_flags, clock, connection, polling, session};
use pgcalm_host::Failure;

/// How often the views are read. Backends report their transactions once a second at most (PGSTAT_MIN_INTERVAL).
const INTERVAL: Duration = Duration::from_secs(1);
/// How often the log is read.
const LOG_INTERVAL: Duration = Duration::from_millis(200);

const TRANSACTIONS: &str = "SELECT sum(xact_commit)::int8, sum(xact_rollback)::int8 FROM pg_stat_database";
/// The control file: changes when a checkpoint is complete.
const LAST_CHECKPOINT: &str = "SELECT redo_lsn::text || checkpoint_lsn::text, \
     extract(epoch FROM clock_timestamp() - checkpoint_time)::float8 FROM pg_control_checkpoint()";

/// Traces by the server's log, or by its views, or both. `reason` is why the probes are out of reach.
///
/// With neither a log that can be read nor --connect nothing is left: [`Failure::Host`] with that reason.
pub(super) fn run(
    target: &Target,
    options: &Options,
    stop: &Stop,
    reason: &str,
    take: Take<'_, Line>,
) -> anyhow::Result<EndReason> {
    let log = ServerLog::open(target);
    let mut client = match &options.connect {
        Some(connect) => Some(connection::connect(target, connect)?),
        None => None,
    };
    let log = match (log, &mut client) {
        (Ok(log), None) => Ok(log),
        // Without these lines the views tell more.
        (Ok(log), Some(client)) => match read_log_checkpoints(client)?.as_str() {
            "on" => Ok(log),
            _ => Err("log_checkpoints is off".to_string()),
        },
        (Err(no_log), Some(_)) => Err(no_log),
        (Err(no_log), None) => {
            anyhow::bail!(Failure::Host(format!(
                "{reason}; and {no_log}; or give --connect, then the server's views tell write and sync time, buffers and transactions"
            )));
        }
    };
    let mut missing = missing(reason, log.as_ref().err().map(String::as_str), client.is_some());
    let mut sources = Vec::new();
    if log.is_ok() {
        sources.push("server log".to_string());
    }
    if client.is_some() {
        sources.push("views".to_string());
    }
    take(Line::Start(session::start_line(target, "checkpoint", sources, false, missing.clone())))?;
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let mut views = match &mut client {
        Some(client) => Some(Views::new(target, options, client)?),
        None => None,
    };
    let mut logged = log.ok().map(Logged::new);
    let mut told = 0;
    let mut next = Instant::now() + INTERVAL;
    let reason = loop {
        let ended = polling::wait(target, stop, LOG_INTERVAL, deadline);
        polling::note_if_stopped(target, &mut missing);
        let complete = logged.as_mut().map(Logged::read);
        let mut ready = Vec::new();
        match (&mut views, &mut client) {
            (Some(views), Some(client)) => {
                views.take_logged(complete);
                let is_due = Instant::now() >= next || ended.is_some();
                // A server that shuts down ends this session first, too.
                let is_answering = ended != Some(EndReason::ServerEnded) && !polling::is_stopped(target);
                if is_due && is_answering {
                    next = Instant::now() + INTERVAL;
                    match views.read(client) {
                        Ok(()) => {}
                        Err(_) if !polling::is_running(target) || client.is_closed() => {
                            ready.extend(views.ended(true));
                            tell(&mut told, options, ready, take)?;
                            break EndReason::ServerEnded;
                        }
                        Err(error) => return Err(error),
                    }
                }
                ready.extend(views.ended(ended.is_some()));
            }
            _ => ready.extend(complete.into_iter().flatten().map(|(checkpoint, ..)| checkpoint)),
        }
        tell(&mut told, options, ready, take)?;
        if options.count.is_some_and(|count| told >= count) {
            break EndReason::Count;
        }
        if let Some(reason) = ended {
            break reason;
        }
    };
    take(Line::End(End {
        time: clock::unix_seconds(clock::monotonic_ns()),
        reason,
        drops: Drops::default(),
        missing,
    }))?;
    Ok(reason)
}

/// Tells of checkpoints, up to --count.
fn tell(told: &mut u64, options: &Options, ready: Vec<Checkpoint>, take: Take<'_, Line>) -> anyhow::Result<()> {
    for checkpoint in ready {
        if options.count.is_some_and(|count| *told >= count) {
            break;
        }
        *told += 1;
        take(Line::Checkpoint(Box::new(checkpoint)))?;
    }
    Ok(())
}

fn read_log_checkpoints(client: &mut Client) -> anyhow::Result<String> {
    let row = client.query_one("SELECT current_setting('log_checkpoints')", &[]).context("read log_checkpoints")?;
    Ok(row.get(0))
}

/// `no_log` is why the log tells nothing, if so.
fn missing(reason: &str, no_log: Option<&str>, is_connected: bool) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut add = |answer: &str, reason: &str| {
        missing.push(Missing { answer: answer.to_string(), reason: reason.to_string() });
    };
    add(
        "begin, clog, subtrans, multixact and buffer scan apart (they are in buffer write), twophase and finish",
        reason,
    );
    add("number of dirty buffers", reason);
    add("times of single buffers, of flush hints, and of each fsync by file", reason);
    match no_log {
        Some(no_log) => add(
            "the total, flags, whether a requested checkpoint was due to WAL, fsync calls and WAL files",
            &format!("{reason}; {no_log}"),
        ),
        None => add("checkpoints of which the log has no line in English (log_checkpoints = off, lc_messages)", reason),
    }
    if is_connected {
        add("exact seconds: views are read once a second, and backends report about as often", reason);
    } else {
        add("transactions", &format!("{reason}; without --connect the database can't be asked"));
    }
    missing
}

/// A checkpoint out of the log, with its start and end, CLOCK_MONOTONIC in ns.
type LoggedCheckpoint = (Checkpoint, u64, u64);

/// Checkpoints as the log tells of them.
struct Logged {
    log: ServerLog,
    number: u64,
    /// Flags of the one under way.
    started: Option<Vec<String>>,
}

impl Logged {
    fn new(mut log: ServerLog) -> Self {
        let started = match log.take_under_way() {
            Some(Message::Start { flags, .. }) => Some(flags),
            _ => None,
        };
        Self { log, number: 0, started }
    }

    /// Those that are complete now. When is exact to the interval in which the log is read.
    fn read(&mut self) -> Vec<LoggedCheckpoint> {
        let mut complete = Vec::new();
        for message in self.log.read() {
            match message {
                Message::Start { flags, .. } => self.started = Some(flags),
                Message::Complete(mut checkpoint) => {
                    self.number += 1;
                    let end_ns = clock::monotonic_ns();
                    let total_s = checkpoint.total_s.unwrap_or(0.0);
                    let start_ns = end_ns.saturating_sub((total_s * NS_PER_S as f64) as u64);
                    checkpoint.number = self.number;
                    checkpoint.time = clock::unix_seconds(start_ns);
                    checkpoint.flags = self.started.take().unwrap_or_default();
                    checkpoint.reason = checkpoint_flags::reason_of_names(&checkpoint.flags).to_string();
                    complete.push((*checkpoint, start_ns, end_ns));
                }
            }
        }
        complete
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    timed: i64,
    write_ms: f64,
    sync_ms: f64,
    buffers: i64,
}

struct Views {
    version: Version,
    around: u64,
    number: u64,
    last_checkpoint: String,
    /// Counters when the last checkpoint was told of.
    counters: Counters,
    transactions: (i64, i64),
    history: Vec<SecondCount>,
    /// Checkpoints come out of the log, and only their counters from here.
    are_logged: bool,
    /// Checkpoints seen to be complete, whose counters come with the next reading.
    complete: Vec<LoggedCheckpoint>,
    waiting: VecDeque<Building>,
}

impl Views {
    fn new(target: &Target, options: &Options, client: &mut Client) -> anyhow::Result<Self> {
        let mut views = Self {
            version: Version::of_major(target.major as i32),
            around: options.around,
            number: 0,
            last_checkpoint: String::new(),
            counters: Counters::default(),
            transactions: (0, 0),
            history: Vec::new(),
            are_logged: false,
            complete: Vec::new(),
            waiting: VecDeque::new(),
        };
        views.counters = views.read_counters(client)?;
        views.transactions = read_transactions(client)?;
        views.last_checkpoint = client.query_one(LAST_CHECKPOINT, &[])?.get(0);
        Ok(views)
    }

    /// What the log tells, if it is read.
    fn take_logged(&mut self, complete: Option<Vec<LoggedCheckpoint>>) {
        self.are_logged = complete.is_some();
        self.complete.extend(complete.into_iter().flatten());
    }

    fn read(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let now = clock::monotonic_ns();
        let transactions = read_transactions(client)?;
        self.history.push(SecondCount {
            second: now / NS_PER_S,
            // After pg_stat_reset they are smaller than before.
            commits: u64::try_from(transactions.0 - self.transactions.0).unwrap_or(0),
            aborts: u64::try_from(transactions.1 - self.transactions.1).unwrap_or(0),
        });
        self.transactions = transactions;
        // The checkpointer reports them right after it has logged, but not before.
        let settled = now.saturating_sub(NS_PER_S / 2);
        let (complete, unsettled): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.complete).into_iter().partition(|(.., end_ns)| *end_ns <= settled);
        self.complete = unsettled;
        if !complete.is_empty() {
            let counters = self.read_counters(client)?;
            // Of several between two readings the counters tell only the sum.
            let is_one = complete.len() == 1 && self.complete.is_empty();
            for (mut checkpoint, start_ns, end_ns) in complete {
                if !self.are_logged {
                    checkpoint = self.checkpoint(counters, start_ns);
                } else if is_one {
                    let written = counters.buffers - self.counters.buffers;
                    checkpoint.buffers.written = u64::try_from(written).ok();
                }
                self.waiting.push_back(Building::known(checkpoint, start_ns, end_ns));
            }
            self.counters = counters;
        }
        if self.are_logged {
            return Ok(());
        }
        let row = client.query_one(LAST_CHECKPOINT, &[])?;
        let last: String = row.get(0);
        if last != self.last_checkpoint {
            let age_s: f64 = row.get(1);
            let start_ns = now.saturating_sub((age_s.max(0.0) * NS_PER_S as f64) as u64);
            self.complete.push((Checkpoint::default(), start_ns, now));
            self.last_checkpoint = last;
        }
        Ok(())
    }

    fn checkpoint(&mut self, counters: Counters, start_ns: u64) -> Checkpoint {
        self.number += 1;
        let mut checkpoint = Checkpoint {
            number: self.number,
            time: clock::unix_seconds(start_ns),
            reason: if counters.timed > self.counters.timed { "time".to_string() } else { "requested".to_string() },
            ..Checkpoint::default()
        };
        let seconds = |now: f64, before: f64| Some(((now - before) / 1000.0).max(0.0));
        checkpoint.phases.buffer_write_s = seconds(counters.write_ms, self.counters.write_ms);
        checkpoint.phases.sync_s = seconds(counters.sync_ms, self.counters.sync_ms);
        // Unlike the log, without SLRU pages.
        checkpoint.buffers.written = u64::try_from(counters.buffers - self.counters.buffers).ok();
        checkpoint
    }

    /// Checkpoints whose seconds after are over, or all.
    fn ended(&mut self, all: bool) -> Vec<Checkpoint> {
        let newest = self.history.last().map_or(0, |count| count.second);
        let mut ended = Vec::new();
        if all && self.are_logged {
            // There will be no reading of their counters.
            for (checkpoint, start_ns, end_ns) in self.complete.drain(..) {
                self.waiting.push_back(Building::known(checkpoint, start_ns, end_ns));
            }
        }
        while let Some(building) = self.waiting.front_mut() {
            let end = building.end_ns.unwrap_or(0) / NS_PER_S;
            if !all && newest < end + self.around {
                break;
            }
            building.set_transactions(&self.history, self.around);
            ended.push(std::mem::take(&mut building.checkpoint));
            self.waiting.pop_front();
        }
        // An hour: longer than a checkpoint usually is, and its beginning is known only at its end.
        let oldest = newest.saturating_sub(3600);
        self.history.retain(|count| count.second >= oldest);
        ended
    }

    fn read_counters(&self, client: &mut Client) -> anyhow::Result<Counters> {
        let writes = Writes::read(client, self.version).context("read the checkpointer's counters")?;
        Ok(Counters {
            timed: writes.checkpoints_timed,
            write_ms: writes.checkpoint_write_ms,
            sync_ms: writes.checkpoint_sync_ms,
            buffers: writes.buffers_checkpoint,
        })
    }
}

fn read_transactions(client: &mut Client) -> anyhow::Result<(i64, i64)> {
    let row = client.query_one(TRANSACTIONS, &[]).context("read the numbers of transactions")?;
    Ok((row.get(0), row.get(1)))
}
