//! What the files of an instance lie on, and what is allowed there.

use std::path::Path;

use pgcalm_host::block_device::BlockDevice;
use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::instance::{Instance, Role};
use pgcalm_host::throttle::{Kind, Limit};
use pgcalm_host::{HostRoot, Unknown, file_system, mounts, throttle};

use crate::model::{Cap, Caps, Missing, Module, Subject, Volume};

/// The volumes of an instance whose processes may be looked at: data first, then in the order of their roles.
pub(crate) fn of_instance(root: &HostRoot, instance: &Instance, missing: &mut Vec<Missing>) -> Vec<Volume> {
    let mut volumes: Vec<(String, Volume)> = Vec::new();
    missing.extend(instance.places_unknown.iter().map(not_known));
    for place in &instance.places {
        let role = place.role;
        missing.extend(place.device.unknown().map(not_known));
        let device = place.device.there();
        let disk = device.map(|device| &device.disk);
        // Two file systems may share a disk, on which all limits are set; without a disk a mount counts.
        let key = disk.map_or_else(|| place.mount.device.clone(), |disk| disk.number.clone());
        match volumes.iter_mut().find(|(known, _)| *known == key) {
            Some((_, volume)) => {
                if !volume.roles.contains(&role) {
                    volume.roles.push(role);
                }
            }
            None => volumes.push((
                key.clone(),
                Volume {
                    roles: vec![role],
                    path: place.path.display().to_string(),
                    file_system: place.mount.fs_type.clone(),
                    disk: disk.map(|disk| disk.name.clone()),
                    caps: match device {
                        Some(device) => caps(root, instance.postmaster.pid, device, missing),
                        None => Caps::default(),
                    },
                },
            )),
        }
    }
    volumes.into_iter().map(|(_, volume)| volume).collect()
}

/// The volume below a data directory of which only the path is known, with the limits of process `pid` of the server.
///
/// Where pg_wal and tablespaces lie is known to the server's user and root only.
pub(crate) fn of_data_directory(
    root: &HostRoot,
    directory: &Path,
    pid: i32,
    missing: &mut Vec<Missing>,
) -> Vec<Volume> {
    let remedy = Some("run as root or as the server's user".to_string());
    let found = std::fs::metadata(root.path(directory)).ok().and_then(|_| mounts::read(root).ok()).and_then(|mounts| {
        let mount = mounts::containing(&mounts, directory)?;
        Some(file_system::below(root, mount.clone(), directory))
    });
    let Some(below) = found else {
        missing.push(Missing {
            subject: Subject::Devices,
            reason: format!("{}: not to be seen from here, as with a server in a container", directory.display()),
            remedy,
        });
        return Vec::new();
    };
    missing.push(Missing {
        subject: Subject::Devices,
        reason: "whether pg_wal and tablespaces lie on other disks is hidden from this user".to_string(),
        remedy,
    });
    missing.extend(below.device.unknown().map(not_known));
    let device = below.device.there();
    vec![Volume {
        roles: vec![Role::Data],
        path: directory.display().to_string(),
        file_system: below.mount.fs_type,
        caps: match device {
            Some(device) => caps(root, pid, device, missing),
            None => Caps::default(),
        },
        disk: device.map(|device| device.disk.name.clone()),
    }]
}

/// Takes over the caps of the module, which knows those of the settings, too, where they are the tighter ones. They are
/// of the data directory's disk.
pub(crate) fn add_module_caps(volumes: &mut [Volume], module: &Module) {
    let Some(volume) = volumes.iter_mut().find(|volume| volume.roles.contains(&Role::Data)) else { return };
    let source = module.caps_source.as_deref().unwrap_or("unknown source");
    // Of a group that can't be seen from here, as from another container, it is not known what it does.
    let device = if source.starts_with("cgroup ") { "unknown" } else { "" };
    let tighten = |cap: &mut Option<Cap>, value: Option<u64>| {
        if let Some(per_second) = value
            && cap.as_ref().is_none_or(|cap| per_second < cap.per_second)
        {
            let (source, device) = (format!("pg_calm: {source}"), device.to_string());
            *cap = Some(Cap { per_second, source, device, used_per_second: None });
        }
    };
    tighten(&mut volume.caps.write_operations, module.write_operations_cap);
    tighten(&mut volume.caps.write_bytes, module.write_bytes_cap);
}

/// What is not known of a disk.
fn not_known(why: &Unknown) -> Missing {
    Missing { subject: Subject::Devices, reason: why.to_string(), remedy: None }
}

fn caps(root: &HostRoot, pid: i32, device: &BlockDevice, missing: &mut Vec<Missing>) -> Caps {
    match limits(root, pid, device) {
        Ok(Some((limits, unknown))) => {
            missing.extend(unknown.iter().map(|why| Missing { subject: Subject::Caps, ..not_known(why) }));
            let cap = |kind| {
                throttle::tightest(&limits, kind).map(|limit| Cap {
                    per_second: limit.value,
                    source: limit.file.display().to_string(),
                    device: limit.device.clone(),
                    used_per_second: None,
                })
            };
            Caps {
                read_operations: cap(Kind::ReadIops),
                read_bytes: cap(Kind::ReadBps),
                write_operations: cap(Kind::WriteIops),
                write_bytes: cap(Kind::WriteBps),
            }
        }
        Ok(None) => {
            missing.push(Missing {
                subject: Subject::Caps,
                reason: "no block I/O control groups are visible here".to_string(),
                remedy: None,
            });
            Caps::default()
        }
        Err(error) => {
            missing.push(Missing { subject: Subject::Caps, reason: error.to_string(), remedy: None });
            Caps::default()
        }
    }
}

