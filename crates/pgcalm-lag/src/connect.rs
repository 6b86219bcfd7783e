//! Connecting to a primary.

use std::path::Path;
use std::time::Duration;

use postgres::Client;
use postgres::Config;
use postgres::NoTls;
use postgres::config::Host;

use crate::error::LagError;

/// Where Debian's servers have their socket.
const SOCKET_DIRECTORY: &str = "/var/run/postgresql";

/// How long a server may take to answer, unless the connection string says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects by a connection string of libpq's, or a URI, without TLS. `application_name` is what the server sees.
///
/// What is not given: the socket in /var/run/postgresql, or localhost where that is not; database `postgres`; password of the
/// environment variable `PGPASSWORD`; ten seconds for connecting.
///
/// # Errors
///
/// [`LagError::Connect`].
pub fn connect(conninfo: &str, application_name: &str) -> Result<Client, LagError> {
    let mut config: Config = conninfo.parse().map_err(|error: postgres::Error| {
        LagError::Connect(format!(
            "{}; give e.g. \"host=primary.example user=monitor dbname=postgres\"",
            with_cause(&error)
        ))
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        if Path::new(SOCKET_DIRECTORY).is_dir() {
            config.host_path(SOCKET_DIRECTORY);
        } else {
            config.host("localhost");
        }
    }
    if config.get_dbname().is_none() {
        config.dbname("postgres");
    }
    if let (None, Ok(password)) = (config.get_password(), std::env::var("PGPASSWORD")) {
        config.password(password);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(TIMEOUT);
    }
    config.application_name(application_name);
    config
        .connect(NoTls)
        .map_err(|error| LagError::Connect(format!("{}: {}", place(&config), with_cause(&error))))
}

/// Host and port that were tried first.
fn place(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => format!("{host} port {port}"),
        Some(Host::Unix(path)) => format!("{} port {port}", path.display()),
        None => match config.get_hostaddrs().first() {
            Some(address) => format!("{address} port {port}"),
            None => "the server".to_string(),
        },
    }
}

/// An error and what it rests on, in a line: the crate's own says "error connecting to server" only.
fn with_cause(error: &postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_named_and_a_password_is_not() {
        let refused = |conninfo| match connect(conninfo, "test") {
            Err(LagError::Connect(text)) => text,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("there is no server"),
        };
        let text = refused("host=127.0.0.1 port=1 user=x password=secret");
        assert!(text.contains("127.0.0.1 port 1"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert!(refused("host=x nonsense").contains("give e.g."));
    }
}
