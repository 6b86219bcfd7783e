//! From an observation to what is expected with and without pg_calm.

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
