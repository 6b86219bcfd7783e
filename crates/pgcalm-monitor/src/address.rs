//! How a server is reached, and as whom.

use std::path::Path;
use std::time::Duration;

use nix::unistd::Uid;
use nix::unistd::User;
use postgres::Config;
use postgres::config::Host;

use crate::MonitorError;

/// Where Debian's servers have their sockets, and libpq with them.
const DEFAULT_SOCKET_DIRECTORY: &str = "/var/run/postgresql";

/// What libpq takes without one.
const DEFAULT_PORT: u16 = 5432;

/// How long a connection may take to come about. The server's own answers are not included: see
/// [`crate::watcher::Watcher`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After this a remote host that vanished is given up.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(15);

/// How to connect.
#[derive(Debug, Clone)]
pub struct Address {
    /// Host, port, user, database.
    pub config: Config,
    /// User and group id that the connecting thread takes on, for the server to see as its peer: those of the server
    /// itself, for root, whom `peer` authentication would not let in.
    pub peer: Option<(u32, u32)>,
}

impl Address {
    /// Of a socket directory on this host; `owner` is whom the server's processes belong to, where that is known.
    pub fn local(directory: &Path, port: u16, owner: Option<(u32, u32)>) -> Self {
        let mut config = Config::new();
        config.host_path(directory).port(port);
        Self::of_owner(config, owner)
    }

    /// Of a server on this host that has no Unix socket.
    pub fn loopback(port: u16) -> Self {
        let mut config = Config::new();
        config.host("localhost").port(port);
        Self::of_owner(config, None)
    }

    fn of_owner(mut config: Config, owner: Option<(u32, u32)>) -> Self {
        let peer = owner.filter(|_| rustix::process::geteuid().is_root());
        config.user(&match peer {
            Some((uid, _)) => user_name(Uid::from_raw(uid)),
            None => own_name(),
        });
        Self {
            config: complete(config),
            peer,
        }
    }

    /// Of a connection string of libpq's, with the name that the server gets. Host, port, user and database default to
    /// what libpq takes, except that root connects as `postgres`; the password to `$PGPASSWORD`.
    pub fn parse(connect: &str) -> Result<(String, Self), MonitorError> {
        let mut config: Config = connect.parse().map_err(|error| {
            // The string is not repeated: it may hold a password.
            MonitorError::Usage(format!(
                "--connect: {error}; give e.g. \"host=/var/run/postgresql port=5432 user=monitor dbname=postgres\""
            ))
        })?;
        let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
        let name = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => format!("{host}:{port}"),
            Some(Host::Unix(directory)) if directory == Path::new(DEFAULT_SOCKET_DIRECTORY) => {
                port.to_string()
            }
            Some(Host::Unix(directory)) => format!("{}:{port}", directory.display()),
            None => {
                config.host_path(DEFAULT_SOCKET_DIRECTORY);
                port.to_string()
            }
        };
        if config.get_user().is_none() {
            config.user(&own_name());
        }
        if config.get_password().is_none()
            && let Some(password) = std::env::var_os("PGPASSWORD")
        {
            config.password(password.as_encoded_bytes());
        }
        Ok((
            name,
            Self {
                config: complete(config),
                peer: None,
            },
        ))
    }

    /// Whether it is a server of this host, as far as the address tells.
    pub fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost"
                    || name
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|address| address.is_loopback())
            }
        })
    }
}

fn complete(mut config: Config) -> Config {
    if config.get_dbname().is_none() {
        config.dbname("postgres");
    }
    config
        .application_name("pgcalm monitor")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(NETWORK_TIMEOUT)
        .keepalives_idle(NETWORK_TIMEOUT);
    config
}

/// The database user that goes with this process.
fn own_name() -> String {
    user_name(Uid::from_raw(rustix::process::geteuid().as_raw()))
}

fn user_name(uid: Uid) -> String {
    match User::from_uid(uid) {
        Ok(Some(user)) if !uid.is_root() => user.name,
        _ => "postgres".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_completed_and_named() {
        let (name, address) = Address::parse("host=db1 user=a").unwrap();
        assert_eq!(name, "db1:5432");
        assert_eq!(address.config.get_dbname(), Some("postgres"));
        assert!(!address.is_local());
        let (name, address) = Address::parse("port=5433").unwrap();
        assert_eq!(name, "5433");
        assert!(address.config.get_user().is_some());
        assert!(address.is_local());
        let (name, _) = Address::parse("host=/tmp port=1 user=a").unwrap();
        assert_eq!(name, "/tmp:1");
        let (_, address) = Address::parse("host=127.0.0.1").unwrap();
        assert!(address.is_local());
    }

    #[test]
    fn a_bad_connection_string_is_not_repeated() {
        let error = Address::parse("password=secret port=x").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.to_string().starts_with("--connect: "), "{error}");
    }
}
