//! One instance that is watched: what its server, its processes and its volumes tell of it.

use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_postgres::Address;

use super::look::Located;
use super::{Options, Way};
use crate::discovery::Key;
use crate::host_reader::GroupLoad;
use crate::model::{Identity, Instance, Missing, Reachability, Subject};
use crate::server::{Facts, Gone};
use crate::volumes;
use crate::watcher::Watcher;

/// An instance that is watched.
pub(super) struct Watched {
    pub(super) key: Key,
    pub(super) name: String,
    pub(super) port: Option<u16>,
    /// Whether it is an instance of this host.
    pub(super) local: bool,
    /// Where the last look found it.
    pub(super) located: Located,
    address: Option<Address>,
    /// What asks its server, or why nobody does.
    watcher: Result<Watcher, String>,
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
        gone: Gone,
        options: &Options,
    ) -> Self {
        let watcher = address.clone().and_then(|address| {
            Watcher::start(address, options.interval, options.root.clone(), gone)
                .map_err(|error| format!("start a thread: {error}"))
        });
        Self {
            key,
            name,
            port,
            local,
            located: Located::default(),
            address: address.ok(),
            watcher,
            load: GroupLoad::default(),
        }
    }

    /// How it can be looked at between two samples.
    pub(super) fn way(&self) -> Way {
        Way {
            name: self.name.clone(),
            address: self.address.clone(),
            postmaster: self.located.host.as_ref().map(|host| (host.postmaster.pid, host.postmaster.start_ticks)),
        }
    }

    /// Its part of a sample, and what its server told of itself. `fresh`: the last look was not long ago.
    pub(super) fn instance(&mut self, root: &HostRoot, interval: Duration, fresh: bool) -> (Instance, Option<Facts>) {
        let mut instance = match &self.watcher {
            Ok(watcher) => watcher.view(interval),
            Err(why) => {
                let reachability = Reachability::Unreachable { why: why.clone(), closed: false, denied: false };
                Instance { reachability, ..Instance::default() }
            }
        };
        let facts = self.facts();
        let host = self.located.host.as_ref();
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
        if let Reachability::Unreachable { why, .. } = &instance.reachability {
            instance.missing.push(Missing {
                subject: Subject::Connection,
                reason: why.clone(),
                remedy: Some(self.remedy()),
            });
        }
        instance.volumes = self.located.volumes.clone();
        instance.missing.extend(self.located.missing.iter().cloned());
        if let Some(module) = &instance.module {
            volumes::add_module_caps(&mut instance.volumes, module);
        }
        if let Some(archive) = &mut instance.archive
            && archive.free_bytes.is_none()
        {
            archive.free_bytes = self.located.free_bytes.filter(|_| fresh);
        }
        instance.group = self.located.group.as_ref().and_then(|group| self.load.read(root, group));
        (instance, facts)
    }

    /// What makes a server answer that does not.
    fn remedy(&self) -> String {
        match &self.key {
            Key::Connect(_) => "check the connection string, and that the server runs".to_string(),
            // The kernel tells of sockets by the names that their servers gave them, wherever these lie.
            Key::Socket(directory, _) if !self.located.shows_socket => format!(
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

    /// For whoever watches it after a restart.
    pub(super) fn gone(&self) -> Option<Gone> {
        Some(self.watcher.as_ref().ok()?.gone())
    }

    /// What its server told of itself.
    pub(super) fn facts(&self) -> Option<Facts> {
        self.watcher.as_ref().ok()?.facts()
    }
}
