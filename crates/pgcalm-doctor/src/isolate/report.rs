//! What `pgcalm isolate` has found and done, as data: the document that each of its verbs writes with `--json`.

pub mod text;

use pgcalm_host::{Known, Unknown};
use serde::{Deserialize, Serialize};

/// The document of `pgcalm isolate show`, `check`, `set` and `clear`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// `show`, `check`, `set` or `clear`.
    pub verb: String,
    /// Hierarchy of the block I/O controller: `v1`, `v2`, null if the host has none, or why it is not known.
    pub cgroup_version: Known<Option<String>>,
    /// Instances on the host by data directory; with `set` and `clear` those concerned.
    pub instances: Vec<Instance>,
    /// Processes that look like servers and that this user may not look at.
    pub hidden_processes: u32,
    /// With `check`: what is dangerous, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hazards: Vec<Hazard>,
    /// With `set` and `clear`: every change, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Whether the steps were made; false without `--apply`, and where there are none.
    pub applied: bool,
    /// With `set`: lines for the unit of the service that make the limits last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permanent: Vec<String>,
    /// What a reader should know besides, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A running PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Instance {
    /// As the server sees it, without symbolic links.
    pub data_directory: String,
    /// Process id of the postmaster.
    pub pid: i32,
    /// Port, from postmaster.pid.
    pub port: Option<u16>,
    /// Major version, e.g. `15`.
    pub version: Option<String>,
    /// Processes of the server, the postmaster included.
    pub processes: u32,
    /// Where its files lie: data, WAL, tablespaces, logs.
    pub places: Vec<Place>,
    /// Block I/O control group of the postmaster, e.g. `/system.slice/postgresql.service`; null without the controller, or why
    /// it is not known.
    pub group: Known<Option<String>>,
    /// Whether pgcalm has made that group.
    pub isolated: bool,
    /// Control groups of processes of the server that are in another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_groups: Vec<String>,
    /// Limits on the disks of its places, on its own group and on those above.
    pub limits: Vec<Limit>,
    /// Why there may be other places, groups and limits than those that are told; what is not known of a place stands there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
    /// v2: whether the host has a memory controller, or writeback is not limited; null on v1 or if unseen.
    pub memory_controller: Option<bool>,
}

/// A directory or file of an instance and what is below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// `data`, `wal`, `tablespace` or `log`.
    pub role: String,
    /// As the server sees it, without symbolic links.
    pub path: String,
    /// Where the file system is mounted, as the server sees it; where a chroot or an overlay hides it from the server, as seen
    /// from outside.
    pub mountpoint: String,
    /// Type of the file system, e.g. `ext4`.
    pub fs: String,
    /// Mount options, then those of the file system.
    pub mount_options: Vec<String>,
    /// Number (`MAJ:MIN`) by which the kernel knows the file system; no block device's with tmpfs, btrfs, NFS.
    pub device_number: String,
    /// Block device, e.g. `sda1`; null if there is none or it is not known, which `disk` tells apart.
    pub device: Option<String>,
    /// The disk that it is on, on which limits are set; null if there is none, or why it is not known.
    pub disk: Known<Option<Disk>>,
    /// What that disk is made of, if it is a device-mapper or md device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<Slave>,
    /// Journal of the file system; null if it has none, or why it is not known.
    pub journal: Known<Option<Journal>>,
}

/// A whole disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disk {
    /// E.g. `sda`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
}

/// What a device-mapper or md device is made of, as /sys/block/NAME/slaves has it: what is written to the one is written
/// to the other, so limits on either are felt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slave {
    /// Block device, e.g. `sda1`.
    pub device: String,
    /// The disk that it is on.
    pub disk: Disk,
    /// What that disk is made of in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<Slave>,
}

impl Slave {
    fn disks(&self) -> impl Iterator<Item = &Disk> {
        let below: Vec<&Disk> = self.slaves.iter().flat_map(Self::disks).collect();
        std::iter::once(&self.disk).chain(below)
    }
}

impl Instance {
    /// Why what was found of it may not be all: there may be other limits, and hazards that come of them.
    pub fn not_known(&self) -> Vec<&Unknown> {
        let mut reasons: Vec<&Unknown> = self.group.unknown().into_iter().collect();
        for place in &self.places {
            reasons.extend(place.disk.unknown());
            reasons.extend(place.journal.unknown());
            let journal = place.journal.there();
            reasons.extend(journal.and_then(|journal| journal.disk.unknown()));
        }
        reasons.extend(&self.unknown);
        let mut seen = Vec::new();
        for reason in reasons {
            if !seen.contains(&reason) {
                seen.push(reason);
            }
        }
        seen
    }
}

impl Place {
    /// All disks that I/O to it is known to pass through, the nearest first; one may come twice.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.disk.there().into_iter().chain(self.slaves.iter().flat_map(Slave::disks))
    }
}

impl Journal {
    /// All disks that I/O to it is known to pass through, the nearest first; one may come twice.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.disk.known().into_iter().chain(self.slaves.iter().flat_map(Slave::disks))
    }
}

/// The journal of a file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Journal {
    /// Device that it is on, e.g. `sda1`; null if it is not known.
    pub device: Option<String>,
    /// The disk of that device, or why it is not known.
    pub disk: Known<Disk>,
    /// What that disk is made of, if it is a device-mapper or md device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<Slave>,
    /// Whether it is on another device than the file system.
    pub external: bool,
    /// ext4: `ordered`, `writeback` or `journal`; null for XFS.
    pub data_mode: Option<String>,
    /// Whether a commit waits for data that any process has written to newly allocated blocks.
    pub waits_for_data: bool,
    /// Whether a block of a file can show a deleted file's data after a crash: ext4 with `data=writeback` and `nodelalloc` or
    /// `dioread_lock`. PostgreSQL's tables can be damaged then.
    #[serde(default)]
    pub shows_unwritten: bool,
}

/// A limit on a disk that is set on a control group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limit {
    /// The disk.
    pub disk: Disk,
    /// `read-iops`, `read-bandwidth`, `write-iops` or `write-bandwidth`.
    pub kind: String,
    /// Operations or bytes per second.
    pub value: u64,
    /// The file that it stands in.
    pub file: String,
    /// Whether the instance feels it: on v1 those of groups above its own are not passed down.
    pub in_force: bool,
}

/// Something dangerous about how instances share a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hazard {
    /// E.g. `shared-journal`; docs/guides/isolate.md lists them.
    pub name: String,
    /// Data directories of the instances that suffer from it.
    pub instances: Vec<String>,
    /// What was seen, and where.
    pub evidence: Vec<String>,
    /// What to do about it.
    pub cure: String,
}

/// One change to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Step {
    /// `make-group`, `remove-group`, `write`, or `move` for a process that is written to the cgroup.procs of a group.
    pub action: String,
    /// Directory or file.
    pub path: String,
    /// What is written; null where nothing is.
    pub value: Option<String>,
}
