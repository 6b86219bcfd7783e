//! What the PostgreSQL instances of a host are doing right now: one model for `pgcalm top` and `pgcalm export`.
//!
//! [`Monitor`] fills the [`model`] in the background: a thread for each instance asks its server, so that one that hangs
//! holds up no other, one looks at processes and their files, which may hang, too, and one more reads the host and puts the
//! samples together. Rendering is elsewhere. Whatever can't be had is `None`, never a guess or a value of an earlier moment,
//! and [`model::Missing`] says why and what to do about it.
//!
//! Nothing is written, on the host or in a server: sessions are read-only.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use pgcalm_monitor::Monitor;
//! use pgcalm_monitor::Options;
//!
//! let monitor = Monitor::start(Options::default())?;
//! std::thread::sleep(std::time::Duration::from_secs(2));
//! for instance in &monitor.latest().instances {
//!     println!("{}: {:?}", instance.identity.name, instance.rates);
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod discovery;
pub mod export;
mod group_use;
mod history;
mod host_reader;
pub mod metrics;
pub mod model;
mod monitor;
mod rates;
mod server;
mod volumes;
mod waits;
mod watcher;

pub use history::{History, HistoryLimits};
pub use monitor::{IncidentSource, Monitor, Options};
