//! Which server a command is about, where it is about one.

use anyhow::Context;
use pgcalm_host::choice::Known;
use pgcalm_host::{Failure, HostRoot, choice, instance, postmaster, process};

use crate::address::{Address, Caller};
use crate::client::Client;
use crate::found::Found;

/// Variables that name a server.
const VARIABLES: [&str; 4] = ["PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE"];

/// What the user has said; at most one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// `--connect`: a connection string of libpq's or a URI.
    pub connect: Option<&'a str>,
    /// `--instance`: a server of this host, see [`pgcalm_host::choice`].
    pub instance: Option<&'a str>,
}

impl Wanted<'_> {
    /// Connects to the server that was named, else to that of the environment, else to the only one of this host that this
    /// user may look at, else to where libpq's tools look for one.
    ///
    /// Errors rest on a [`ConnectError`](crate::ConnectError) or a [`Failure`], which tell a bad value from a server
    /// that is not there.
    pub fn connect(self, root: &HostRoot, caller: &Caller) -> anyhow::Result<Client> {
        let address = self.address(root, caller)?;
        address.connect().context(self.source())
    }

    /// Where that would lead.
    pub fn address(self, root: &HostRoot, caller: &Caller) -> anyhow::Result<Address> {
        let found = match (self.connect, self.instance) {
            (None, Some(name)) => Some(of_host(root, Some(name))?),
            (None, None) if !is_in_environment() => match of_host(root, None) {
                Ok(found) => Some(found),
                Err(error) => match error.downcast_ref() {
                    Some(Failure::Unreachable(_) | Failure::Host(_)) => None,
                    _ => return Err(error),
                },
            },
            _ => None,
        };
        Address::new(self.connect.unwrap_or(""), found.as_ref(), caller).context(self.source())
    }

    /// What an error about the server begins with.
    fn source(self) -> String {
        match (self.connect, self.instance) {
            (None, None) => "without --connect".to_string(),
            (None, Some(name)) => format!("--instance {name}"),
            (Some(_), _) => "--connect".to_string(),
        }
    }
}

/// Whether the environment says which server is meant, as libpq's tools read it.
pub fn is_in_environment() -> bool {
    VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn of_host(root: &HostRoot, name: Option<&str>) -> anyhow::Result<Found> {
    let running = postmaster::running(root)?;
    let known: Vec<Known> = running.iter().map(Known::from).collect();
    let hidden = instance::hidden(root, &process::table(root)?);
    let index = choice::choose(root, name, &known, &hidden)?;
    Ok(Found::process(root, &running[index]))
}
