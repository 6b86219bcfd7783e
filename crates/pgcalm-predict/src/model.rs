//! From an observation to what is expected with and without pg_calm.
//!
//! A pure function. Its unit is the region of 1024 pages, its principle that dirty pages lie at random within one.
//!
//! **How regions get dirty** (`region`). `1024·(1 - exp(-h))` pages are dirty `t` seconds after a flush, with
//! `h = c·t^e / 1024`. For writes spread evenly that is exact, with `e = 1` and `c` the pages written per second. `e < 1`
//! stands for skew: what is written again adds nothing. `e > 1` comes of shared buffers, in which a page stays for a while
//! before it is written again. `e` is the slope of log `h` over log `t` in what was seen of a relation; `c` then follows for
//! each region. Time is counted in transactions, so that stalls don't pass for slow growth.
//!
//! **What a flush takes** (`bridge`). With a part `p` of the pages dirty, gaps of `k` clean pages come with probability
//! `p(1-p)^k`. Bridging those of up to `g` leaves `1 + (n - 1)(1-p)^(g+1)` runs of `n` dirty pages. Stock has `g = 0`. A run
//! of `b` bytes is `1/(1 - exp(-s/b))` operations of up to `s` bytes in the mean.
//!
//! **What reads leave** (`caps`). Where reads count, data files get what reads, and WAL if it is on the device, leave of the
//! caps, but not less than a part of them. What these take grows with the transactions.
//!
//! **pg_calm** (`simulation`) is followed step by step until it is steady, **stock** (`schedule`, `stock`) is a closed form:
//! how often a region is flushed by amount, by checkpoints, by the kernel's age limit, and by the background writer.
//!
//! **What the device keeps up with** (`sustainable`). Work takes max(operations/IOPS, bytes/bandwidth) seconds. The
//! sustainable rate is the highest at which a second's work takes no more than a second, and at most the mean rate of the
//! times with at least 0.7 of the 90th percentile, when nothing held the server up. Checkpoints come each
//! `checkpoint_timeout`, or when `max_wal_size / (1 + checkpoint_completion_target)` of WAL is written
//! (`CalculateCheckpointSegments` in xlog.c).

mod bridge;
mod caps;
mod flusher;
mod region;
mod schedule;
mod simulation;
mod stock;
mod sustainable;
mod verdict;

use crate::model::caps::Caps;
use crate::model::sustainable::outlook;
use crate::model::sustainable::possible;
use crate::report::Observation;
use crate::report::Prediction;

/// Bytes of a page.
const PAGE: f64 = 8192.0;

/// What is expected of the server in the long run.
pub fn predict(observation: Observation) -> Prediction {
    let caps = Caps::of(&observation);
    let (stock, _) = outlook(&observation, &caps, &stock::demand);
    let (pg_calm, demand) = outlook(&observation, &caps, &simulation::run);
    let possible = possible(&observation, &caps, &pg_calm, &demand);
    let (helps, reason) = verdict::verdict(&observation, &caps, &stock, &pg_calm);
    Prediction { cautions: verdict::cautions(&observation), observation, stock, pg_calm, possible, helps, reason }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
