//! How far the standbys of a PostgreSQL primary lag, where they are held up, and when WAL that they need is removed.
//!
//! [`sample`] asks a primary over an ordinary connection and gives a [`model::Sample`]. The [`History`] that it is handed
//! remembers what the server said before: rates, lags in seconds, disconnected standbys and predictions come from it. Whoever
//! keeps one history per server, and calls at regular intervals, has all there is; one sample alone has positions only.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut client = pgcalm_postgres::Address::of_superuser("/run/postgresql".as_ref(), "example")?.connect()?;
//! let mut history = pgcalm_lag::History::default();
//! let sample = pgcalm_lag::sample(&mut client, &mut history, None)?;
//! # Ok(())
//! # }
//! ```

pub mod attribution;
pub mod collect;
pub mod connect;
pub mod history;
pub mod host;
pub mod interface;
pub mod lsn;
pub mod model;
pub mod prediction;
pub mod reading;
#[cfg(test)]
mod schema;
pub mod segment;
pub mod tcp;
pub mod text;
pub mod versions;

use pgcalm_postgres::Client;

pub use crate::collect::QueryFailed;
pub use crate::history::History;
pub use crate::host::Host;
pub use crate::lsn::Lsn;
pub use crate::model::Sample;

/// Asks the primary and remembers the answer in `history`.
///
/// With `host`, what the kernel of this host knows of the server's walwriter, walsenders and their connections is added, as
/// far as they are found here; without, only the server is asked. Takes five statements, none of which waits for a lock;
/// `pg_ls_waldir()` looks at each file in `pg_wal`.
///
/// # Errors
///
/// A [`Failure`](pgcalm_host::Failure) when the server can't be asked at all; [`QueryFailed`] when a statement fails. What is
/// missing otherwise is in [`Sample::missing`].
pub fn sample(client: &mut Client, history: &mut History, host: Option<&Host>) -> anyhow::Result<Sample> {
    let mut reading = collect::read(client)?;
    if let Some(host) = host {
        host.complete(&mut reading);
    }
    Ok(history.add(reading))
}
