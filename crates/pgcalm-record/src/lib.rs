//! A flight recorder: each second of all instances of a host, and what stalled them.
//!
//! [`pgcalm_monitor`] has one live model of the host. [`recorder`] takes it each second, makes a [`second`] of each instance of
//! it, and keeps both in a ring in memory, which a thread of its own writes into the [`store`]: whoever samples never waits for
//! a disk. [`detect`] judges each second by what it did to users against what is usual, and makes an [`incident`] of those
//! that were bad, with the verdict of [`verdict`], a table of causes. [`report`] shows incidents.

pub mod baseline;
pub mod detect;
pub mod incident;
pub mod now;
pub mod place;
pub mod recorder;
pub mod report;
pub mod sampler;
pub mod second;
pub mod store;
pub mod stuck;
pub mod verdict;
pub mod when;

#[cfg(test)]
mod schema;
