//! Finds the instances to watch, and puts a sample together of what each and the host tell.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use pgcalm_host::{Failure, HostRoot, process_file};

use super::watched::Watched;
use super::{IncidentSource, Options, Way, now_ms};
use crate::discovery::Key;
use crate::host_reader::{Disks, Interfaces, Load};
use crate::model::{Host, Missing, Stop, Subject};
use crate::server::Facts;
use crate::{address, discovery, host_reader};

/// New instances, and changed limits, are looked for at this interval.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// All that is watched, and what rates are taken from.
pub(super) struct Assembler {
    options: Options,
    watched: Vec<Watched>,
    names: HashMap<(Option<u16>, String), String>,
    hidden: u32,
    disks: Disks,
    interfaces: Interfaces,
    load: Load,
    looked: Option<Instant>,
}

impl Assembler {
    /// Starts watching what is named; what is found on the host comes with the first sample.
    pub(super) fn new(options: Options) -> Result<Self, Failure> {
        let mut watched: Vec<Watched> = Vec::new();
        for (number, connect) in options.connect.iter().enumerate() {
            let (name, address) = address::parse(connect)?;
            if watched.iter().any(|other| other.name == name) {
                return Err(Failure::Usage(format!("--connect: {name} is named twice")));
            }
            let local = address.is_local();
            let port = Some(address.port());
            watched.push(Watched::new(Key::Connect(number), name, port, local, Ok(address), &options));
        }
        Ok(Self {
            options,
            watched,
            names: HashMap::new(),
            hidden: 0,
            disks: Disks::default(),
            interfaces: Interfaces::default(),
            load: Load::default(),
            looked: None,
        })
    }

    /// How what is watched can be looked at between two samples.
    pub(super) fn ways(&self) -> Vec<Way> {
        self.watched.iter().map(Watched::way).collect()
    }

    /// A sample.
    pub(super) fn assemble(&mut self) -> anyhow::Result<Host> {
        if self.looked.is_none_or(|when| when.elapsed() >= DISCOVERY_INTERVAL)
            || self.watched.iter().any(|watched| !watched.located && watched.facts().is_some())
        {
            self.look_around()?;
            self.looked = Some(Instant::now());
        }
        let root = &self.options.root;
        let mut host = Host { time_ms: now_ms(), hidden_processes: self.hidden, ..Host::default() };
        match host_reader::memory(root) {
            Ok(memory) => host.memory = Some(memory),
            Err(missing) => host.missing.push(missing),
        }
        (host.cpu, host.pressure) = self.load.read(root);
        if let Some(IncidentSource(count)) = &self.options.incidents {
            host.incidents = count();
        }
        let mut known: Vec<(String, f64)> = Vec::new();
        for watched in &mut self.watched {
            let (mut instance, facts) = watched.instance(root, self.options.interval);
            Stop::judge(&mut instance, host.memory.as_ref().filter(|_| watched.local));
            if let (Key::Socket(..) | Key::Process(..), Some(facts)) = (&watched.key, facts)
                && let Some(directory) = facts.data_directory
            {
                // A server with several sockets is found by each of them.
                let identity = (directory, facts.started);
                if known.contains(&identity) {
                    continue;
                }
                known.push(identity);
            }
            host.instances.push(instance);
        }
        if self.hidden > 0 && self.options.connect.is_empty() {
            host.missing.push(Missing {
                subject: Subject::Instances,
                reason: format!(
                    "{} processes look like servers of other users; of these only what their sockets offer is shown",
                    self.hidden
                ),
                remedy: Some("run as root to see where their files lie".to_string()),
            });
        }
        let disks: BTreeSet<String> = host
            .instances
            .iter()
            .flat_map(|instance| &instance.volumes)
            .filter_map(|volume| volume.disk.clone())
            .collect();
        host.devices = self.disks.read(root, &disks, &mut host.missing);
        let interfaces: BTreeSet<String> = host
            .instances
            .iter()
            .filter_map(|instance| instance.replication.as_ref())
            .flat_map(|replication| &replication.standbys)
            .filter_map(|standby| standby.interface.clone())
            .collect();
        host.interfaces = self.interfaces.read(root, &interfaces, &mut host.missing);
        Ok(host)
    }

    /// Finds instances that have come, drops those that have gone, and reads anew what they lie on.
    fn look_around(&mut self) -> anyhow::Result<()> {
        // Known before processes are listed: a session that comes meanwhile is not among them.
        let known: Vec<Option<Facts>> = self.watched.iter().map(Watched::facts).collect();
        let mut found = discovery::find(&self.options.root)?;
        if !self.options.connect.is_empty() {
            for (watched, facts) in self.watched.iter_mut().zip(known) {
                if let Some(facts) = facts {
                    watched.match_process(&self.options.root, &found, &facts);
                    watched.read_volumes(&self.options.root);
                }
            }
            return Ok(());
        }
        self.hidden = found.hidden;
        // One that nobody asks, as there was no way to it, is begun anew.
        let is_there = |watched: &Watched| found.servers.iter().any(|server| server.key == watched.key);
        self.watched.retain(|watched| watched.is_asked() && is_there(watched));
        // After a restart of this program they have the same names again.
        found.servers.sort_by_cached_key(|server| (server.port, self.place(server)));
        for server in found.servers {
            if let Some(watched) = self.watched.iter_mut().find(|watched| watched.key == server.key) {
                watched.host = server.instance;
                continue;
            }
            let name = self.name(&server);
            // Whoever can run a process can make a server of which nothing is right.
            let address = server.place.as_ref().ok_or_else(|| "it listens on no port".to_string());
            let address = address.and_then(|place| address::of_found(place).map_err(|error| error.to_string()));
            let mut watched = Watched::new(server.key, name, server.port, true, address, &self.options);
            watched.host = server.instance;
            self.watched.push(watched);
        }
        self.watched.sort_by(|a, b| (a.port, &a.name).cmp(&(b.port, &b.name)));
        for watched in &mut self.watched {
            watched.read_volumes(&self.options.root);
        }
        Ok(())
    }

