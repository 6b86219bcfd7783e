//! Says what will stall a PostgreSQL server, by what its host and its own views tell, and what to change.
//!
//! - [`collect`] reads host and server into [`facts::Facts`]; nothing else is read after that.
//! - [`rules`] judges facts: a table of rules ([`rules::table`]), a condition function each. No rule reads a file or asks
//!   the server, so each is tested with a fake host and a fake server.
//! - [`mod@apply`] makes the changes that can be taken back, [`undo`] takes them back, [`state`] remembers them.
//! - [`report`] is what was found and done, and the text of it.
//! - [`ready_to_stop`] has written ahead what a stop would have to write, until that would be short; [`targets`] says what it would cost to keep it so.
//! - [`isolate`] shows, sets, clears and checks the limits of instances that share a host; its hazards are facts for the rules.
//!
//! Nothing is ever restarted, and nothing is changed without `apply`.

mod alter_system;
mod kernel_file;
mod words;

pub mod apply;
pub mod collect;
pub mod connection;
pub mod estimate;
pub mod facts;
pub mod isolate;
pub mod ready_to_stop;
pub mod report;
pub mod rules;
#[cfg(test)]
mod schema;
pub mod state;
pub mod targets;
pub mod undo;
