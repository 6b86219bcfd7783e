//! The instances of this host, and how to reach them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use pgcalm_host::HostRoot;
use pgcalm_host::instance;
use pgcalm_host::instance::Instance;
use pgcalm_host::postmaster;
use pgcalm_host::postmaster::Candidate;
use pgcalm_host::process;
use pgcalm_host::unix_socket;

use crate::address::Address;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// By port.
    pub servers: Vec<Server>,
    /// Processes that look like servers and may not be looked at.
    pub hidden: u32,
}

/// An instance.
#[derive(Debug)]
pub struct Server {
    /// What it is found by.
    pub key: Key,
    /// Its port, if it has one.
    pub port: Option<u16>,
    /// How to connect to it; `None` if it listens nowhere.
    pub address: Option<Address>,
    /// What its processes tell; `None` if they are hidden from this user.
    pub instance: Option<Instance>,
}

/// Tells an instance from others, and from itself before a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// Its postmaster, by process id and start.
    Process(i32, u64),
    /// The directory of its socket, and its port.
    Socket(PathBuf, u16),
    /// Number of its connection string.
    Connect(usize),
}

/// Finds all that may be looked at by their processes and, unless this is root, who sees all, the others by their sockets.
pub fn find(root: &HostRoot) -> pgcalm_host::Result<Found> {
    let table = process::table(root)?;
    let found = instance::find(root, &table)?;
    let mut servers: Vec<Server> = Vec::new();
    let mut sockets = Vec::new();
    for instance in found.instances {
        let pid = instance.postmaster.pid;
        let directory = match postmaster::examine(root, pid) {
            Ok(Candidate::Postmaster(postmaster)) => postmaster.socket_directory,
            _ => None,
        };
        let owner = fs::metadata(root.path(format!("proc/{pid}")))
            .ok()
            .map(|metadata| (metadata.uid(), metadata.gid()));
        let address = match (&directory, instance.port) {
            // An abstract socket is no file.
            (Some(directory), Some(port)) if directory.is_absolute() => {
                sockets.push((directory.clone(), port));
                Some(Address::local(
                    &reachable(root, pid, directory),
                    port,
                    owner,
                ))
            }
            (_, Some(port)) => Some(Address::loopback(port)),
            _ => None,
        };
        servers.push(Server {
            key: Key::Process(pid, instance.postmaster.start_ticks),
            port: instance.port,
            address,
            instance: Some(instance),
        });
    }
    if !rustix::process::geteuid().is_root() {
        for socket in unix_socket::of_servers(root).unwrap_or_default() {
            if sockets.contains(&(socket.directory.clone(), socket.port)) {
                continue;
            }
            servers.push(Server {
                address: Some(Address::local(&socket.directory, socket.port, None)),
                port: Some(socket.port),
                key: Key::Socket(socket.directory, socket.port),
                instance: None,
            });
        }
    }
    servers.sort_by_key(|server| server.port);
    Ok(Found {
        servers,
        hidden: found.hidden.len() as u32,
    })
}

/// Where this process finds a directory of process `pid`, which may be in a container.
fn reachable(root: &HostRoot, pid: i32, directory: &Path) -> PathBuf {
    let link =
        |process: &str, name: &str| fs::read_link(root.path(format!("proc/{process}/{name}"))).ok();
    let its = pid.to_string();
    let same = ["ns/mnt", "root"]
        .iter()
        .all(|name| link("self", name) == link(&its, name));
    if same {
        return directory.to_path_buf();
    }
    root.path(format!("proc/{pid}/root"))
        .join(directory.strip_prefix("/").unwrap_or(directory))
}