/// The limits that process `pid` feels on the disk of a device and on those that it is made of, and why there may be others;
/// `None` without the controller.
///
/// On v1 a group's limits are its own only (`throtl_pd_init()` in the kernel's block/blk-throttle.c), but those of the
/// root group hold for what the kernel flusher writes on anybody's behalf.
fn limits(root: &HostRoot, pid: i32, device: &BlockDevice) -> pgcalm_host::Result<Option<(Vec<Limit>, Vec<Unknown>)>> {
    let Some(hierarchy) = Hierarchy::of_block_io(root)? else { return Ok(None) };
    let Some(group) = hierarchy.group_of(root, &pid.to_string())? else { return Ok(None) };
    let own = hierarchy.directory(&group);
    let (mut limits, mut unknown) = (Vec::new(), Vec::new());
    for disk in device.disks() {
        let (found, why) = throttle::limits(root, &hierarchy, &group, &disk.number);
        limits.extend(found);
        unknown.extend(why);
    }
    if hierarchy.version == Version::V1 {
        limits.retain(|limit| {
            let directory = limit.file.parent();
            let writes = matches!(limit.kind, Kind::WriteIops | Kind::WriteBps);
            directory == Some(&own) || writes && directory == Some(&hierarchy.mountpoint)
        });
    }
    Ok(Some((limits, unknown)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    /// A host with cgroup v1 whose process 7 is in `/a/b`, and a file system on 8:0 at `/data`.
    fn host() -> FakeHost {
        let root = FakeHost::default();
        root.make("cg/a/b");
        root.make("data/main");
        root.put(
            "proc/self/mountinfo",
            "1 0 0:1 / / rw - tmpfs tmpfs rw\n\
             2 1 8:0 / /data rw - ext4 /dev/sda rw\n\
             3 1 0:35 / /cg rw - cgroup cgroup rw,blkio\n",
        );
        root.put("proc/7/cgroup", "7:blkio:/a/b\n");
        root.put("sys/devices/sda/dev", "8:0\n");
        root.link("sys/dev/block/8:0", "../../devices/sda");
        root
    }

    #[test]
    fn of_v1_limits_the_own_and_for_writes_the_root_group_s_are_felt() {
        let root = host();
        let write = |group: &str, kind: Kind, text: &str| root.put(format!("{group}/{}", kind.v1_file()), text);
        write("cg", Kind::WriteIops, "8:0 500\n");
        write("cg", Kind::ReadIops, "8:0 50\n");
        write("cg/a", Kind::WriteIops, "8:0 5\n");
        write("cg/a/b", Kind::WriteIops, "8:0 900\n");
        write("cg/a/b", Kind::WriteBps, "8:0 1000000\n");
        let mut missing = Vec::new();
        let volumes = of_data_directory(&root, Path::new("/data/main"), 7, &mut missing);
        assert_eq!(volumes.len(), 1);
        assert_eq!(volumes[0].disk.as_deref(), Some("sda"));
        let caps = &volumes[0].caps;
        let operations = caps.write_operations.as_ref().unwrap();
        assert_eq!((operations.per_second, operations.device.as_str()), (500, "8:0"));
        assert_eq!(caps.write_bytes.as_ref().unwrap().per_second, 1_000_000);
        assert_eq!(caps.read_operations, None);
        assert_eq!(missing.len(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_missing_not_on_the_root_file_system() {
        let root = host();
        let mut missing = Vec::new();
        let volumes = of_data_directory(&root, Path::new("/elsewhere"), 7, &mut missing);
        assert!(volumes.is_empty());
        assert_eq!(missing[0].subject, Subject::Devices);
    }

    #[test]
    fn the_module_s_caps_hold_where_they_are_tighter() {
        let cap = |per_second| Some(Cap { per_second, source: "cgroup".to_string(), ..Cap::default() });
        let mut volumes = [Volume {
            roles: vec![Role::Data],
            caps: Caps { write_operations: cap(100), ..Caps::default() },
            ..Volume::default()
        }];
        let module = Module {
            write_operations_cap: Some(3000),
            write_bytes_cap: Some(7),
            caps_source: Some("settings".to_string()),
            ..Module::default()
        };
        add_module_caps(&mut volumes, &module);
        assert_eq!(volumes[0].caps.write_operations, cap(100));
        let bytes = volumes[0].caps.write_bytes.as_ref().unwrap();
        assert_eq!((bytes.per_second, bytes.source.as_str()), (7, "pg_calm: settings"));
        assert_eq!(bytes.used(5.0), Some(5.0));
        // What others do on the disk is no part of a group's.
        let module =
            Module { write_bytes_cap: Some(6), caps_source: Some("cgroup v1 /a".to_string()), ..Module::default() };
        add_module_caps(&mut volumes, &module);
        assert_eq!(volumes[0].caps.write_bytes.as_ref().unwrap().used(5.0), None);
    }
}
