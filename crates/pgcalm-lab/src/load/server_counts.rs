//! Transactions of a load that does not tell of them, counted in the server.
//!
//! Sessions report to `pg_stat_database` at most once in a second (`PGSTAT_MIN_INTERVAL`, pgstat.c) and after a
//! transaction: its figures of single seconds are off by a fifth and more, what was done before a stall shows in it
//! or after it, and a session that waits for hours reports nothing. The next transaction id is exact at each moment:
//! so TPS is the transactions that took one, that is, that wrote. It counts those that are rolled back and
//! subtransactions, too. Statistics serve for the whole run, where their delay does not matter.
//!
//! Latency of the run is by Little's law: the mean number of transactions under way, looked at ten times a second, over
//! the transactions per second, read-only ones included in both.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_host::stop::Stop;
use pgcalm_postgres::Client;

use crate::background::Background;
use crate::connection::connect;
use crate::transaction_log::{Source, Transactions};

/// Looks per second.
const LOOKS: i64 = 10;

/// Ids are 64 bits wide here. `xmax` is the id after the latest that has ended. A look is a transaction of its own,
/// which takes no id.
const LOOK: &str = "
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
           count(xact_start),
           (extract(epoch from max(clock_timestamp() - xact_start)) * 1000)::float8
    from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()";

/// Transactions of any kind, as far as sessions have reported.
const TOTAL: &str = "select sum(xact_commit + xact_rollback)::bigint from pg_stat_database";

/// What was seen at the beginning of a tenth of a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    /// The tenth since the epoch.
    tenth: i64,
    next_id: i64,
    under_way: i64,
    oldest_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Seen {
    looks: Vec<Look>,
    /// When there was a first transaction.
    first: Option<Instant>,
    /// The look at which the load had ended.
    end: Option<usize>,
}

/// Looks at the server until it is finished or dropped.
#[derive(Debug)]
pub(super) struct ServerCounts {
    seen: Arc<Mutex<Seen>>,
    /// Gives the number of transactions of any kind, if the server is still there; none once it is finished.
    thread: Option<Background<Option<u64>>>,
}

impl ServerCounts {
    /// Connects to the server with its socket in `directory` and begins.
    pub(super) fn start(directory: &Path) -> anyhow::Result<Self> {
        let mut client = connect(directory)?;
        let before: i64 = client.query_one(TOTAL, &[])?.get(0);
        // The first is before the load begins.
        let first = look(&mut client, tenth_now())?;
        let seen = Arc::new(Mutex::new(Seen { looks: vec![first], ..Seen::default() }));
        let kept = Arc::clone(&seen);
        Ok(Self { seen, thread: Some(Background::start(move |stop| watch(client, &kept, before, stop))) })
    }

    /// Writing transactions in the last second of looks.
    pub(super) fn tps(&self) -> Option<f64> {
        let seen = locked(&self.seen);
        let last = seen.looks.last()?;
        let before = seen.looks.iter().rev().nth(LOOKS as usize)?;
        Some((last.next_id - before.next_id) as f64)
    }

    /// Time since the first transaction that wrote was seen.
    pub(super) fn since_first(&self) -> Option<Duration> {
        locked(&self.seen).first.map(|first| first.elapsed())
    }

    /// The load has ended: what is under way from now on is not its doing. Later calls change nothing.
    pub(super) fn mark_end(&self) {
        let mut seen = locked(&self.seen);
        let number = seen.looks.len();
        seen.end.get_or_insert(number);
    }

    /// Ends looking and returns what was seen.
    pub(super) fn finish(&mut self) -> anyhow::Result<Transactions> {
        let total = self.thread.take().and_then(Background::finish).flatten();
        let seen = locked(&self.seen);
        let end = seen.end.unwrap_or(seen.looks.len());
        transactions(&seen.looks[..end], total)
    }
}

