//! Making a connection: host by host, with and without TLS, as this user and as the server's.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use pgcalm_host::stop;
use postgres_openssl::MakeTlsConnector;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

use crate::address::{Address, Target};
use crate::client::Client;
use crate::error::ConnectError;
use crate::failure;
use crate::failure::Failure;
use crate::host::{Host, Literal, Place};
use crate::peer::Owner;
use crate::proof::{Postmaster, Socket};
use crate::session::Session;
use crate::tls::{Mode, Tls};
use crate::version;

/// How often the wait for that thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// All that the connecting thread needs.
struct Attempt {
    config: Config,
    connector: Option<MakeTlsConnector>,
    /// Whom the server is to see, instead of this process's own user.
    owner: Option<Owner>,
    proof: Proof,
    target: Target,
    session: Option<Session>,
}

/// How the server is held against the one that is meant.
#[derive(Clone)]
enum Proof {
    /// The user has said where it is.
    None,
    /// Before it is spoken to, by its socket.
    Socket(Postmaster, Arc<Socket>),
    /// Before it is spoken to, by who listens at its port.
    Port(Postmaster, IpAddr, u16),
    /// By its first answer.
    Backend(Postmaster),
}

impl Address {
    /// Connects to the first host that takes the session and is what `target_session_attrs` says.
    pub fn connect(&self) -> Result<Client, ConnectError> {
        match self.target {
            Target::PreferStandby => match self.connect_to(Target::Standby) {
                Err(ConnectError::Refused { .. }) => self.connect_to(Target::Any),
                result => result,
            },
            target => self.connect_to(target),
        }
    }

    fn connect_to(&self, target: Target) -> Result<Client, ConnectError> {
        let mut places = Vec::new();
        let mut first = None;
        for host in &self.hosts {
            match self.connect_to_host(host, target) {
                Ok(client) => return Ok(client),
                Err(Failure::Interrupted) => return Err(ConnectError::Interrupted),
                Err(failure) => {
                    let reason = failure::explain(self, host, &failure);
                    places.push(format!(
                        "{}, database {}, user {}: {reason}",
                        host.describe(),
                        self.database,
                        self.user
                    ));
                    first.get_or_insert((reason, failure.is_timed_out(), failure.is_closed(), failure.is_denied()));
                }
            }
        }
        let (reason, timed_out, closed, denied) = first.unwrap_or_default();
        let text = format!("no connection to {}", places.join("; nor to "));
        Err(ConnectError::Refused { text, reason, timed_out, closed, denied })
    }

    /// With TLS or without, and maybe again the other way round.
    fn connect_to_host(&self, host: &Host, target: Target) -> Result<Client, Failure> {
        let none = Tls::none();
        let tls = match host.place {
            Place::Unix(_) => &none,
            Place::Tcp { .. } => &self.tls,
        };
        let connect = |mode| self.connect_as_somebody(host, target, tls, mode);
        match tls.mode {
            Mode::Disable => connect(SslMode::Disable),
            Mode::Allow => connect(SslMode::Disable).or_else(|failure| match failure {
                failure if failure.is_rejection() => connect(SslMode::Require).map_err(|_| failure),
                failure => Err(failure),
            }),
            Mode::Prefer => connect(SslMode::Prefer).or_else(|failure| match failure {
                failure if failure.is_rejection() || failure.is_tls() => connect(SslMode::Disable).map_err(|_| failure),
                failure => Err(failure),
            }),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => connect(SslMode::Require),
        }
    }

