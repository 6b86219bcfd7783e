//! Connections to servers of the lab.

use std::path::Path;

use pgcalm_connect::Address;
use postgres::Client;

/// Connects as the superuser to the server with its socket in `directory`, whatever the environment says of others.
pub fn connect(directory: &Path) -> anyhow::Result<Client> {
    Ok(Address::of_superuser(directory, "pgcalm lab")?.connect()?)
}
