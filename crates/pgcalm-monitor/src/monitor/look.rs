//! Looks at processes and at where servers' files lie, in a thread of its own: any file system may hang, and samples go on then.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use pgcalm_host::instance::Instance as HostInstance;
use pgcalm_host::instance::Role;
use pgcalm_host::pressure::Group;
use pgcalm_host::{HostRoot, instance, process_file};
use pgcalm_postgres::Address;

use crate::discovery::{Key, Listeners, Server};
use crate::model::{Missing, Subject, Volume};
use crate::server::Facts;
use crate::{address, discovery, volumes};

/// An instance that is watched already.
pub(super) struct Known {
    pub(super) key: Key,
    /// Whether it is an instance of this host.
    pub(super) local: bool,
    /// Known before processes are listed: a session that comes meanwhile is not among them.
    pub(super) facts: Option<Facts>,
}

/// What was found.
pub(super) struct Look {
    /// Processes that look like servers and may not be looked at.
    pub(super) hidden: u32,
    /// Those that are not watched yet, by port and place.
    pub(super) new: Vec<New>,
    /// Of all that are there; of connection strings only where their servers have told of themselves.
    pub(super) located: Vec<(Key, Located)>,
}

/// An instance that has come.
pub(super) struct New {
    pub(super) key: Key,
    pub(super) port: Option<u16>,
    /// What tells it from others of its port.
    pub(super) place: String,
    pub(super) pid: Option<i32>,
    /// The way to it, or why there is none.
    pub(super) address: Result<Address, String>,
}

/// Where an instance lies.
#[derive(Default)]
pub(super) struct Located {
    /// Whether its server had told where its files are.
    pub(super) is_told: bool,
    pub(super) host: Option<HostInstance>,
    pub(super) volumes: Vec<Volume>,
    pub(super) missing: Vec<Missing>,
    /// Its control group.
    pub(super) group: Option<Group>,
    /// Free space where WAL is, as the server may use it.
    pub(super) free_bytes: Option<u64>,
    /// Whether the socket by which it was found can be seen from here.
    pub(super) shows_socket: bool,
}

/// The thread. It ends some time after this is dropped: nobody waits for one that is stuck.
pub(super) struct Looker {
    wanted: Sender<Vec<Known>>,
    looks: Receiver<pgcalm_host::Result<Look>>,
    goes_on: bool,
}

impl Looker {
    /// Starts it; `all`: new instances are looked for.
    pub(super) fn start(root: HostRoot, all: bool) -> std::io::Result<Self> {
        let (wanted, requests) = channel::<Vec<Known>>();
        let (results, looks) = channel();
        thread::Builder::new().name("pgcalm look".to_string()).spawn(move || {
            let mut listeners = Listeners::new();
            for known in requests {
                let _ = results.send(look(&root, all, &known, &mut listeners));
            }
        })?;
        Ok(Self { wanted, looks, goes_on: false })
    }

    /// Whether a look has been begun and has not ended.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Begins a look.
    pub(super) fn begin(&mut self, known: Vec<Known>) {
        // Without the thread there is no result either, which is told then.
        let _ = self.wanted.send(known);
        self.goes_on = true;
    }

    /// What the look that goes on has found, if it ends within that time.
    pub(super) fn take(&mut self, patience: Duration) -> Option<anyhow::Result<Look>> {
        if !self.goes_on {
            return None;
        }
        let look = match self.looks.recv_timeout(patience) {
            Ok(look) => look.map_err(anyhow::Error::from),
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Err(anyhow::anyhow!("pgcalm failed at looking for servers")),
        };
        self.goes_on = false;
        Some(look)
    }
}

