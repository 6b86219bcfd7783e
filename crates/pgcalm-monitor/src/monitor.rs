//! Puts samples together, at an interval.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_host::instance::Instance as HostInstance;
use pgcalm_host::instance::Role;
use pgcalm_host::pressure::Group;
use pgcalm_host::process_file;
use pgcalm_host::{HostRoot, instance};
use pgcalm_postgres::Address;

use crate::discovery::Key;
use crate::history::{History, HistoryLimits};
use crate::host_reader::{Disks, GroupLoad, Interfaces, Load};
use crate::model::{Host, Identity, IncidentCount, Instance, Missing, Reachability, Stop, Subject, Volume};
use crate::server::Facts;
use crate::watcher::Watcher;
use crate::{address, discovery, host_reader, volumes};
use pgcalm_host::Failure;

/// New instances, and changed limits, are looked for at this interval.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// What is watched, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connection strings of libpq's; empty: all instances of this host, those that are started later, too.
    pub connect: Vec<String>,
    /// Between samples.
    pub interval: Duration,
    /// Samples that are kept for looking back; `None`: none.
    pub history: Option<HistoryLimits>,
    /// The host.
    pub root: HostRoot,
    /// Where incidents are counted, for who shows them.
    pub incidents: Option<IncidentSource>,
}

/// Tells how many incidents there have been; asked at each sample.
#[derive(Clone)]
pub struct IncidentSource(pub Arc<dyn Fn() -> Vec<IncidentCount> + Send + Sync>);

impl std::fmt::Debug for IncidentSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IncidentSource")
    }
}

impl Default for Options {
    /// All local instances, each second, with the last hour.
    fn default() -> Self {
        Self {
            connect: Vec::new(),
            interval: Duration::from_secs(1),
            history: Some(HistoryLimits::default()),
            root: HostRoot::default(),
            incidents: None,
        }
    }
}

/// Watches a host until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    history: History,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    latest: Arc<Host>,
    ways: Arc<Vec<Way>>,
}

/// How an instance can be looked at between two samples.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// Its name in the samples.
    pub name: String,
    /// Where it listens; `None` if nowhere.
    pub address: Option<Address>,
    /// Its postmaster's process id and start, if that is seen.
    pub postmaster: Option<(i32, u64)>,
}

impl Monitor {
    /// Starts watching.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for a connection string that can't be read or names a server twice; others if /proc can't
    /// be read or no thread be started. A server that can't be reached is no error: the samples say so.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let mut assembler = Assembler::new(options.clone())?;
        let first = assembler.assemble()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { stop: false, latest: Arc::new(first), ways: Arc::new(assembler.ways()) }),
            changed: Condvar::new(),
            history: History::new(options.history.unwrap_or(HistoryLimits { bytes: 0, span: Duration::ZERO })),
        });
        let ours = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("pgcalm monitor".to_string())
            .spawn(move || run(&ours, &mut assembler, &options))
            .context("start a thread")?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The latest sample. Never waits for a server.
    pub fn latest(&self) -> Arc<Host> {
        Arc::clone(&self.shared.lock().latest)
    }

    /// The latest sample, and the ways to its instances.
    pub(crate) fn latest_with_ways(&self) -> (Arc<Host>, Arc<Vec<Way>>) {
        let state = self.shared.lock();
        (Arc::clone(&state.latest), Arc::clone(&state.ways))
    }

    /// The samples so far; empty unless [`Options::history`] asked for them.
    pub fn history(&self) -> &History {
        &self.shared.history
    }

    /// Waits for a sample of which `condition` holds; `None` if there is none within `time`.
    pub fn wait_for(&self, time: Duration, condition: impl Fn(&Host) -> bool) -> Option<Arc<Host>> {
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, time, |state| !state.stop && !condition(&state.latest))
            .unwrap_or_else(PoisonError::into_inner);
        condition(&state.latest).then(|| Arc::clone(&state.latest))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        // It waits for nothing but its own pause and /proc.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is an assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(shared: &Shared, assembler: &mut Assembler, options: &Options) {
    let mut next = Instant::now() + options.interval;
    loop {
        let pause = next.saturating_duration_since(Instant::now());
        let state = shared.lock();
        let (state, _) = shared
            .changed
            .wait_timeout_while(state, pause, |state| !state.stop)
            .unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            return;
        }
        drop(state);
        // After a time in which this process was stopped, samples of that time are not made up for.
        next = (next + options.interval).max(Instant::now());
        let host = match assembler.assemble() {
            Ok(host) => host,
            Err(error) => Host {
                time_ms: now_ms(),
                missing: vec![Missing { subject: Subject::Instances, reason: format!("{error:#}"), remedy: None }],
                ..Host::default()
            },
        };
        if options.history.is_some() {
            // Nothing but a lack of memory keeps a sample out.
            let _ = shared.history.push(&host);
        }
        let ways = Arc::new(assembler.ways());
        let mut state = shared.lock();
        state.latest = Arc::new(host);
        state.ways = ways;
        drop(state);
        shared.changed.notify_all();
    }
}

