//! Connections to the traced server.

use anyhow::Context;
use pgcalm_postgres::{Address, Client, Found};

use crate::connect_option::{CALLER, OPTION};
use crate::polling;
use crate::target::Target;
use pgcalm_host::Failure;

/// Reads a connection string of libpq's, in which the traced server stands for host and port unless it names others.
///
/// [`Failure::Unreachable`] if the server is stopped: it would take the connection and never answer.
pub fn address(target: &Target, connect: &str) -> anyhow::Result<Address> {
    if polling::is_stopped(target) {
        anyhow::bail!(Failure::Unreachable(format!(
            "--connect: the server (pid {}) does not answer: {}",
            target.pid(),
            polling::stopped_reason(target)
        )));
    }
    let found = Found::process(&target.root, &target.postmaster);
    Address::new(connect, Some(&found), &CALLER).context(OPTION)
}

/// Connects; see [`address`].
pub fn connect(target: &Target, connect: &str) -> anyhow::Result<Client> {
    address(target, connect)?.connect().context(OPTION)
}
