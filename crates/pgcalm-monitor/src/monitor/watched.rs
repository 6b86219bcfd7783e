//! One instance that is watched: what its server, its processes and its volumes tell of it.

use std::path::Path;
use std::time::Duration;

use pgcalm_host::instance::Instance as HostInstance;
use pgcalm_host::instance::Role;
use pgcalm_host::pressure::Group;
use pgcalm_host::{HostRoot, instance, process_file};
use pgcalm_postgres::Address;

use super::{Options, Way};
use crate::discovery::Key;
use crate::host_reader::GroupLoad;
use crate::model::{Identity, Instance, Missing, Reachability, Subject, Volume};
use crate::server::Facts;
use crate::watcher::Watcher;
use crate::{discovery, volumes};

/// An instance that is watched.
pub(super) struct Watched {
    pub(super) key: Key,
    pub(super) name: String,
    pub(super) port: Option<u16>,
    /// Whether it is an instance of this host.
    pub(super) local: bool,
    /// Whether it has been looked for on this host since it told where its files are.
    pub(super) located: bool,
    address: Option<Address>,
    /// What asks its server, or why nobody does.
    watcher: Result<Watcher, String>,
    pub(super) host: Option<HostInstance>,
    volumes: Vec<Volume>,
    missing: Vec<Missing>,
    /// Its control group.
    group: Option<Group>,
    load: GroupLoad,
}

impl Watched {
    /// Starts watching it.
    pub(super) fn new(
        key: Key,
        name: String,
        port: Option<u16>,
        local: bool,
        address: Result<Address, String>,
        options: &Options,
    ) -> Self {
        let watcher = address.clone().and_then(|address| {
            Watcher::start(address, options.interval, options.root.clone())
                .map_err(|error| format!("start a thread: {error}"))
        });
        Self {
            key,
            name,
            port,
            local,
            located: false,
            address: address.ok(),
            watcher,
            host: None,
            volumes: Vec::new(),
            missing: Vec::new(),
            group: None,
            load: GroupLoad::default(),
        }
    }

    /// How it can be looked at between two samples.
    pub(super) fn way(&self) -> Way {
        Way {
            name: self.name.clone(),
            address: self.address.clone(),
            postmaster: self.host.as_ref().map(|host| (host.postmaster.pid, host.postmaster.start_ticks)),
        }
    }

    /// Its part of a sample, and what its server told of itself.
    pub(super) fn instance(&mut self, root: &HostRoot, interval: Duration) -> (Instance, Option<Facts>) {
        let mut instance = match &self.watcher {
            Ok(watcher) => watcher.view(interval),
            Err(why) => {
                Instance { reachability: Reachability::Unreachable { why: why.clone() }, ..Instance::default() }
            }
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
        instance.group = self.group.as_ref().and_then(|group| self.load.read(root, group));
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

    /// Whether its server is asked.
    pub(super) fn is_asked(&self) -> bool {
        self.watcher.is_ok()
    }

    /// What its server told of itself.
    pub(super) fn facts(&self) -> Option<Facts> {
        self.watcher.as_ref().ok()?.facts()
    }

    /// For a connection string: finds the process, if it is one of this host.
    pub(super) fn match_process(&mut self, root: &HostRoot, found: &discovery::Servers, facts: &Facts) {
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

    /// Reads anew what it lies on.
    pub(super) fn read_volumes(&mut self, root: &HostRoot) {
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
        let Some(facts) = facts.filter(|_| self.local) else { return };
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

/// Free space where WAL is, as the server may use it.
fn free_bytes(root: &HostRoot, host: &HostInstance) -> Option<u64> {
    let wal = host.places.iter().find(|place| place.role == Role::Wal)?;
    let directory = process_file::find(root, host.postmaster.pid, &wal.path).ok()?;
    let statistics = rustix::fs::fstatvfs(directory).ok()?;
    Some(statistics.f_bavail * statistics.f_frsize)
}
