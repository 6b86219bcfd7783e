//! Connections to the traced server.

use std::time::Duration;

use pgcalm_connect::Address;
use pgcalm_connect::Caller;
use pgcalm_connect::DefaultUser;
use pgcalm_connect::Found;
use pgcalm_connect::Session;
use postgres::Client;

use crate::TraceError;
use crate::polling;
use crate::target::Target;

const CALLER: Caller = Caller {
    application_name: "pgcalm trace",
    user: DefaultUser::Superuser,
    connect_timeout: Duration::from_secs(10),
    gives_up: true,
    // A query may wait for a lock on a catalog, such as VACUUM FULL takes, and would hold up the trace.
    session: Some(Session::WATCH),
};

/// Reads a connection string of libpq's, in which the traced server stands for host and port unless it names others.
///
/// [`TraceError::Host`] if the server is stopped: it would take the connection and never answer.
pub fn address(target: &Target, connect: &str) -> anyhow::Result<Address> {
    if polling::is_stopped(target) {
        return Err(TraceError::Host(format!(
            "--connect: the server (pid {}) does not answer: {}",
            target.pid(),
            polling::stopped_reason(target)
        ))
        .into());
    }
    let directory = target.postmaster.socket_directory.as_deref();
    let port = target.postmaster.port;
    let found = Found::process(&target.root, target.pid(), directory, port);
    Address::new(connect, Some(&found), &CALLER).map_err(|error| refused(&error.into()).into())
}

/// Connects; see [`address`].
pub fn connect(target: &Target, connect: &str) -> anyhow::Result<Client> {
    let client = address(target, connect)?.connect();
    client.map_err(|error| refused(&error.into()).into())
}

/// The error of a connection that does not come about.
pub fn refused(error: &anyhow::Error) -> TraceError {
    TraceError::Usage(format!("--connect: {error:#}"))
}
