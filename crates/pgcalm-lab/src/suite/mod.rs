//! Suites: many runs of a scenario, described in one file, with results that outlive an interruption.
//!
//! What a row's options mean is the command line's business ([`Row::arguments`]): they are declared there, once.

mod estimate;
mod file;
mod given;
mod matrix;
pub mod report;
mod results;
mod row;
mod table;

pub use estimate::estimate;
pub use file::Suite;
pub use given::Given;
pub use results::{Found, Results, Stamp};
pub use row::{Level, Row};
