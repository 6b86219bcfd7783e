//! `--connect`: what a connection string of the command line is read with.

use std::time::Duration;

use anyhow::Context;
use pgcalm_postgres::{Address, Caller, DefaultUser, Session};

/// What errors begin with.
pub(crate) const OPTION: &str = "--connect";

/// Who connects, and how.
pub(crate) const CALLER: Caller = Caller {
    application_name: "pgcalm trace",
    user: DefaultUser::OperatingSystem,
    connect_timeout: Duration::from_secs(10),
    gives_up: true,
    // A query may wait for a lock on a catalog, such as VACUUM FULL takes, and would hold up the trace.
    session: Some(Session::WATCH),
};

/// The port that a connection string names, or libpq's default.
pub(crate) fn port(connect: &str) -> anyhow::Result<u16> {
    Ok(Address::new(connect, None, &CALLER).context(OPTION)?.port())
}
