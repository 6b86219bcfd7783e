//! How a server is reached, and as whom.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::ChannelBinding;

use crate::environment::Environment;
use crate::error::ConnectError;
use crate::found::Found;
use crate::host;
use crate::host::{Host, Place};
use crate::parameters::{Parameters, Source};
use crate::peer::Owner;
use crate::proof::Postmaster;
use crate::session::Session;
use crate::tls::Tls;

/// The superuser's usual name.
const SUPERUSER: &str = "postgres";

/// What the program that connects fills in where its user says nothing.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// What the server shows as `application_name`, e.g. `pgcalm doctor`.
    pub application_name: &'a str,
    /// The role.
    pub user: DefaultUser,
    /// Longest time for coming about, of each host.
    pub connect_timeout: Duration,
    /// Whether an attempt that takes longer is given up even if the server holds the connection and doesn't answer. What was
    /// given up may stay in a thread for as long as this program runs. Without it the time is that of reaching the server.
    pub gives_up: bool,
    /// What each session is set to; `None` for nothing.
    pub session: Option<Session>,
}

/// Who connects unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultUser {
    /// `postgres`.
    Superuser,
    /// As with libpq, the operating system user. Instead of root, who is hardly ever a role, the owner of the server's socket, or,
    /// of a container's, too, `postgres`.
    OperatingSystem,
}

/// `target_session_attrs`: what a host has to be, or the next one is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

const TARGETS: [(&str, Target); 6] = [
    ("any", Target::Any),
    ("read-write", Target::ReadWrite),
    ("read-only", Target::ReadOnly),
    ("primary", Target::Primary),
    ("standby", Target::Standby),
    ("prefer-standby", Target::PreferStandby),
];

/// Where a connection leads, complete: nothing is looked up later but host names.
#[derive(Clone)]
pub struct Address {
    pub(crate) hosts: Vec<Host>,
    /// That a session has to be with.
    pub(crate) postmaster: Option<Postmaster>,
    /// Whether the host is where that was found to listen, and not one that the user has named.
    pub(crate) is_found: bool,
    pub(crate) user: String,
    /// Whether that is what was asked for, and no default.
    pub(crate) user_is_given: bool,
    pub(crate) database: String,
    /// All but host, port, password, user, database and TLS.
    pub(crate) base: Config,
    /// `None`: as long as it takes.
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) gives_up: bool,
    pub(crate) target: Target,
    pub(crate) tls: Tls,
    pub(crate) session: Option<Session>,
}

impl Address {
    /// Of a connection string of libpq's or a URI, which may be empty. What it leaves out is taken from the service that it
    /// names, from `found`, from environment variables and from `caller`, in this order.
    pub fn new(conninfo: &str, found: Option<&Found>, caller: &Caller) -> Result<Self, ConnectError> {
        Self::in_environment(conninfo, found, caller, &Environment::of_process())
    }

    /// Of the superuser's sessions with a server of this program's own, with its socket in `directory`. Nothing of the
    /// environment has a part in it, and the session is left as it is.
    pub fn of_superuser(directory: &Path, application_name: &str) -> Result<Self, ConnectError> {
        let caller = Caller {
            application_name,
            user: DefaultUser::Superuser,
            connect_timeout: Duration::from_secs(30),
            gives_up: false,
            session: None,
        };
        let found = Found::socket(directory, host::DEFAULT_PORT);
        Self::in_environment("", Some(&found), &caller, &Environment::none())
    }

    pub(crate) fn in_environment(
        conninfo: &str,
        found: Option<&Found>,
        caller: &Caller,
        environment: &Environment,
    ) -> Result<Self, ConnectError> {
        let mut parameters = Parameters::parse(conninfo)?;
        parameters.add_service(environment, false)?;
        if let Some(found) = found {
            found.add_to(&mut parameters);
        }
        parameters.add_service(environment, true)?;
        parameters.add_environment(environment)?;
        parameters.check()?;

        let mut hosts = host::list(&parameters)?;
        let user = match parameters.text("user") {
            Some(user) => user.to_string(),
            None => default_user(caller, found, &hosts, environment),
        };
        let database = parameters.text("dbname").unwrap_or(SUPERUSER).to_string();
        let withheld = found.is_some_and(Found::is_anybodys);
        add_passwords(&mut hosts, &parameters, environment, (database.as_str(), user.as_str()), withheld);
        let by_tcp = |host: &Host| matches!(host.place, Place::Tcp { .. });
        let tls = if hosts.iter().any(by_tcp) { Tls::new(&parameters, environment)? } else { Tls::none() };
        let target = parameters.choice("target_session_attrs", &TARGETS)?;
        Ok(Self {
            hosts,
            postmaster: found.and_then(Found::postmaster).cloned(),
            is_found: parameters.get("host").is_some_and(|host| host.source == Source::Found),
            user,
            user_is_given: parameters.get("user").is_some(),
            database,
            base: base(&parameters, caller)?,
            connect_timeout: parameters.seconds("connect_timeout")?.unwrap_or(Some(caller.connect_timeout)),
            gives_up: caller.gives_up,
            target: target.unwrap_or(Target::Any),
            tls,
            session: caller.session,
        })
    }