    /// Root's session is let in by `peer` authentication if the server sees its own user, which is that of most superusers.
    /// For a role of another name root's own comes first, in case there is a map for it.
    fn connect_as_somebody(&self, host: &Host, target: Target, tls: &Tls, mode: SslMode) -> Result<Client, Failure> {
        let is_root = rustix::process::geteuid().is_root();
        let mut config = self.config(host, tls, mode);
        let proof = self.proof(host)?;
        // Here until the session is there.
        let mut link = None;
        let owner = match (&proof, &host.place) {
            (Proof::Socket(_, socket), _) => {
                let directory = socket.directory(host.port).map_err(Failure::Thread)?;
                place_at(&mut config, link.insert(directory).path());
                Some(socket.owner)
            }
            (Proof::Port(_, address, _), _) => {
                config.hostaddr(*address);
                None
            }
            (_, Place::Unix(directory)) => Owner::of_socket(directory, host.port),
            _ => None,
        };
        let owner = owner.filter(|owner| is_root && owner.uid != 0);
        let longest = self.connect_timeout.filter(|_| self.gives_up);
        let addresses = match (&proof, &host.place) {
            (Proof::Port(..), _) => Vec::new(),
            (_, Place::Tcp { name, address: None }) => addresses(name, host.port, longest)?,
            _ => Vec::new(),
        };
        let connect = |owner| {
            first_of(&addresses, |address| {
                let mut config = config.clone();
                if let Some(address) = address {
                    config.hostaddr(address);
                }
                let attempt = Attempt {
                    config,
                    connector: tls.connector.clone(),
                    owner,
                    proof: proof.clone(),
                    target,
                    session: self.session,
                };
                in_thread(longest, move || attempt.connect())
            })
        };
        let Some(owner) = owner else { return connect(None) };
        let is_owners = !self.user_is_given || owner.name().is_none_or(|name| name == self.user);
        let (first, second) = if is_owners { (Some(owner), None) } else { (None, Some(owner)) };
        connect(first).or_else(|failure| match failure {
            failure if failure.is_other_user() => connect(second).map_err(|_| failure),
            failure => Err(failure),
        })
    }

    fn proof(&self, host: &Host) -> Result<Proof, Failure> {
        let Some(postmaster) = &self.postmaster else { return Ok(Proof::None) };
        let postmaster = postmaster.clone();
        if !self.is_found {
            return Ok(Proof::Backend(postmaster));
        }
        match &host.place {
            Place::Unix(_) => {
                let socket = postmaster.socket(host.port)?;
                Ok(Proof::Socket(postmaster, Arc::new(socket)))
            }
            Place::Tcp { name, .. } => {
                let addresses = (name.as_str(), host.port).to_socket_addrs();
                let addresses: Vec<IpAddr> = addresses.map_err(Failure::Reach)?.map(|address| address.ip()).collect();
                let listens = |address: &&IpAddr| postmaster.prove_port(**address, host.port).is_ok();
                // The last one says why not.
                let address = addresses.iter().find(listens).or(addresses.last());
                let none = || Failure::Reach(io::ErrorKind::AddrNotAvailable.into());
                let address = *address.ok_or_else(none)?;
                Ok(Proof::Port(postmaster, address, host.port))
            }
        }
    }

    fn config(&self, host: &Host, tls: &Tls, mode: SslMode) -> Config {
        let mut config = self.base.clone();
        config.user(&self.user).dbname(&self.database).port(host.port).ssl_mode(mode).ssl_negotiation(tls.negotiation);
        match &host.place {
            // Its socket has a path of its own.
            Place::Unix(_) if self.postmaster.is_some() && self.is_found => {}
            Place::Unix(directory) => place_at(&mut config, directory),
            Place::Tcp { name, address } => match address {
                // The library has no place for a zone beside a name: the certificate has to be the address's.
                Some(Literal { zoned: Some(zoned), .. }) => {
                    config.host(zoned);
                }
                Some(literal) => {
                    config.hostaddr(literal.address).host(name);
                }
                None => {
                    config.host(name);
                }
            },
        };
        if let Some(password) = &host.password.value {
            config.password(password);
        }
        if let Some(timeout) = self.connect_timeout {
            config.connect_timeout(timeout);
        }
        config
    }
}

fn place_at(config: &mut Config, directory: &Path) {
    config.host_path(directory);
}

/// All that a name stands for; none where it stands for nothing, which the library says.
fn addresses(name: &str, port: u16, longest: Option<Duration>) -> Result<Vec<IpAddr>, Failure> {
    let name = name.to_string();
    in_thread(longest, move || {
        let found = (name.as_str(), port).to_socket_addrs();
        Ok(found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default())
    })
}

/// The session of the first address that gives one; else why the last does not. Without addresses the library finds some.
///
/// Each has the time of a host, as with libpq: the library's own attempts at the addresses of a name have it together.
fn first_of<T>(
    addresses: &[IpAddr],
    mut connect: impl FnMut(Option<IpAddr>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some((last, others)) = addresses.split_last() else { return connect(None) };
    for address in others {
        match connect(Some(*address)) {
            Err(Failure::Connect(_) | Failure::Silent(_)) => {}
            ended => return ended,
        }
    }
    connect(Some(*last))
}

/// Works in a thread of its own: that may take on another user, and be left alone if nobody answers.
fn in_thread<T: Send + 'static>(
    longest: Option<Duration>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("pgcalm connect".to_string())
        .spawn(move || {
            // Nobody waits any more for one that was given up: it ends.
            let _ = sender.send(work());
        })
        .map_err(Failure::Thread)?;
    let started = Instant::now();
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => {
                let ended = io::Error::other("the connecting thread ended");
                return Err(Failure::Thread(ended));
            }
            Err(RecvTimeoutError::Timeout) if stop::is_asked_for() => {
                return Err(Failure::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(longest) = longest.filter(|longest| started.elapsed() >= *longest) {
                    return Err(Failure::Silent(longest));
                }
            }
        }
    }
}

