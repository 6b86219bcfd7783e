//! Connections to the traced server.

use std::path::Path;

use postgres::Config;
use postgres::config::Host;

use crate::TraceError;
use crate::polling;
use crate::target::Target;

/// Reads a connection string of libpq's, in which the traced server stands for host and port unless it names others, and
/// `postgres` for user and database.
///
/// [`TraceError::Host`] if the server is stopped: it would take the connection and never answer.
pub fn config(target: &Target, connect: &str) -> anyhow::Result<Config> {
    if polling::is_stopped(target) {
        return Err(TraceError::Host(format!(
            "--connect: the server (pid {}) does not answer: {}",
            target.pid(),
            polling::stopped_reason(target)
        ))
        .into());
    }
    let mut config: Config = connect.parse().map_err(|error| {
        TraceError::Usage(format!(
            "--connect: {error}; give e.g. \"user=postgres dbname=postgres\""
        ))
    })?;
    if config.get_hosts().is_empty() {
        match &target.postmaster.socket_directory {
            // An abstract socket is in the network namespace, not in a folder.
            Some(directory) if !directory.starts_with("@") => {
                config.host_path(target.server_path(directory));
            }
            _ => {
                config.host("localhost");
            }
        }
        if let (true, Some(port)) = (config.get_ports().is_empty(), target.postmaster.port) {
            config.port(port);
        }
    }
    if config.get_user().is_none() {
        config.user("postgres");
    }
    if config.get_dbname().is_none() {
        config.dbname("postgres");
    }
    config.application_name("pgcalm trace");
    Ok(config)
}

/// The error of a connection that does not come about. The connection string is not repeated: it may hold a password.
pub fn refused(config: &Config, error: &anyhow::Error) -> TraceError {
    let place = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => Path::display(path).to_string(),
        None => "the server".to_string(),
    };
    TraceError::Usage(format!("--connect: {place}: {error:#}"))
}
