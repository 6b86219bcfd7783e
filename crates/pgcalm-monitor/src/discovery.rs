//! The instances of this host, and how to reach them.

use std::path::PathBuf;

use pgcalm_host::instance::Instance;
use pgcalm_host::postmaster::Candidate;
use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, instance, postmaster, process, unix_socket};
use pgcalm_postgres::Found;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// By port.
    pub servers: Vec<Server>,
    /// Processes that look like servers and may not be looked at.
    pub hidden: u32,
    /// All processes.
    pub table: Vec<Process>,
}

/// An instance.
#[derive(Debug)]
pub(crate) struct Server {
    /// What it is found by.
    pub key: Key,
    /// Its port, if it has one.
    pub port: Option<u16>,
    /// Where it listens; `None` if nowhere.
    pub place: Option<Found>,
    /// What its processes tell; `None` if they are hidden from this user.
    pub instance: Option<Instance>,
}

/// Tells an instance from others, and from itself before a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// Its postmaster, by process id and start.
    Process(i32, u64),
    /// The directory of its socket, and its port.
    Socket(PathBuf, u16),
    /// Number of its connection string.
    Connect(usize),
}

/// Finds all that may be looked at by their processes and, unless this is root, who sees all, the others by their sockets.
pub(crate) fn find(root: &HostRoot) -> pgcalm_host::Result<Servers> {
    let table = process::table(root)?;
    let found = instance::find(root, &table)?;
    let mut servers: Vec<Server> = Vec::new();
    let mut sockets = Vec::new();
    for instance in found.instances {
        let pid = instance.postmaster.pid;
        let postmaster = match postmaster::examine(root, pid) {
            Ok(Candidate::Postmaster(postmaster)) => Some(postmaster),
            _ => None,
        };
        if let Some(postmaster) = &postmaster
            && let (Some(directory), Some(port)) = (&postmaster.socket_directory, postmaster.port)
        {
            sockets.push((directory.clone(), port));
        }
        servers.push(Server {
            key: Key::Process(pid, instance.postmaster.start_ticks),
            port: instance.port,
            place: postmaster
                .filter(|postmaster| postmaster.port.is_some())
                .map(|postmaster| Found::process(root, &postmaster)),
            instance: Some(instance),
        });
    }
    if !rustix::process::geteuid().is_root() {
        for socket in unix_socket::of_servers(root).unwrap_or_default() {
            if sockets.contains(&(socket.directory.clone(), socket.port)) {
                continue;
            }
            servers.push(Server {
                place: Some(Found::socket(&socket.directory, socket.port)),
                port: Some(socket.port),
                key: Key::Socket(socket.directory, socket.port),
                instance: None,
            });
        }
    }
    servers.sort_by_key(|server| server.port);
    Ok(Servers { servers, hidden: found.hidden.count() as u32, table })
}
