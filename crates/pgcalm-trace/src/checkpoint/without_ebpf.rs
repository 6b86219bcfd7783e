//! What the server's own views tell of checkpoints where its probes are out of reach.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use pgcalm_report::trace::Drops;
use pgcalm_report::trace::End;
use pgcalm_report::trace::EndReason;
use pgcalm_report::trace::Missing;
use pgcalm_report::trace::checkpoint::Checkpoint;
use pgcalm_report::trace::checkpoint::Line;
use postgres::Client;
use postgres::NoTls;

use crate::TraceError;
use crate::checkpoint::Options;
use crate::checkpoint::assemble::Building;
use crate::clock;
use crate::clock::NS_PER_S;
use crate::connection;
use crate::polling;
use crate::probes::checkpoint::SecondCount;
use crate::session;
use crate::stop::Stop;
use crate::target::Target;

/// How often the views are read. Backends report their transactions once a second at most (PGSTAT_MIN_INTERVAL).
const INTERVAL: Duration = Duration::from_secs(1);

/// PostgreSQL 17 moved the checkpointer's counters.
const COUNTERS_17: &str = "SELECT num_timed, num_requested, write_time, sync_time, buffers_written FROM pg_stat_checkpointer";
const COUNTERS_16: &str = "SELECT checkpoints_timed, checkpoints_req, checkpoint_write_time, checkpoint_sync_time, \
     buffers_checkpoint FROM pg_stat_bgwriter";
const TRANSACTIONS: &str =
    "SELECT sum(xact_commit)::int8, sum(xact_rollback)::int8 FROM pg_stat_database";
/// The control file: changes when a checkpoint is complete.
const LAST_CHECKPOINT: &str = "SELECT redo_lsn::text || checkpoint_lsn::text, \
     extract(epoch FROM clock_timestamp() - checkpoint_time)::float8 FROM pg_control_checkpoint()";

/// Traces by the server's views. `reason` is why the probes are out of reach.
///
/// Without --connect nothing is left: [`TraceError::Host`] with that reason.
pub fn run(
    target: &Target,
    options: &Options,
    stop: &Stop,
    reason: &str,
    take: &mut dyn FnMut(Line) -> anyhow::Result<()>,
) -> anyhow::Result<EndReason> {
    let Some(connect) = &options.connect else {
        return Err(TraceError::Host(format!(
            "{reason}; or give --connect, then the server's views tell write and sync time, buffers and transactions"
        ))
        .into());
    };
    let config = connection::config(target, connect)?;
    let mut client = config
        .connect(NoTls)
        .map_err(|error| connection::refused(&config, &error.into()))?;
    let missing = missing(reason);
    take(Line::Start(session::start_line(
        target,
        "checkpoint",
        Vec::new(),
        false,
        missing.clone(),
    )))?;
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let mut views = Views::new(target, options, &mut client)?;
    let mut told = 0;
    let reason = loop {
        let ended = polling::wait(target, stop, INTERVAL, deadline);
        // A server that shuts down ends this session first, too.
        let read = if ended == Some(EndReason::ServerEnded) {
            Ok(())
        } else {
            views.read(&mut client)
        };
        let ended = match read {
            Ok(()) => ended,
            Err(_) if !polling::is_running(target) || client.is_closed() => {
                Some(EndReason::ServerEnded)
            }
            Err(error) => return Err(error),
        };
        for checkpoint in views.ended(ended.is_some()) {
            if options.count.is_some_and(|count| told >= count) {
                break;
            }
            told += 1;
            take(Line::Checkpoint(Box::new(checkpoint)))?;
        }
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

fn missing(reason: &str) -> Vec<Missing> {
    [
        "begin, clog, subtrans, multixact and buffer scan apart (they are in buffer write), twophase, finish and the total",
        "numbers of dirty buffers and of WAL files",
        "times of single buffers and of each fsync",
        "flags, and whether a requested checkpoint was due to WAL",
        "exact seconds: views are read once a second, and backends report about as often",
    ]
    .into_iter()
    .map(|answer| Missing {
        answer: answer.to_string(),
        reason: reason.to_string(),
    })
    .collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    timed: i64,
    write_ms: f64,
    sync_ms: f64,
    buffers: i64,
}

struct Views {
    counters_query: &'static str,
    around: u64,
    number: u64,
    last_checkpoint: String,
    /// Counters when the last checkpoint was told of.
    counters: Counters,
    transactions: (i64, i64),
    history: Vec<SecondCount>,
    /// A checkpoint seen to be complete, whose counters come with the next reading: start and end, ns.
    complete: Option<(u64, u64)>,
    waiting: VecDeque<Building>,
}

impl Views {
    fn new(target: &Target, options: &Options, client: &mut Client) -> anyhow::Result<Self> {
        let mut views = Self {
            counters_query: if target.major >= 17 {
                COUNTERS_17
            } else {
                COUNTERS_16
            },
            around: options.around,
            number: 0,
            last_checkpoint: String::new(),
            counters: Counters::default(),
            transactions: (0, 0),
            history: Vec::new(),
            complete: None,
            waiting: VecDeque::new(),
        };
        views.counters = views.read_counters(client)?;
        views.transactions = read_transactions(client)?;
        views.last_checkpoint = client.query_one(LAST_CHECKPOINT, &[])?.get(0);
        Ok(views)
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
        if let Some((start_ns, end_ns)) = self.complete.take() {
            let counters = self.read_counters(client)?;
            let checkpoint = self.checkpoint(counters, start_ns);
            self.waiting
                .push_back(Building::known(checkpoint, start_ns, end_ns));
            self.counters = counters;
        }
        let row = client.query_one(LAST_CHECKPOINT, &[])?;
        let last: String = row.get(0);
        if last != self.last_checkpoint {
            let age_s: f64 = row.get(1);
            let start_ns = now.saturating_sub((age_s.max(0.0) * NS_PER_S as f64) as u64);
            self.complete = Some((start_ns, now));
            self.last_checkpoint = last;
        }
        Ok(())
    }

    fn checkpoint(&mut self, counters: Counters, start_ns: u64) -> Checkpoint {
        self.number += 1;
        let mut checkpoint = Checkpoint {
            number: self.number,
            time: clock::unix_seconds(start_ns),
            reason: if counters.timed > self.counters.timed {
                "time".to_string()
            } else {
                "requested".to_string()
            },
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
        let row = client
            .query_one(self.counters_query, &[])
            .context("read the checkpointer's counters")?;
        Ok(Counters {
            timed: row.get(0),
            write_ms: row.get(2),
            sync_ms: row.get(3),
            buffers: row.get(4),
        })
    }
}

fn read_transactions(client: &mut Client) -> anyhow::Result<(i64, i64)> {
    let row = client
        .query_one(TRANSACTIONS, &[])
        .context("read the numbers of transactions")?;
    Ok((row.get(0), row.get(1)))
}