    /// The same server, another database. Its password is the one that was found for the first.
    pub fn with_database(&self, database: &str) -> Self {
        Self { database: database.to_string(), ..self.clone() }
    }

    /// Port of the first host.
    pub fn port(&self) -> u16 {
        self.hosts[0].port
    }

    /// The first host's directory of sockets or name; a directory that is the usual one is left out.
    pub fn host(&self) -> Option<String> {
        match &self.hosts[0].place {
            Place::Unix(directory) if host::is_usual(directory) => None,
            place => Some(place.name()),
        }
    }

    /// Whether it is a server of this host, as far as the address tells.
    pub fn is_local(&self) -> bool {
        self.hosts.iter().all(Host::is_local)
    }

    /// Whether the server is reached by a Unix socket, and so is on this host for certain.
    pub fn is_socket(&self) -> bool {
        let by_socket = |host: &Host| matches!(host.place, Place::Unix(_));
        self.hosts.iter().all(by_socket)
    }

    /// The directories of sockets and the names of hosts, for messages.
    pub fn place(&self) -> String {
        let places: Vec<String> = self.hosts.iter().map(Host::describe).collect();
        places.join(", ")
    }
}

/// Without the passwords.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("place", &self.place())
            .field("database", &self.database)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

fn default_user(caller: &Caller, found: Option<&Found>, hosts: &[Host], environment: &Environment) -> String {
    let superuser = || SUPERUSER.to_string();
    if caller.user == DefaultUser::Superuser {
        return superuser();
    }
    if environment.uid != 0 {
        return environment.user.clone().unwrap_or_else(superuser);
    }
    let owner = match (found, &hosts[0].place) {
        (Some(found), Place::Unix(_)) => found.owner(),
        (None, Place::Unix(directory)) => Owner::of_socket(directory, hosts[0].port),
        _ => None,
    };
    owner.and_then(Owner::name).unwrap_or_else(superuser)
}

/// A password that is given is for all hosts; a password file may have one for each. `withheld`: only where it names the host.
fn add_passwords(
    hosts: &mut [Host],
    parameters: &Parameters,
    environment: &Environment,
    (database, user): (&str, &str),
    withheld: bool,
) {
    let file = parameters.text("passfile").map(PathBuf::from).or_else(|| environment.in_home(".pgpass"));
    let given = parameters.get("password").filter(|_| !withheld);
    for host in hosts {
        host.password.withheld = withheld;
        if let Some(given) = given {
            host.password.value = Some(given.value.clone());
            host.password.source = Some(given.source.clone());
        } else if let Some(file) = &file {
            host.look_up_password(file, database, user);
        }
    }
}

fn base(parameters: &Parameters, caller: &Caller) -> Result<Config, ConnectError> {
    let mut config = Config::new();
    let name = parameters.text("application_name").unwrap_or(caller.application_name);
    config.application_name(name);
    if let Some(options) = parameters.text("options") {
        config.options(options);
    }
    let binding = parameters.choice(
        "channel_binding",
        &[
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ],
    )?;
    config.channel_binding(binding.unwrap_or(ChannelBinding::Prefer));
    if let Some(keepalives) = parameters.number("keepalives")? {
        config.keepalives(keepalives != 0);
    }
    if let Some(Some(idle)) = parameters.seconds("keepalives_idle")? {
        config.keepalives_idle(idle);
    } else {
        config.keepalives_idle(NETWORK_TIMEOUT);
    }
    if let Some(Some(interval)) = parameters.seconds("keepalives_interval")? {
        config.keepalives_interval(interval);
    }
    if let Some(count) = parameters.number("keepalives_count")?
        && let Ok(count @ 1..) = u32::try_from(count)
    {
        config.keepalives_retries(count);
    }
    match parameters.number("tcp_user_timeout")? {
        // 0: as the kernel has it.
        Some(milliseconds) => {
            if let Ok(milliseconds @ 1..) = u64::try_from(milliseconds) {
                config.tcp_user_timeout(Duration::from_millis(milliseconds));
            }
        }
        None => {
            config.tcp_user_timeout(NETWORK_TIMEOUT);
        }
    }
    Ok(config)
}

/// After this time a remote host that has vanished is given up; libpq leaves that to the kernel, and may wait for hours.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