fn look(root: &HostRoot, all: bool, known: &[Known], listeners: &mut Listeners) -> pgcalm_host::Result<Look> {
    let found = discovery::find(root, listeners)?;
    if !all {
        let located = known.iter().filter_map(|known| {
            let facts = known.facts.as_ref()?;
            let of_host = found.servers.iter().filter(|_| known.local);
            let instances = of_host.filter_map(|server| server.instance.as_ref());
            let postmaster = |instance: &&HostInstance| instance.postmaster.pid;
            let host = instance::serving(root, &found.table, instances, postmaster, facts.backend_pid).cloned();
            Some((known.key.clone(), Located::of(root, &known.key, host, Some(facts).filter(|_| known.local), true)))
        });
        return Ok(Look { hidden: 0, new: Vec::new(), located: located.collect() });
    }
    let mut look = Look { hidden: found.hidden, new: Vec::new(), located: Vec::new() };
    for server in found.servers {
        let known = known.iter().find(|known| known.key == server.key);
        if known.is_none() {
            // Whoever can run a process can make a server of which nothing is right.
            let address = server.place.as_ref().ok_or_else(|| "it listens on no port".to_string());
            look.new.push(New {
                key: server.key.clone(),
                port: server.port,
                place: place(root, &server),
                pid: server.instance.as_ref().map(|instance| instance.postmaster.pid),
                address: address.and_then(|place| address::of_found(place).map_err(|error| error.to_string())),
            });
        }
        let facts = known.and_then(|known| known.facts.as_ref());
        let located = Located::of(root, &server.key, server.instance, facts, facts.is_some());
        look.located.push((server.key, located));
    }
    // After a restart of this program they have the same names again.
    look.new.sort_by(|a, b| (a.port, &a.place).cmp(&(b.port, &b.place)));
    Ok(look)
}

impl Located {
    /// Of an instance with that process, if it is seen, and with what its server has told.
    fn of(root: &HostRoot, key: &Key, host: Option<HostInstance>, facts: Option<&Facts>, is_told: bool) -> Self {
        let shows_socket = matches!(key, Key::Socket(directory, port) if root.path(directory.join(format!(".s.PGSQL.{port}"))).exists());
        let mut missing = Vec::new();
        let volumes = match (&host, facts.map(|facts| (&facts.data_directory, facts.backend_pid))) {
            (Some(host), _) => volumes::of_instance(root, host, &mut missing),
            (None, Some((Some(directory), backend))) => {
                volumes::of_data_directory(root, Path::new(directory), backend, &mut missing)
            }
            (None, Some((None, _))) => {
                missing.push(Missing {
                    subject: Subject::Devices,
                    reason: "the data directory is hidden from this user".to_string(),
                    remedy: Some("connect as a member of pg_monitor".to_string()),
                });
                Vec::new()
            }
            (None, None) => Vec::new(),
        };
        // Each of its disks may lack the same.
        missing.dedup();
        let group = host.as_ref().and_then(|host| Group::of_process(root, host.postmaster.pid).ok());
        let free_bytes = host.as_ref().and_then(|host| free_bytes(root, host));
        Self { is_told, host, volumes, missing, group, free_bytes, shows_socket }
    }
}

fn free_bytes(root: &HostRoot, host: &HostInstance) -> Option<u64> {
    let wal = host.places.iter().find(|place| place.role == Role::Wal)?;
    let directory = process_file::find(root, host.postmaster.pid, &wal.path).ok()?;
    let statistics = rustix::fs::fstatvfs(directory).ok()?;
    Some(statistics.f_bavail * statistics.f_frsize)
}

/// What tells it from others of its port.
fn place(root: &HostRoot, server: &Server) -> String {
    match (&server.instance, &server.key) {
        (Some(instance), _) => {
            let directory = instance.data_directory.display();
            // Those of containers have port and directory in common.
            let container = container(root, instance.postmaster.pid);
            container.map_or_else(|| directory.to_string(), |host| format!("{host}:{directory}"))
        }
        (None, Key::Socket(directory, _)) => directory.display().to_string(),
        _ => String::new(),
    }
}

/// The host name of the container that a process runs in, as far as that is not this process's own.
fn container(root: &HostRoot, pid: i32) -> Option<String> {
    let namespace = |process: &str| std::fs::read_link(root.path(format!("proc/{process}/ns/uts"))).ok();
    if namespace("self") == namespace(&pid.to_string()) {
        return None;
    }
    let name = process_file::read(root, pid, Path::new("/etc/hostname"))?.trim().to_string();
    let is_name = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    Some(name).filter(|name| (1..=253).contains(&name.len()) && is_name(name))
}
