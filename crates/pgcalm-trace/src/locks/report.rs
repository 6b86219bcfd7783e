//! The lines of `pgcalm trace locks`.

pub(crate) mod view;

use serde::{Deserialize, Serialize};

use crate::report::histogram::Histogram;
use crate::report::{End, Start};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// A checkpoint; at the end of the trace one that is under way, too.
    Checkpoint(Box<AroundCheckpoint>),
    /// All of the trace, checkpoints or not.
    Total(Period),
    /// Last.
    End(End),
}

/// Waits around a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AroundCheckpoint {
    /// Number in this trace, from 1.
    pub number: u64,
    /// Whether it is a restartpoint.
    pub restartpoint: bool,
    /// When it began, seconds since 1970.
    pub time: f64,
    /// Why: `time`, `wal`, `shutdown`, `end of recovery` or `requested`.
    pub reason: String,
    /// Whether its end was seen; else `during` ends with the trace, and there is no time after it.
    pub complete: bool,
    /// The seconds before it, since the end of the checkpoint before at most.
    pub before: Period,
    /// The first seconds from its start, as many as --first says, whether it goes on for as long or not; fewer if the trace ended or
    /// the next checkpoint began earlier. Exact: a wait belongs to them if it ended in them.
    pub first: Period,
    /// From its start to its end, the first seconds among it; likewise exact.
    pub during: Period,
    /// The seconds after it.
    pub after: Period,
}

/// Waits of a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Period {
    /// Its length, s.
    pub seconds: f64,
    /// By lock, mode and process type; the longest total first.
    pub locks: Vec<LockWaits>,
}

/// Waits of a process type for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockWaits {
    /// Which kind of lock.
    pub class: LockClass,
    /// Tranche of a lightweight lock, locktype of a heavyweight one, as pg_stat_activity and pg_locks have them.
    pub name: String,
    /// Mode, e.g. `exclusive`, `AccessExclusiveLock`.
    pub mode: String,
    /// OID of the database of a heavyweight lock on a relation or a part of it.
    pub database: Option<u32>,
    /// OID of that relation.
    pub relation: Option<u32>,
    /// Database and name of that relation, e.g. `shop: public.orders`; with --connect, if it is still there.
    pub relation_name: Option<String>,
    /// Type of the processes that wait, as pg_stat_activity.backend_type has it; `unknown` if they ended at once.
    pub process_type: String,
    /// Waits that ended; for a heavyweight lock those that got it, and not those that an error ended, as lock_timeout's.
    pub waits: Histogram,
    /// Time waited as samples of pg_stat_activity make it, s; only without eBPF, and then `waits` is empty.
    pub sampled_s: Option<f64>,
    /// How often a lightweight lock was acquired, waited for or not: with --acquisitions estimated from slices of the time in
    /// one process at a time, with --all-acquisitions counted.
    pub acquisitions: Option<u64>,
}

/// Which kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LockClass {
    /// LWLock: protects shared memory.
    Lightweight,
    /// What pg_locks shows.
    Heavyweight,
}

pgcalm_host::names! { pub fn name(LockClass): Lightweight "LWLock", Heavyweight "Lock" }

impl Period {
    /// Waits per second in all, if they are known, and time waited per second in ms.
    pub fn rates(&self) -> Option<(Option<f64>, f64)> {
        let is_sampled = self.locks.iter().any(|lock| lock.sampled_s.is_some());
        let count: u64 = self.locks.iter().map(|lock| lock.waits.count).sum();
        // The sum of nothing is -0.0.
        let sum = 0.0 + self.locks.iter().map(LockWaits::total_ms).sum::<f64>();
        (self.seconds > 0.0).then(|| ((!is_sampled).then(|| count as f64 / self.seconds), sum / self.seconds))
    }
}

impl LockWaits {
    /// Time waited, ms.
    pub fn total_ms(&self) -> f64 {
        self.sampled_s.map_or(self.waits.sum_ms, |seconds| seconds * 1000.0)
    }
}
