//! What there is on the host, read once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pgcalm_host::block_device::{BlockDevice, Disk};
use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::file_system_journal::{DataMode, FileSystemJournal};
use pgcalm_host::instance::{Found, Instance, Place};
use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, Known, Result, Unknown, cgroup, instance, process, throttle};

use crate::isolate::report as model;

/// What the names of control groups that are made here begin with; the process id of the postmaster follows.
pub(super) const GROUP_PREFIX: &str = "pgcalm-isolate-";

/// Processes, instances and control groups at one moment.
#[derive(Debug)]
pub(super) struct Inventory {
    /// The host.
    pub root: HostRoot,
    /// Of the block I/O controller.
    pub hierarchy: Known<Option<Hierarchy>>,
    /// All processes.
    pub table: Vec<Process>,
    /// The instances among them.
    pub found: Found,
}

impl Inventory {
    /// Looks around.
    pub(super) fn take(root: &HostRoot) -> Result<Self> {
        let table = process::table(root)?;
        Ok(Self {
            root: root.clone(),
            hierarchy: Hierarchy::of_block_io(root).into(),
            found: instance::find(root, &table)?,
            table,
        })
    }

    /// A report of `verb` with these instances and nothing else yet.
    pub(super) fn report(&self, verb: &str, instances: &[&Instance]) -> model::Report {
        model::Report {
            verb: verb.to_string(),
            cgroup_version: self.hierarchy.map(|hierarchy| {
                let version = match hierarchy.as_ref()?.version {
                    Version::V1 => "v1",
                    Version::V2 => "v2",
                };
                Some(version.to_string())
            }),
            instances: instances.iter().map(|instance| self.instance(instance)).collect(),
            hidden_processes: self.found.hidden.count() as u32,
            hazards: Vec::new(),
            steps: Vec::new(),
            applied: false,
            permanent: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn instance(&self, instance: &Instance) -> model::Instance {
        let family = process::family(&self.table, instance.postmaster.pid);
        let mut described = model::Instance {
            data_directory: instance.data_directory.display().to_string(),
            pid: instance.postmaster.pid,
            port: instance.port,
            version: instance.version.clone(),
            processes: family.len() as u32,
            places: instance.places.iter().map(place).collect(),
            group: Known::Is(None),
            isolated: false,
            other_groups: Vec::new(),
            limits: Vec::new(),
            unknown: instance.places_unknown.clone(),
            memory_controller: None,
        };
        let hierarchy = match self.hierarchy.as_ref() {
            Ok(Some(hierarchy)) => hierarchy,
            Ok(None) => return described,
            Err(why) => {
                described.group = Known::Not(why.clone());
                return described;
            }
        };
        let group = match group_of(&self.root, hierarchy, instance.postmaster.pid) {
            Ok(Some(group)) => group,
            Ok(None) => return described,
            Err(error) => {
                described.group = Known::Not(error.into());
                return described;
            }
        };
        let unknown = &mut described.unknown;
        let mut others = BTreeSet::new();
        for process in &family {
            match group_of(&self.root, hierarchy, process.pid) {
                Ok(group) => others.extend(group),
                Err(error) => unknown.push(error.into()),
            }
        }
        others.remove(&group);
        let directory = hierarchy.directory(&group);
        described.limits = self.limits(hierarchy, &group, &directory, instance, unknown);
        described.other_groups = others.iter().map(|g| g.display().to_string()).collect();
        described.isolated = is_ours(&group);
        described.memory_controller = match hierarchy.version {
            Version::V1 => None,
            Version::V2 => match cgroup::owns_writeback(&self.root, hierarchy) {
                Ok(owns) => owns,
                Err(error) => {
                    unknown.push(error.into());
                    None
                }
            },
        };
        described.group = Known::Is(Some(group.display().to_string()));
        described
    }

    fn limits(
        &self,
        hierarchy: &Hierarchy,
        group: &Path,
        directory: &Path,
        instance: &Instance,
        unknown: &mut Vec<Unknown>,
    ) -> Vec<model::Limit> {
        let mut limits = Vec::new();
        for disk in disks(instance) {
            let (found, why) = throttle::limits(&self.root, hierarchy, group, &disk.number);
            unknown.extend(why);
            for limit in found {
                // v1 throttles each group by its own limits only: throtl_pd_init() in the kernel's
                // block/blk-throttle.c sets a parent on the default hierarchy (v2) alone.
                let in_force = hierarchy.version == Version::V2 || limit.file.parent() == Some(directory);
                limits.push(model::Limit {
                    disk: disk_model(&disk),
                    kind: limit.kind.name().to_string(),
                    value: limit.value,
                    file: limit.file.display().to_string(),
                    in_force,
                });
            }
        }
        limits
    }
}

/// The group of a process; `None` if it has ended.
pub(super) fn group_of(root: &HostRoot, hierarchy: &Hierarchy, pid: i32) -> Result<Option<PathBuf>> {
    match hierarchy.group_of(root, &pid.to_string()) {
        Err(error) if error.is_not_found() => Ok(None),
        other => other,
    }
}

/// Whether a group is one that is made here.
pub(super) fn is_ours(group: &Path) -> bool {
    group
        .file_name()
        .and_then(|name| name.to_str()?.strip_prefix(GROUP_PREFIX))
        .is_some_and(|pid| pid.parse::<i32>().is_ok())
}

/// The disks that hold anything of an instance, journals included, and those that they are made of.
pub(super) fn disks(instance: &Instance) -> BTreeSet<Disk> {
    devices(instance).flat_map(BlockDevice::disks).cloned().collect()
}

/// The devices of its file systems and their journals.
pub(super) fn devices(instance: &Instance) -> impl Iterator<Item = &BlockDevice> {
    instance.places.iter().flat_map(|place| {
        let journal = place.journal.there();
        let journal = journal.and_then(|journal| journal.device.known());
        place.device.there().into_iter().chain(journal)
    })
}

fn place(place: &Place) -> model::Place {
    model::Place {
        role: place.role.name().to_string(),
        path: place.path.display().to_string(),
        mountpoint: place.mount.target.display().to_string(),
        fs: place.mount.fs_type.clone(),
        mount_options: place.mount.options.iter().chain(&place.mount.super_options).fold(
            Vec::new(),
            |mut options, option| {
                // Both lists tell `rw`.
                if !options.contains(option) {
                    options.push(option.clone());
                }
                options
            },
        ),
        device_number: place.mount.device.clone(),
        device: place.device.there().map(|device| device.name.clone()),
        disk: place.device.map(|device| Some(disk_model(&device.as_ref()?.disk))),
        slaves: place.device.there().map_or_else(Vec::new, slaves),
        journal: place.journal.map(|found| found.as_ref().map(journal)),
    }
}

fn journal(journal: &FileSystemJournal) -> model::Journal {
    model::Journal {
        device: journal.device.known().map(|device| device.name.clone()),
        disk: journal.device.map(|device| disk_model(&device.disk)),
        slaves: journal.device.known().map_or_else(Vec::new, slaves),
        external: journal.external,
        data_mode: journal.data_mode.map(|mode| {
            match mode {
                DataMode::Ordered => "ordered",
                DataMode::Writeback => "writeback",
                DataMode::Journal => "journal",
            }
            .to_string()
        }),
        waits_for_data: journal.waits_for_data,
        shows_unwritten: journal.shows_unwritten,
    }
}

fn slaves(device: &BlockDevice) -> Vec<model::Slave> {
    let slaves = device.slaves.iter().map(|slave| model::Slave {
        device: slave.name.clone(),
        disk: disk_model(&slave.disk),
        slaves: slaves(slave),
    });
    slaves.collect()
}

fn disk_model(disk: &Disk) -> model::Disk {
    model::Disk { name: disk.name.clone(), number: disk.number.clone() }
}
