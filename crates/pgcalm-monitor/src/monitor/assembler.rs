//! Finds the instances to watch, and puts a sample together of what each and the host tell.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::Failure;

use super::look::{Known, Look, Looker};
use super::watched::Watched;
use super::{IncidentSource, Options, Way, now_ms};
use crate::discovery::Key;
use crate::group_use::GroupUse;
use crate::host_reader::{Disks, Interfaces, Load};
use crate::model::{Host, Missing, Stop, Subject};
use crate::server::Gone;
use crate::{address, host_reader};

/// New instances, and changed limits, are looked for at this interval.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// How long a sample waits for the look that it has begun, which takes some milliseconds unless a file system hangs.
const LOOK: Duration = Duration::from_millis(200);

/// The same of the first one, which tells what there is to sample.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// All that is watched, and what rates are taken from.
pub(super) struct Assembler {
    options: Options,
    watched: Vec<Watched>,
    names: HashMap<(Option<u16>, String), String>,
    /// Of those that have ended, by name: after a restart their counters go on.
    gone: HashMap<String, Gone>,
    /// Ports that servers of several containers had at a time.
    crowded: BTreeSet<Option<u16>>,
    hidden: u32,
    disks: Disks,
    group_use: GroupUse,
    interfaces: Interfaces,
    load: Load,
    looker: Looker,
    looked: Option<Instant>,
    /// Why the last look has failed.
    failed: Option<String>,
}

impl Assembler {
    /// Starts watching what is named, or what is found on the host.
    pub(super) fn new(options: Options) -> anyhow::Result<Self> {
        let mut watched: Vec<Watched> = Vec::new();
        for (number, connect) in options.connect.iter().enumerate() {
            let (name, address) = address::parse(connect)?;
            if watched.iter().any(|other| other.name == name) {
                return Err(Failure::Usage(format!("--connect: {name} is named twice")).into());
            }
            let local = address.is_local();
            let port = Some(address.port());
            watched.push(Watched::new(Key::Connect(number), name, port, local, Ok(address), Gone::default(), &options));
        }
        let looker = Looker::start(options.root.clone(), options.connect.is_empty()).context("start a thread")?;
        let mut assembler = Self {
            options,
            watched,
            names: HashMap::new(),
            gone: HashMap::new(),
            crowded: BTreeSet::new(),
            hidden: 0,
            disks: Disks::default(),
            group_use: GroupUse::default(),
            interfaces: Interfaces::default(),
            load: Load::default(),
            looker,
            looked: None,
            failed: None,
        };
        assembler.begin();
        if let Some(look) = assembler.looker.take(FIRST_LOOK) {
            assembler.apply(look?);
        }
        Ok(assembler)
    }

    /// How what is watched can be looked at between two samples.
    pub(super) fn ways(&self) -> Vec<Way> {
        self.watched.iter().map(Watched::way).collect()
    }

    /// Whether it is not known which servers run, as while a file system hangs.
    pub(super) fn is_blind(&self) -> bool {
        self.options.connect.is_empty() && !self.is_fresh()
    }

    /// Whether the last look was not long ago.
    fn is_fresh(&self) -> bool {
        let late = (DISCOVERY_INTERVAL + self.options.interval) * 2;
        self.looked.is_some_and(|when| when.elapsed() < late)
    }

