//! What the PostgreSQL instances of a host are doing right now: one model for `pgcalm top` and `pgcalm export`.
//!
//! Readers fill the [`model`]; rendering is elsewhere. Whatever can't be had is `None`, never a guess or a value of an
//! earlier moment, and [`model::Missing`] says why and what to do about it.

pub mod model;