fn locked(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends early with the server.
fn watch(mut client: Client, kept: &Mutex<Seen>, before: i64, stop: &Stop) -> Option<u64> {
    let mut next = tenth_now() + 1;
    let mut own = 1;
    while !stop.is_set() {
        let due = Duration::from_millis(next as u64 * 1000 / LOOKS as u64);
        thread::sleep(due.saturating_sub(now()));
        let look = look(&mut client, next).ok()?;
        own += 1;
        let mut seen = locked(kept);
        if seen.first.is_none() && seen.looks.last().is_some_and(|l| l.next_id < look.next_id) {
            seen.first = Some(Instant::now());
        }
        seen.looks.push(look);
        drop(seen);
        next = (next + 1).max(tenth_now());
    }
    let after: i64 = client.query_one(TOTAL, &[]).ok()?.get(0);
    u64::try_from(after - before - own).ok()
}

fn look(client: &mut Client, tenth: i64) -> anyhow::Result<Look> {
    let row = client.query_one(LOOK, &[]).context("count transactions in the server")?;
    Ok(Look { tenth, next_id: row.get(0), under_way: row.get(1), oldest_ms: row.get(2) })
}

/// From looks to transactions: those of a second are the ids taken between the looks at its beginning and end. `total`
/// is all transactions, those that only read included; without it, those that wrote are all that is known of.
fn transactions(looks: &[Look], total: Option<u64>) -> anyhow::Result<Transactions> {
    // That a program has ended by itself is noticed a little later; a stall has transactions under way.
    let last = looks
        .windows(2)
        .rposition(|pair| pair[1].next_id > pair[0].next_id || pair[1].under_way > 0)
        .map_or(looks.len(), |index| index + 2);
    let looks = &looks[..last];
    let mut counts = Vec::new();
    let mut started = None;
    for pair in looks.windows(2) {
        let number = u64::try_from(pair[1].next_id - pair[0].next_id).unwrap_or(0);
        if number > 0 {
            started.get_or_insert(pair[0].tenth);
            // A look stands for the tenth before it.
            counts.push(((pair[1].tenth - 1).div_euclid(LOOKS), number));
        }
    }
    let (Some(started), Some(last)) = (started, looks.last()) else {
        anyhow::bail!("the load made no transaction that writes");
    };
    let active = looks.iter().filter(|look| look.tenth > started);
    let number = active.clone().count().max(1) as f64;
    let under_way = active.clone().map(|look| look.under_way as f64).sum::<f64>() / number;
    let wrote: u64 = counts.iter().map(|(_, number)| number).sum();
    let all = total.unwrap_or(wrote).max(wrote);
    let length_s = (last.tenth - started) as f64 / LOOKS as f64;
    Transactions::counted(
        counts,
        started as f64 / LOOKS as f64,
        Source::Server {
            ended: last.tenth as f64 / LOOKS as f64,
            mean_ms: under_way * length_s / all as f64 * 1e3,
            oldest_ms: active.filter_map(|look| look.oldest_ms).fold(0.0, f64::max),
        },
    )
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn tenth_now() -> i64 {
    now().as_millis() as i64 * LOOKS / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(tenth: i64, next_id: i64, under_way: i64) -> Look {
        Look { tenth, next_id, under_way, oldest_ms: (under_way > 0).then_some(tenth as f64) }
    }

    #[test]
    fn ids_count_in_the_second_in_which_they_were_taken() {
        let looks = [
            look(1000, 50, 0),
            look(1005, 50, 2),
            look(1010, 60, 2),
            // A look was late: what happened meanwhile counts for the second that it is in.
            look(1020, 90, 2),
            look(1025, 90, 2),
            // The load had ended.
            look(1030, 90, 0),
        ];
        let transactions = transactions(&looks, Some(80)).unwrap();
        let counts: Vec<(i64, u64)> =
            transactions.by_second.iter().map(|(second, histogram)| (*second, histogram.len())).collect();
        assert_eq!(counts, [(100, 10), (101, 30)]);
        assert_eq!(transactions.started, 100.5);
        let Source::Server { ended, mean_ms, oldest_ms } = transactions.source else { panic!("{transactions:?}") };
        assert_eq!(ended, 102.5);
        // Two under way for two seconds make 80 transactions of 50 ms.
        assert_eq!(mean_ms, 50.0);
        assert_eq!(oldest_ms, 1025.0);
    }

    #[test]
    fn without_ids_there_is_no_transaction() {
        let looks = [look(1000, 50, 1), look(1010, 50, 1)];
        assert!(transactions(&looks, Some(1000)).is_err());
    }
}
