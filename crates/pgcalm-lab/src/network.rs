//! Two network namespaces with a link between them that has a rate.
//!
//! Nothing of it is in the host's own network: the link is made with its ends in the two namespaces, so that neither its
//! addresses nor its rate concern anything else. `ip` and `tc` do the work: netlink from here would save two programs
//! that every distribution has, for a crate and its runtime.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, anyhow};
use nix::sched::CloneFlags;

use crate::interrupt::Interrupt;
use crate::journal::{Change, Journal, Undo};
use crate::tool;

/// Where `ip netns` keeps its namespaces (ip-netns(8)).
pub(crate) const NAMESPACES: &str = "/run/netns";

/// Name of the interface in each namespace.
pub(crate) const INTERFACE: &str = "lab0";

/// Addresses of the two ends, from TEST-NET-1 (RFC 5737), which belongs to nobody.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// The network of both.
pub(crate) const NETWORK: &str = "192.0.2.0/30";

/// A frame of TCP before it is cut into segments has 64 KiB and its headers: a bucket of less would make tbf cut it.
const LEAST_BURST: u64 = 128 << 10;

/// Part of a second for which the bucket is good: several ticks of any kernel's clock.
const BURST_PER_SECOND: u64 = 100;

/// How much may wait for the bucket, in parts of a second: enough that TCP keeps the link busy.
const QUEUE_PER_SECOND: u64 = 20;

/// Which end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The primary's.
    Primary,
    /// The standby's.
    Standby,
}

pgcalm_host::names! { pub(crate) fn name(End): Primary "primary", Standby "standby" }

impl End {
    /// Its address.
    pub(crate) fn address(self) -> &'static str {
        ADDRESSES[self as usize]
    }
}

/// Two namespaces and the link.
#[derive(Debug)]
pub(crate) struct Network {
    names: [String; 2],
    _namespaces: [Undo; 2],
}

impl Network {
    /// Makes both namespaces and a link without a limit.
    pub(crate) fn create(journal: &Journal, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let names = [End::Primary, End::Standby].map(|end| format!("pgcalm-lab-{}-{}", std::process::id(), end.name()));
        let make = |name: &str| -> anyhow::Result<Undo> {
            let undo = journal.note(Change::NetworkNamespace { name: name.to_string() })?;
            tool::run(tool::command("ip").args(["netns", "add", name]), interrupt)?;
            Ok(undo)
        };
        let network = Self { _namespaces: [make(&names[0])?, make(&names[1])?], names };
        tool::run(
            tool::command("ip")
                .args(["link", "add", INTERFACE, "netns", &network.names[0]])
                .args(["type", "veth", "peer", "name", INTERFACE])
                .args(["netns", &network.names[1]]),
            interrupt,
        )?;
        for end in [End::Primary, End::Standby] {
            let address = format!("{}/30", end.address());
            network.ip(end, &["address", "add", &address, "dev", INTERFACE], interrupt)?;
            for interface in ["lo", INTERFACE] {
                network.ip(end, &["link", "set", interface, "up"], interrupt)?;
            }
        }
        Ok(network)
    }

    fn ip(&self, end: End, arguments: &[&str], interrupt: &Interrupt) -> anyhow::Result<()> {
        tool::run(tool::command("ip").args(["-n", &self.names[end as usize]]).args(arguments), interrupt)?;
        Ok(())
    }

    /// Limits what either end sends to `bytes_per_second`, counted with the headers of Ethernet, IP and TCP: a token bucket
    /// filter (tc-tbf(8)). Without one the link is as fast as the machine.
    pub(crate) fn limit(&self, bytes_per_second: u64, interrupt: &Interrupt) -> anyhow::Result<()> {
        let burst = (bytes_per_second / BURST_PER_SECOND).max(LEAST_BURST);
        let queue = (bytes_per_second / QUEUE_PER_SECOND).max(2 * LEAST_BURST);
        for name in &self.names {
            tool::run(
                tool::command("tc")
                    .args(["-n", name, "qdisc", "replace", "dev", INTERFACE, "root", "tbf"])
                    .arg("rate")
                    .arg(format!("{}bit", bytes_per_second * 8))
                    .arg("burst")
                    .arg(burst.to_string())
                    .arg("limit")
                    .arg(queue.to_string()),
                interrupt,
            )?;
        }
        Ok(())
    }

    /// Calls `f` in a thread within the namespace; what it starts is in there, too. Sockets of Unix are found by their
    /// paths from anywhere, so that only what uses the link needs to be called so.
    pub(crate) fn within<T: Send>(&self, end: End, f: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        let path = self.path(end);
        thread::scope(|scope| {
            scope
                .spawn(move || {
                    enter(&path)?;
                    f()
                })
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a thread in a network namespace panicked")))
        })
    }

    /// The namespace's file; [`enter`] takes it.
    pub(crate) fn path(&self, end: End) -> PathBuf {
        Path::new(NAMESPACES).join(&self.names[end as usize])
    }
}

/// Puts this thread into a network namespace, for good.
pub(crate) fn enter(namespace: &Path) -> anyhow::Result<()> {
    let file = File::open(namespace).with_context(|| format!("open network namespace {}", namespace.display()))?;
    nix::sched::setns(file, CloneFlags::CLONE_NEWNET)
        .with_context(|| format!("enter network namespace {}", namespace.display()))
}
