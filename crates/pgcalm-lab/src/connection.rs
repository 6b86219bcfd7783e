//! Connections to servers of the lab.

use std::path::Path;

use pgcalm_postgres::{Address, Client};
use postgres::NoTls;

/// Connects as the superuser to the server with its socket in `directory`, whatever the environment says of others.
pub(crate) fn connect(directory: &Path) -> anyhow::Result<Client> {
    Ok(Address::of_superuser(directory, "pgcalm lab")?.connect()?)
}

/// Connects likewise, for COPY from this side, which [`Client`] has not.
pub(crate) fn connect_to_copy(directory: &Path) -> anyhow::Result<postgres::Client> {
    let mut config = postgres::Config::new();
    config.host_path(directory).user("postgres").dbname("postgres").application_name("pgcalm lab");
    Ok(config.connect(NoTls)?)
}
