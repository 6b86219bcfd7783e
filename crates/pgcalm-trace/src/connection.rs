//! Connections to the traced server.

use std::time::Duration;

use anyhow::Context;
use pgcalm_connect::Address;
use pgcalm_connect::Caller;
use pgcalm_connect::DefaultUser;
use pgcalm_connect::Found;
use pgcalm_connect::Session;
use postgres::Client;

use crate::TraceError;
use crate::polling;
use crate::target::Target;

/// What errors begin with.
pub const OPTION: &str = "--connect";

const CALLER: Caller = Caller {
    application_name: "pgcalm trace",
    user: DefaultUser::OperatingSystem,
    connect_timeout: Duration::from_secs(10),
    gives_up: true,
    // A query may wait for a lock on a catalog, such as VACUUM FULL takes, and would hold up the trace.
    session: Some(Session::WATCH),
};

/// Reads a connection string of libpq's, in which the traced server stands for host and port unless it names others.
///
/// [`TraceError::Unreachable`] if the server is stopped: it would take the connection and never answer.
pub fn address(target: &Target, connect: &str) -> anyhow::Result<Address> {
    if polling::is_stopped(target) {
        return Err(TraceError::Unreachable(format!(
            "--connect: the server (pid {}) does not answer: {}",
            target.pid(),
            polling::stopped_reason(target)
        ))
        .into());
    }
    let directory = target.postmaster.socket_directory.as_deref();
    let port = target.postmaster.port;
    let found = Found::process(&target.root, target.pid(), directory, port);
    Address::new(connect, Some(&found), &CALLER).context(OPTION)
}

/// Connects; see [`address`].
pub fn connect(target: &Target, connect: &str) -> anyhow::Result<Client> {
    address(target, connect)?.connect().context(OPTION)
}

/// The port that a connection string names, or libpq's default.
pub fn port(connect: &str) -> anyhow::Result<u16> {
    Ok(Address::new(connect, None, &CALLER).context(OPTION)?.port())
}
