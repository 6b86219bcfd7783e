//! How the servers of connection strings are named, and what all connections have in common.

use std::time::Duration;

use pgcalm_postgres::{Address, Caller, DefaultUser, Found, Session};

use pgcalm_host::Failure;

/// Those of [`crate::watcher::Watcher`], which may wait for an answer for ever.
const CALLER: Caller = Caller {
    application_name: "pgcalm monitor",
    user: DefaultUser::OperatingSystem,
    connect_timeout: Duration::from_secs(5),
    gives_up: false,
    session: Some(Session::WATCH),
};

/// Of a server of this host, whoever runs it. What the environment says of roles holds for it, and of passwords only what is meant for it.
pub(crate) fn of_found(found: &Found) -> Result<Address, Failure> {
    Address::new("", Some(&found.of_anybody()), &CALLER).map_err(|error| Failure::Usage(error.to_string()))
}

/// Of a connection string of libpq's, with the name that the server gets: host and port, or the port only if it is at the
/// usual place.
pub(crate) fn parse(connect: &str) -> Result<(String, Address), Failure> {
    let address =
        Address::new(connect, None, &CALLER).map_err(|error| Failure::Usage(format!("--connect: {error}")))?;
    let name = match address.host() {
        Some(host) => format!("{host}:{}", address.port()),
        None => address.port().to_string(),
    };
    Ok((name, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_named() {
        let (name, address) = parse("host=db1 port=5432 user=a").unwrap();
        assert_eq!(name, "db1:5432");
        assert!(!address.is_local());
        let (name, address) = parse("host=/var/run/postgresql port=5433").unwrap();
        assert_eq!(name, "5433");
        assert!(address.is_local());
        let (name, _) = parse("host=/srv/run port=1 user=a").unwrap();
        assert_eq!(name, "/srv/run:1");
        let (_, address) = parse("host=127.0.0.1").unwrap();
        assert!(address.is_local());
    }

    #[test]
    fn a_bad_connection_string_is_not_repeated() {
        let error = parse("password=secret port=x").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.to_string().starts_with("--connect: "), "{error}");
    }
}