    /// A sample.
    pub(super) fn assemble(&mut self) -> Host {
        self.look_around();
        let fresh = self.is_fresh();
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
            let (mut instance, facts) = watched.instance(root, self.options.interval, fresh);
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
        let hangs =
            || "the look for servers takes long: a file system hangs, theirs or that of another process".to_string();
        if let Some(reason) = self.failed.clone().or_else(|| (!fresh).then(hangs)) {
            host.missing.push(Missing { subject: Subject::Instances, reason, remedy: None });
        }
        if self.hidden > 0 && self.options.connect.is_empty() {
            host.missing.push(Missing {
                subject: Subject::Instances,
                reason: of_others(self.hidden),
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
        self.group_use.read(root, &mut host);
        let interfaces: BTreeSet<String> = host
            .instances
            .iter()
            .filter_map(|instance| instance.replication.as_ref())
            .flat_map(|replication| &replication.standbys)
            .filter_map(|standby| standby.interface.clone())
            .collect();
        host.interfaces = self.interfaces.read(root, &interfaces, &mut host.missing);
        host
    }

    /// Takes what the last look has found, and begins the next one when it is time; one that has not ended is not begun again.
    fn look_around(&mut self) {
        let is_due = self.looked.is_none_or(|when| when.elapsed() >= DISCOVERY_INTERVAL)
            || self.watched.iter().any(|watched| !watched.located.is_told && watched.facts().is_some());
        let mut patience = Duration::ZERO;
        if is_due && !self.looker.goes_on() {
            self.begin();
            patience = LOOK;
        }
        match self.looker.take(patience) {
            Some(Ok(look)) => self.apply(look),
            Some(Err(error)) => self.failed = Some(format!("{error:#}")),
            None => {}
        }
    }

    fn begin(&mut self) {
        let asked = self.watched.iter().filter(|watched| watched.is_asked());
        let known =
            |watched: &Watched| Known { key: watched.key.clone(), local: watched.local, facts: watched.facts() };
        self.looker.begin(asked.map(known).collect());
    }

    /// Drops instances that have gone, begins to watch those that have come, and notes where all lie.
    fn apply(&mut self, look: Look) {
        (self.looked, self.failed, self.hidden) = (Some(Instant::now()), None, look.hidden);
        if self.options.connect.is_empty() {
            // One that nobody asks, as there was no way to it, is begun anew.
            let is_there = |watched: &Watched| look.located.iter().any(|(key, _)| *key == watched.key);
            let gone = &mut self.gone;
            self.watched.retain(|watched| {
                let stays = watched.is_asked() && is_there(watched);
                if !stays {
                    gone.extend(watched.gone().map(|gone| (watched.name.clone(), gone)));
                }
                stays
            });
        }
        for pair in look.new.windows(2) {
            if pair[0].port == pair[1].port
                && pair[0].place != pair[1].place
                && pair.iter().all(|new| is_of_container(&new.place))
            {
                self.crowded.insert(pair[0].port);
            }
        }
        for new in look.new {
            let name = self.name(new.port, new.place, new.pid);
            let gone = self.gone.remove(&name).unwrap_or_default();
            self.watched.push(Watched::new(new.key, name, new.port, true, new.address, gone, &self.options));
        }
        for (key, located) in look.located {
            if let Some(watched) = self.watched.iter_mut().find(|watched| watched.key == key) {
                watched.located = located;
            }
        }
        if self.options.connect.is_empty() {
            self.watched.sort_by(|a, b| (a.port, &a.name).cmp(&(b.port, &b.name)));
        }
    }

    /// A name that no other instance has, and the same again after a restart. That of one which is gone goes to the next one with its
    /// port, as a container that is made anew has another place; but not where several have it, whose figures are not to be mixed.
    fn name(&mut self, port: Option<u16>, place: String, pid: Option<i32>) -> String {
        let number = port.map_or_else(|| "?".to_string(), |port| port.to_string());
        let is_taken = |name: &str| self.watched.iter().any(|watched| watched.name == name);
        let by_place = format!("{number}:{place}");
        let of_container = is_of_container(&place);
        let is_beside = |((other, at), name): (&(Option<u16>, String), &String)| {
            *other == port && *at != place && is_of_container(at) && is_taken(name)
        };
        if of_container && self.names.iter().any(is_beside) {
            self.crowded.insert(port);
        }
        let has_no_number = is_taken(&number) || of_container && self.crowded.contains(&port);
        let key = (port, place);
        let known = self.names.get(&key).filter(|name| !is_taken(name)).cloned();
        let name = known.unwrap_or(if has_no_number { by_place } else { number });
        self.names.insert(key, name.clone());
        match pid {
            Some(pid) if self.watched.iter().any(|watched| watched.name == name) => format!("{name}:{pid}"),
            _ => name,
        }
    }
}

/// Says how many processes this user may not look at.
fn of_others(count: u32) -> String {
    let (who, what) = match count {
        1 => ("process looks like a server of another user", "of it only what its sockets offer is shown"),
        _ => ("processes look like servers of other users", "of these only what their sockets offer is shown"),
    };
    format!("{count} {who}; {what}")
}

/// The others' places are paths.
fn is_of_container(place: &str) -> bool {
    !place.starts_with('/')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pgcalm_host::fake::FakeHost;
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;
    use crate::model::{Instance, Reachability};

    #[test]
    fn one_process_is_told_of_as_one() {
        assert!(of_others(1).starts_with("1 process looks like a server of another user; "));
        assert!(of_others(2).starts_with("2 processes look like servers of other users; "));
    }

    #[test]
    fn servers_of_containers_have_names_of_their_own() {
        let root = host_with(&[(70, "db-1", 5432), (80, "db-2", 5432), (90, "db-2", 5432)]);
        let mut assembler = Assembler::new(Options { root: (*root).clone(), ..Options::default() }).unwrap();
        let host = assembler.assemble();
        let names: BTreeSet<&str> = host.instances.iter().map(|instance| instance.identity.name.as_str()).collect();
        let [first, second, third] = names.into_iter().collect::<Vec<_>>()[..] else { panic!("{host:?}") };
        assert_eq!((first, second), ("5432:db-1:/srv/pg", "5432:db-2:/srv/pg"));
        assert!(third.starts_with("5432:db-2:/srv/pg:"), "{third}");
    }

    #[test]
    fn a_container_that_is_made_anew_has_the_name_of_the_one_before() {
        let root = host_with(&[(70, "db-1", 5432)]);
        let mut assembler = Assembler::new(Options { root: (*root).clone(), ..Options::default() }).unwrap();
        assert_eq!(names_of(&mut assembler, &[70]), ["5432"]);
        std::fs::remove_dir_all(root.path("proc/70")).unwrap();
        add(&root, &[(80, "db-2", 5432)]);
        assert_eq!(names_of(&mut assembler, &[80]), ["5432"]);
        // The first one, if it comes back beside it, has another.
        add(&root, &[(70, "db-1", 5432)]);
        assert_eq!(names_of(&mut assembler, &[70, 80]), ["5432:db-1:/srv/pg", "5432"]);
    }

    #[test]
    fn of_several_containers_none_gets_the_name_of_another() {
        let root = host_with(&[(70, "db-2", 5432)]);
        let start = || Assembler::new(Options { root: (*root).clone(), ..Options::default() }).unwrap();
        let mut assembler = start();
        assert_eq!(names_of(&mut assembler, &[70]), ["5432"]);
        add(&root, &[(80, "db-1", 5432)]);
        assert_eq!(names_of(&mut assembler, &[70, 80]), ["5432", "5432:db-1:/srv/pg"]);
        // This program anew finds both at once.
        let again = names_of(&mut start(), &[70, 80]);
        assert_eq!(again, ["5432:db-2:/srv/pg", "5432:db-1:/srv/pg"]);
        std::fs::remove_dir_all(root.path("proc/70")).unwrap();
        add(&root, &[(90, "db-3", 5432)]);
        assert_eq!(names_of(&mut assembler, &[80, 90]), ["5432:db-1:/srv/pg", "5432:db-3:/srv/pg"]);
    }

    /// Once all of these processes are there, and no others.
    fn names_of(assembler: &mut Assembler, pids: &[i32]) -> Vec<String> {
        assembler.looked = None;
        loop {
            let instances = assembler.assemble().instances;
            let name = |pid: &i32| {
                let instance = instances.iter().find(|instance| instance.identity.pid == Some(*pid))?;
                Some(instance.identity.name.clone())
            };
            if let Some(names) =
                pids.iter().map(name).collect::<Option<Vec<_>>>().filter(|_| instances.len() == pids.len())
            {
                return names;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_server_with_an_impossible_port_spoils_no_other() {
        let root = host_with(&[(70, "odd", 0), (80, "well", 5432)]);
        let mut assembler = Assembler::new(Options { root: (*root).clone(), ..Options::default() }).unwrap();
        let host = assembler.assemble();
        let [odd, well] = &host.instances[..] else { panic!("{host:?}") };
        assert_eq!((odd.identity.port, well.identity.port), (Some(0), Some(5432)));
        let reason = |instance: &Instance| instance.missing.iter().map(|missing| missing.reason.clone()).next();
        assert!(reason(odd).is_some_and(|reason| reason.contains("port")), "{odd:?}");
        // It is asked, and by now it may be known that nobody listens there.
        assert!(matches!(well.reachability, Reachability::Connecting | Reachability::Unreachable { .. }), "{well:?}");
        assert_eq!(assembler.ways().len(), 2);
    }

    #[test]
    fn samples_go_on_while_a_look_hangs_and_nobody_waits_for_it() {
        let root = host_with(&[(70, "one", 5432), (80, "two", 5433)]);
        let status = root.path("proc/70/status");
        let hang = |status: &Path| {
            // Opening it waits for a writer, as a file on a volume that hangs would.
            std::fs::remove_file(status).unwrap();
            rustix::fs::mknodat(CWD, status, FileType::Fifo, Mode::RWXU, 0).unwrap();
        };
        let (end, ended) = std::sync::mpsc::channel();
        let (ours, fifo) = ((*root).clone(), status.clone());
        std::thread::spawn(move || {
            let mut assembler = Assembler::new(Options { root: ours.clone(), ..Options::default() }).unwrap();
            hang(&fifo);
            std::fs::remove_dir_all(ours.path("proc/80")).unwrap();
            for _ in 0..3 {
                assembler.looked = None;
                let host = assembler.assemble();
                assert_eq!(host.instances.len(), 2, "none is gone before a look says so");
                assert_eq!(host.missing.last().map(|missing| missing.subject), Some(Subject::Instances));
                assert!(assembler.is_blind());
            }
            // Who waits for it is answered by it, and whoever asks again by a file.
            let mut answer = std::fs::File::create(&fifo).unwrap();
            std::fs::remove_file(&fifo).unwrap();
            std::fs::write(&fifo, "NSpid:\t70\t1\n").unwrap();
            std::io::Write::write_all(&mut answer, b"NSpid:\t70\t1\n").unwrap();
            drop(answer);
            while assembler.assemble().instances.len() != 1 {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(!assembler.is_blind());
            hang(&fifo);
            assembler.looked = None;
            assembler.assemble();
            drop(assembler);
            end.send(()).unwrap();
        });
        ended.recv_timeout(Duration::from_secs(60)).unwrap();
        std::fs::write(status, "").unwrap();
    }

    /// With servers in containers, by process, name of the container, and port.
    fn host_with(servers: &[(i32, &str, u16)]) -> FakeHost {
        let root = FakeHost::default();
        root.link("proc/self/ns/uts", "uts:[1]");
        add(&root, servers);
        root
    }

    fn add(root: &FakeHost, servers: &[(i32, &str, u16)]) {
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
    }
}