    /// What tells it from others of its port.
    fn place(&self, server: &discovery::Server) -> String {
        match (&server.instance, &server.key) {
            (Some(instance), _) => {
                let directory = instance.data_directory.display();
                // Those of containers have port and directory in common.
                let container = container(&self.options.root, instance.postmaster.pid);
                container.map_or_else(|| directory.to_string(), |host| format!("{host}:{directory}"))
            }
            (None, Key::Socket(directory, _)) => directory.display().to_string(),
            _ => String::new(),
        }
    }

    /// A name that no other instance has had, and the same again after a restart.
    fn name(&mut self, server: &discovery::Server) -> String {
        let place = self.place(server);
        let port = server.port.map_or_else(|| "?".to_string(), |port| port.to_string());
        let taken: Vec<&String> = self.names.values().collect();
        let name = if taken.contains(&&port) { format!("{port}:{place}") } else { port };
        let name = self.names.entry((server.port, place)).or_insert(name).clone();
        match &server.instance {
            Some(instance) if self.watched.iter().any(|watched| watched.name == name) => {
                format!("{name}:{}", instance.postmaster.pid)
            }
            _ => name,
        }
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

#[cfg(test)]
mod tests {
    use pgcalm_host::fake::FakeHost;

    use super::*;
    use crate::model::{Instance, Reachability};

    #[test]
    fn servers_of_containers_have_names_of_their_own() {
        let root = host_with(&[(70, "db-1", 5432), (80, "db-2", 5432), (90, "db-2", 5432)]);
        let mut assembler = Assembler::new(Options { root: (*root).clone(), ..Options::default() }).unwrap();
        let host = assembler.assemble().unwrap();
        let names: BTreeSet<&str> = host.instances.iter().map(|instance| instance.identity.name.as_str()).collect();
        let [first, second, third] = names.into_iter().collect::<Vec<_>>()[..] else { panic!("{host:?}") };
        assert_eq!((first, second), ("5432", "5432:db-2:/srv/pg"));
        assert!(third.starts_with("5432:db-2:/srv/pg:"), "{third}");
    }

    #[test]
    fn a_server_with_an_impossible_port_spoils_no_other() {
        let root = host_with(&[(70, "odd", 0), (80, "well", 5432)]);
        let mut assembler = Assembler::new(Options { root: (*root).clone(), ..Options::default() }).unwrap();
        let host = assembler.assemble().unwrap();
        let [odd, well] = &host.instances[..] else { panic!("{host:?}") };
        assert_eq!((odd.identity.port, well.identity.port), (Some(0), Some(5432)));
        let reason = |instance: &Instance| instance.missing.iter().map(|missing| missing.reason.clone()).next();
        assert!(reason(odd).is_some_and(|reason| reason.contains("port")), "{odd:?}");
        assert_eq!(well.reachability, Reachability::Connecting);
        assert_eq!(assembler.ways().len(), 2);
    }

    /// With servers in containers, by process, name of the container, and port.
    fn host_with(servers: &[(i32, &str, u16)]) -> FakeHost {
        let root = FakeHost::default();
        root.link("proc/self/ns/uts", "uts:[1]");
        for (pid, host, port) in servers {
            let stat = format!("{pid} (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n");
            root.put(format!("proc/{pid}/stat"), &stat);
            root.put(format!("proc/{pid}/cmdline"), "/usr/bin/postgres\0-D\0/srv/pg");
            root.put(format!("proc/{pid}/mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
            root.put(format!("proc/{pid}/status"), &format!("Name:\tpostgres\nNSpid:\t{pid}\t1\n"));
            root.link(format!("proc/{pid}/exe"), "/usr/bin/postgres");
            root.link(format!("proc/{pid}/cwd"), root.path(format!("{pid}/srv/pg")));
            root.link(format!("proc/{pid}/root"), root.path(pid.to_string()));
            root.link(format!("proc/{pid}/ns/uts"), format!("uts:[{pid}]"));
            let pid_file = format!("1\n/srv/pg\n1700000000\n{port}\n/tmp\n*\n");
            root.put(format!("{pid}/srv/pg/postmaster.pid"), &pid_file);
            root.put(format!("{pid}/srv/pg/PG_VERSION"), "15\n");
            root.put(format!("{pid}/etc/hostname"), &format!("{host}\n"));
        }
        root
    }
}