impl Attempt {
    fn connect(self) -> Result<Client, Failure> {
        self.proof.before()?;
        if let Some(owner) = self.owner {
            owner.take_on().map_err(|error| Failure::Thread(error.into()))?;
        }
        let longest = self.session.map(Session::patience);
        let mut client = match self.connector {
            Some(connector) => Client::connect(&self.config, connector, longest),
            None => Client::connect(&self.config, NoTls, longest),
        }
        .map_err(Failure::Connect)?;
        self.proof.after(&mut client)?;
        version::refusal(&client.server_version).map_or(Ok(()), |text| Err(Failure::Unfit(text)))?;
        check_target(&mut client, self.target)?;
        if let Some(session) = self.session {
            session.apply(&mut client).map_err(Failure::Session)?;
        }
        Ok(client)
    }
}

impl Proof {
    /// What can be told before anything is sent.
    fn before(&self) -> Result<(), Failure> {
        match self {
            Self::Socket(postmaster, socket) => postmaster.prove_socket(socket),
            Self::Port(postmaster, address, port) => postmaster.prove_port(*address, *port),
            Self::None | Self::Backend(_) => Ok(()),
        }
    }

    /// What is left to be told before the server is asked anything else. A port may have changed hands while the
    /// connection came about, which a socket can't.
    fn after(&self, client: &mut Client) -> Result<(), Failure> {
        match self {
            Self::Port(postmaster, address, port) => postmaster.prove_port(*address, *port),
            Self::Backend(postmaster) => postmaster.prove_backend(client),
            Self::None | Self::Socket(..) => Ok(()),
        }
    }
}

/// Whether the server is what was asked for (`CONNECTION_CHECK_TARGET` of fe-connect.c).
fn check_target(client: &mut Client, target: Target) -> Result<(), Failure> {
    if target == Target::Any {
        return Ok(());
    }
    let row = client
        .query_one(
            "SELECT pg_catalog.pg_is_in_recovery(), \
                    pg_catalog.current_setting('default_transaction_read_only') OPERATOR(pg_catalog.=) 'on'",
            &[],
        )
        .map_err(Failure::Session)?;
    let is_standby: bool = row.get(0);
    let is_read_only = is_standby || row.get::<_, bool>(1);
    match target {
        Target::ReadWrite if is_read_only => Err(Failure::Target("it takes no writes")),
        Target::ReadOnly if !is_read_only => Err(Failure::Target("it takes writes")),
        Target::Primary if is_standby => Err(Failure::Target("it is a standby")),
        Target::Standby if !is_standby => Err(Failure::Target("it is no standby")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name with an address that nobody answers at, as of a host that is down, leads on to the other.
    #[test]
    fn each_address_of_a_name_is_tried() {
        let all: Vec<IpAddr> = ["192.0.2.1", "192.0.2.2"].iter().map(|address| address.parse().unwrap()).collect();
        let tried = |first: fn() -> Failure| {
            let mut tried = Vec::new();
            let result = first_of(&all, |address| {
                tried.extend(address);
                if address == Some(all[0]) { Err(first()) } else { Ok(()) }
            });
            (tried.len(), result.is_ok())
        };
        assert_eq!(tried(|| Failure::Silent(Duration::ZERO)), (2, true));
        // It is the server that is asked for, or the user wants no more.
        assert_eq!(tried(|| Failure::Target("it is a standby")), (1, false));
        assert_eq!(tried(|| Failure::Interrupted), (1, false));
        assert!(first_of(&[], |address| if address.is_none() { Ok(()) } else { Err(Failure::Interrupted) }).is_ok());
    }

    /// The time is that of an address, and begins anew with each.
    #[test]
    fn who_does_not_answer_is_given_up() {
        let (_keep, never) = mpsc::channel::<()>();
        let waits = in_thread(Some(Duration::from_millis(1)), move || {
            let _ = never.recv();
            Ok(())
        });
        assert!(matches!(waits, Err(Failure::Silent(_))));
        let name = addresses("127.0.0.1", 5432, None).unwrap();
        assert_eq!(name, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }
}
