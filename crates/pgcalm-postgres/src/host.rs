//! The hosts that a connection may lead to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::error::ConnectError;
use crate::parameters::{Parameters, Source};
use crate::password_file;
use crate::password_file::{Entry, Found};

/// Where Debian's servers have their sockets and its libpq looks for them, and where those built from source do.
pub(crate) const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// What libpq takes without one.
pub(crate) const DEFAULT_PORT: u16 = 5432;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The directory of its socket.
    Unix(PathBuf),
    /// By TCP. The name is for the certificate; without `address` it is looked up.
    Tcp { name: String, address: Option<Literal> },
}

/// An IP address as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literal {
    pub address: IpAddr,
    /// With its zone, if it has one, e.g. `fe80::1%eth0`: the resolver has to read that.
    pub zoned: Option<String>,
}

impl Literal {
    fn read(text: &str) -> Option<Self> {
        let Some((address, zone)) = text.split_once('%') else {
            let address = text.parse().ok()?;
            return Some(Self { address, zoned: None });
        };
        let address: Ipv6Addr = address.parse().ok()?;
        (!zone.is_empty()).then(|| Self { address: address.into(), zoned: Some(text.to_string()) })
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zoned {
            Some(zoned) => f.write_str(zoned),
            None => self.address.fmt(f),
        }
    }
}

/// A password, where it comes from, and why one that may be meant was not taken.
#[derive(Clone, Default)]
pub(crate) struct Password {
    pub value: Option<String>,
    pub source: Option<Source>,
    pub ignored: Option<String>,
    /// Whether none is given but one that is meant for this very host.
    pub withheld: bool,
}

/// One of the hosts, in the order in which they are tried.
#[derive(Clone)]
pub(crate) struct Host {
    pub place: Place,
    pub port: u16,
    pub password: Password,
}

impl Place {
    /// As a user knows it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Unix(directory) => directory.display().to_string(),
            Self::Tcp { name, .. } => name.clone(),
        }
    }

    fn of(name: &str, address: Option<Literal>) -> Self {
        match name.starts_with('/') && address.is_none() {
            true => Self::Unix(PathBuf::from(name)),
            false => Self::Tcp { name: name.to_string(), address },
        }
    }

    /// The one that is looked for if nothing is given: the socket that is there, else the usual place of sockets, else this
    /// host by TCP. Root looks for none where any user may listen: at a port, or in a directory that all may write to.
    fn usual(port: u16) -> Self {
        let [of_package, of_all] = SOCKET_DIRECTORIES.map(Path::new);
        if rustix::process::geteuid().is_root() {
            return Self::Unix(of_package.to_path_buf());
        }
        let has_socket = |directory: &Path| directory.join(format!(".s.PGSQL.{port}")).exists();
        match (of_package.is_dir(), has_socket(of_all)) {
            (true, _) if has_socket(of_package) => Self::Unix(of_package.to_path_buf()),
            (_, true) => Self::Unix(of_all.to_path_buf()),
            (true, false) => Self::Unix(of_package.to_path_buf()),
            (false, false) => Self::of("localhost", None),
        }
    }

    /// As a password file has it: `localhost` for the usual place of sockets, too.
    fn in_password_file(&self) -> String {
        match self {
            Self::Unix(directory) if is_usual(directory) => "localhost".to_string(),
            place => place.name(),
        }
    }
}

/// Whether it is the directory in which a server's socket is looked for if none is named.
pub(crate) fn is_usual(directory: &Path) -> bool {
    // /var/run is a link to /run.
    directory == Path::new("/run/postgresql") || SOCKET_DIRECTORIES.iter().any(|usual| directory == Path::new(usual))
}

/// The hosts that parameters name, without passwords.
pub(crate) fn list(parameters: &Parameters) -> Result<Vec<Host>, ConnectError> {
    let names = parameters.list("host");
    let mut addresses = Vec::new();
    for address in parameters.list("hostaddr") {
        addresses.push(match address {
            "" => None,
            address => Some(
                Literal::read(address)
                    .ok_or_else(|| parameters.invalid("hostaddr", "give an IP address; names are for host"))?,
            ),
        });
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(parameters.invalid("hostaddr", &format!("give as many as there are hosts: {}", names.len())));
    }
    let count = names.len().max(addresses.len()).max(1);
    let ports = ports(parameters, count)?;
    let mut hosts = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        let name = names.get(index).copied().unwrap_or_default();
        let address = addresses.get(index).cloned().flatten();
        if name.starts_with('@') {
            return Err(parameters.invalid("host", "abstract sockets are not supported: give a directory or a name"));
        }
        let place = match (name, address) {
            ("", None) => Place::usual(port),
            ("", Some(address)) => Place::of(&address.to_string(), Some(address)),
            (name, address) => Place::of(name, address),
        };
        hosts.push(Host { place, port, password: Password::default() });
    }
    Ok(hosts)
}

fn ports(parameters: &Parameters, count: usize) -> Result<Vec<u16>, ConnectError> {
    let given = parameters.list("port");
    let read = |text: &str| match text {
        "" => Ok(DEFAULT_PORT),
        text => match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(parameters.invalid("port", "give a number from 1 to 65535")),
        },
    };
    match given.as_slice() {
        [] => Ok(vec![DEFAULT_PORT; count]),
        [port] => Ok(vec![read(port)?; count]),
        ports if ports.len() == count => ports.iter().map(|port| read(port)).collect(),
        _ => Err(parameters.invalid("port", &format!("give one, or as many as there are hosts: {count}"))),
    }
}

impl Host {
    /// What a password file has for it.
    pub(crate) fn look_up_password(&mut self, file: &Path, database: &str, user: &str) {
        let named = self.password.withheld;
        let host = match &self.place {
            // A port, and a directory that all may write to, are anybody's.
            Place::Tcp { .. } if named => return,
            place if named => place.name(),
            place => place.in_password_file(),
        };
        let entry = Entry { host: &host, named, port: &self.port.to_string(), database, user };
        match password_file::look_up(file, &entry) {
            Found::Password { password, line } => {
                self.password.value = Some(password);
                self.password.source = Some(Source::PasswordFile { file: file.to_path_buf(), line });
            }
            Found::Ignored(why) => self.password.ignored = Some(why),
            Found::Nothing => {}
        }
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        format!("{} port {}", self.place.name(), self.port)
    }

    /// Whether it is this host, as far as the name tells.
    pub(crate) fn is_local(&self) -> bool {
        match &self.place {
            Place::Unix(_) => true,
            Place::Tcp { name, address } => {
                let address = address.clone().or_else(|| Literal::read(name));
                match address {
                    Some(literal) => literal.address.is_loopback(),
                    None => name == "localhost",
                }
            }
        }
    }
}
