//! The instances of this host, and how to reach them.

use std::collections::HashMap;
use std::path::PathBuf;

use pgcalm_host::instance::Instance;
use pgcalm_host::postmaster::Candidate;
use pgcalm_host::process::Process;
use pgcalm_host::unix_socket::ServerSocket;
use pgcalm_host::{HostRoot, instance, postmaster, process, unix_socket};
use pgcalm_postgres::Found;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

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

/// Process ids of those who listen on sockets, for as long as they run: each question is a connection, which a server may log.
pub(crate) type Listeners = HashMap<ServerSocket, i32>;

/// Finds all that may be looked at by their processes and, unless this is root, who sees all, the others by their sockets.
pub(crate) fn find(root: &HostRoot, listeners: &mut Listeners) -> pgcalm_host::Result<Servers> {
    let table = process::table(root)?;
    let found = instance::find(root, &table)?;
    let mut servers: Vec<Server> = Vec::new();
    let (mut sockets, mut known) = (Vec::new(), Vec::new());
    for instance in found.instances {
        let pid = instance.postmaster.pid;
        known.push(pid);
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
        let mut others = unix_socket::of_servers(root).unwrap_or_default();
        others.retain(|socket| !sockets.contains(&(socket.directory.clone(), socket.port)));
        for socket in of_others(root, others, known, listeners) {
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

/// The sockets of servers that are not known yet, one of each. A pooler's has the same name, but is no server: settings of a session
/// would stay at one that it lends to others.
fn of_others(
    root: &HostRoot,
    mut sockets: Vec<ServerSocket>,
    mut known: Vec<i32>,
    listeners: &mut Listeners,
) -> Vec<ServerSocket> {
    let runs = |pid| Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    listeners.retain(|_, pid| runs(*pid));
    sockets.retain(|socket| {
        if !listeners.contains_key(socket) {
            let path = root.path(socket.directory.join(format!(".s.PGSQL.{}", socket.port)));
            if let Ok(pid @ 1..) = pgcalm_postgres::listener(&path) {
                listeners.insert(socket.clone(), pid);
            }
        }
        // Whoever can't be told may be another one.
        let Some(pid) = listeners.get(socket) else { return true };
        let name = root.read(format!("proc/{pid}/comm")).ok();
        let is_server = name.is_none_or(|name| name.contains("postgres") || name.contains("postmaster"));
        let is_new = !known.contains(pid);
        known.push(*pid);
        is_new && is_server
    });
    sockets
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use pgcalm_host::fake::FakeHost;

    use super::*;

    /// Sockets of this process, and whether they are there.
    fn sockets(root: &FakeHost, directories: &[&str]) -> (Vec<ServerSocket>, Vec<UnixListener>) {
        let one = |directory: &&str| {
            root.make(directory);
            let listener = UnixListener::bind(root.path(directory).join(".s.PGSQL.7")).unwrap();
            (ServerSocket { directory: PathBuf::from("/").join(directory), port: 7 }, listener)
        };
        directories.iter().map(one).unzip()
    }

    #[test]
    fn a_pooler_is_no_server() {
        let root = FakeHost::default();
        let (ours, _open) = sockets(&root, &["run"]);
        for (name, expected) in
            [("pgbouncer\n", &ours[..0]), ("postgres\n", &ours[..]), (".postgres-wrapp\n", &ours[..])]
        {
            root.put(format!("proc/{}/comm", std::process::id()), name);
            assert_eq!(of_others(&root, ours.clone(), Vec::new(), &mut Listeners::new()), expected, "{name}");
        }
    }

    #[test]
    fn a_server_with_two_sockets_is_one_before_it_has_told_anything() {
        let root = FakeHost::default();
        let (both, open) = sockets(&root, &["run", "tmp"]);
        let mut listeners = Listeners::new();
        let mut found = |known| of_others(&root, both.clone(), known, &mut listeners);
        assert_eq!(found(Vec::new()), both[..1]);
        assert_eq!(found(vec![std::process::id() as i32]), []);
        // Once asked, they are known for as long as the process runs.
        drop(open);
        assert_eq!(found(Vec::new()), both[..1]);
        // Of those on which nobody listens any more nothing is known.
        assert_eq!(of_others(&root, both.clone(), Vec::new(), &mut Listeners::new()), both);
    }
}
