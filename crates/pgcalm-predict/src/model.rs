//! From what was counted to what the volume sustains.
//!
//! Nothing is simulated. What data files cost with **pg_calm** is what the module has counted in shadow mode, with the code
//! that would write them (`flush_start_region` in extension/pg_calm/src/writeback/flush.c). What they cost **stock** is what the
//! device completed, less WAL; at most an operation for each page that the server wrote, as the rest is somebody else's (`use_of`).
//!
//! A transaction then costs what was used, divided by the transactions that came meanwhile: reads where they count, WAL, and
//! other writes included. The caps divided by that are the sustainable rate (`outlook`). This is linear: it knows no
//! queues, no bursts, and no page that is written once for two transactions that come closer together. So it is an upper bound.

mod outlook;
mod use_of;
mod verdict;

use crate::model::outlook::outlook;
use crate::model::use_of::Caps;
use crate::report::{Observation, Prediction};

/// What is expected of the server in the long run.
pub fn predict(observation: Observation) -> Prediction {
    let (stock_use, others) = use_of::stock(&observation);
    let caps = Caps::of(&observation, others);
    let stock_used = caps.used(stock_use);
    let stock = outlook(&observation, stock_use, stock_used, stock_used);
    let calm = use_of::pg_calm(&observation).map(|data| {
        let used = caps.used(data);
        (outlook(&observation, data, used, stock_used), used)
    });
    let (helps, reason) = verdict::verdict(&observation, &caps, (&stock, stock_used), calm.as_ref());
    let cautions = verdict::cautions(&observation);
    Prediction { observation, stock, pg_calm: calm.map(|(outlook, _)| outlook), helps, reason, cautions }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