/// An instance that is watched.
struct Watched {
    key: Key,
    name: String,
    port: Option<u16>,
    /// Whether it is an instance of this host.
    local: bool,
    /// Whether it has been looked for on this host since it told where its files are.
    located: bool,
    address: Option<Address>,
    watcher: Option<Watcher>,
    host: Option<HostInstance>,
    volumes: Vec<Volume>,
    missing: Vec<Missing>,
    /// Its control group.
    group: Option<Group>,
    load: GroupLoad,
}

struct Assembler {
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
    fn new(options: Options) -> Result<Self, Failure> {
        let mut watched: Vec<Watched> = Vec::new();
        for (number, connect) in options.connect.iter().enumerate() {
            let (name, address) = address::parse(connect)?;
            if watched.iter().any(|other| other.name == name) {
                return Err(Failure::Usage(format!("--connect: {name} is named twice")));
            }
            watched.push(Watched {
                key: Key::Connect(number),
                name,
                port: Some(address.port()),
                local: address.is_local(),
                located: false,
                address: Some(address.clone()),
                watcher: Some(start_watcher(address, &options)?),
                host: None,
                volumes: Vec::new(),
                missing: Vec::new(),
                group: None,
                load: GroupLoad::default(),
            });
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

    fn ways(&self) -> Vec<Way> {
        let way = |watched: &Watched| Way {
            name: watched.name.clone(),
            address: watched.address.clone(),
            postmaster: watched.host.as_ref().map(|host| (host.postmaster.pid, host.postmaster.start_ticks)),
        };
        self.watched.iter().map(way).collect()
    }

    fn assemble(&mut self) -> anyhow::Result<Host> {
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
            instance.group = watched.group.as_ref().and_then(|group| watched.load.read(root, group));
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
        let found = discovery::find(&self.options.root)?;
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
        self.watched.retain(|watched| found.servers.iter().any(|server| server.key == watched.key));
        for server in found.servers {
            if let Some(watched) = self.watched.iter_mut().find(|watched| watched.key == server.key) {
                watched.host = server.instance;
                continue;
            }
            let name = self.name(&server);
            let address = server.place.as_ref().map(address::of_found).transpose()?;
            self.watched.push(Watched {
                key: server.key,
                name,
                port: server.port,
                local: true,
                located: false,
                watcher: address.clone().map(|address| start_watcher(address, &self.options)).transpose()?,
                address,
                host: server.instance,
                volumes: Vec::new(),
                missing: Vec::new(),
                group: None,
                load: GroupLoad::default(),
            });
        }
        self.watched.sort_by(|a, b| (a.port, &a.name).cmp(&(b.port, &b.name)));
        for watched in &mut self.watched {
            watched.read_volumes(&self.options.root);
        }
        Ok(())
    }

    /// A name that no other instance has had, and the same again after a restart.
    fn name(&mut self, server: &discovery::Server) -> String {
        let place = match (&server.instance, &server.key) {
            (Some(instance), _) => instance.data_directory.display().to_string(),
            (None, Key::Socket(directory, _)) => directory.display().to_string(),
            _ => String::new(),
        };
        let port = server.port.map_or_else(|| "?".to_string(), |port| port.to_string());
        let taken: Vec<&String> = self.names.values().collect();
        let name = match taken.contains(&&port) {
            false => port,
            true => format!("{port}:{place}"),
        };
        self.names.entry((server.port, place)).or_insert(name).clone()
    }
}

impl Watched {
    fn instance(&self, root: &HostRoot, interval: Duration) -> (Instance, Option<Facts>) {
        let mut instance = match &self.watcher {
            Some(watcher) => watcher.view(interval),
            None => Instance {
                reachability: Reachability::Unreachable { why: "it listens on no port".to_string() },
                ..Instance::default()
            },
        };
        let facts = self.facts();
        let host = self.host.as_ref();
        let facts_of = facts.as_ref();
        instance.identity = Identity {
            name: self.name.clone(),
            cluster_name: facts_of.and_then(|facts| facts.cluster_name.clone()),
            port: self.port.or(facts_of.and_then(|facts| facts.port)),
            pid: host.map(|host| host.postmaster.pid),
            data_directory: host
                .map(|host| host.data_directory.display().to_string())
                .or(facts_of.and_then(|facts| facts.data_directory.clone())),
            version: facts_of.map(|facts| facts.version_name.clone()).or(host.and_then(|host| host.version.clone())),
        };
        if let Reachability::Unreachable { why } = &instance.reachability {
            instance.missing.push(Missing {
                subject: Subject::Connection,
                reason: why.clone(),
                remedy: Some(self.remedy(root)),
            });
        }
        instance.volumes = self.volumes.clone();
        instance.missing.extend(self.missing.iter().cloned());
        if let Some(module) = &instance.module {
            volumes::add_module_caps(&mut instance.volumes, module);
        }
        if let Some(archive) = &mut instance.archive
            && archive.free_bytes.is_none()
        {
            archive.free_bytes = host.and_then(|host| free_bytes(root, host));
        }
        (instance, facts)
    }

    /// What makes a server answer that does not.
    fn remedy(&self, root: &HostRoot) -> String {
        match &self.key {
            Key::Connect(_) => "check the connection string, and that the server runs".to_string(),
            // The kernel tells of sockets by the names that their servers gave them, wherever these lie.
            Key::Socket(directory, port) if !discovery::sees(root, directory, *port) => format!(
                "its socket in {} is not where this process sees it, as under PrivateTmp= or ProtectHome= of a service, or in a \
                 container: show the directory to the service (BindReadOnlyPaths={0}), or give --connect with a host name",
                directory.display()
            ),
            _ => "make a role with the name of this user, a member of pg_monitor, or give --connect".to_string(),
        }
    }

    fn facts(&self) -> Option<Facts> {
        self.watcher.as_ref()?.facts()
    }

    /// For a connection string: finds the process, if it is one of this host.
    fn match_process(&mut self, root: &HostRoot, found: &discovery::Servers, facts: &Facts) {
        if !self.local {
            return;
        }
        let mut instances = found.servers.iter().filter_map(|server| server.instance.as_ref());
        let serves = |instance: &&HostInstance| {
            let pid = instance.postmaster.pid;
            instance::serves(root, &found.table, pid, facts.backend_pid)
        };
        self.host = instances.find(serves).cloned();
    }

    fn read_volumes(&mut self, root: &HostRoot) {
        self.missing.clear();
        self.find_volumes(root);
        // Each of its disks may lack the same.
        self.missing.dedup();
    }

    fn find_volumes(&mut self, root: &HostRoot) {
        let pid = self.host.as_ref().map(|host| host.postmaster.pid);
        self.group = pid.and_then(|pid| Group::of_process(root, pid).ok());
        let facts = self.facts();
        self.located = facts.is_some();
        if let Some(host) = &self.host {
            self.volumes = volumes::of_instance(root, host, &mut self.missing);
            return;
        }
        let Some(facts) = facts.filter(|_| self.local) else {
            return;
        };
        self.volumes = match &facts.data_directory {
            Some(directory) => {
                volumes::of_data_directory(root, Path::new(directory), facts.backend_pid, &mut self.missing)
            }
            None => {
                self.missing.push(Missing {
                    subject: Subject::Devices,
                    reason: "the data directory is hidden from this user".to_string(),
                    remedy: Some("connect as a member of pg_monitor".to_string()),
                });
                Vec::new()
            }
        };
    }
}

fn start_watcher(address: Address, options: &Options) -> Result<Watcher, Failure> {
    Watcher::start(address, options.interval, options.root.clone())
        .map_err(|error| Failure::Host(format!("start a thread: {error}")))
}

/// Free space where WAL is, as the server may use it.
fn free_bytes(root: &HostRoot, host: &HostInstance) -> Option<u64> {
    let wal = host.places.iter().find(|place| place.role == Role::Wal)?;
    let directory = process_file::find(root, host.postmaster.pid, &wal.path).ok()?;
    let statistics = rustix::fs::fstatvfs(directory).ok()?;
    Some(statistics.f_bavail * statistics.f_frsize)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
