//! What instances lie on, and the caps there.

use pgcalm_host::instance::Role;

use crate::metrics::{Kind, Metric, Points, Read};
use crate::model::{Cap, Caps, Host, Instance};

/// Adds a value for each disk and role of an instance that has one.
fn each(instance: &Instance, points: &mut Points, value: impl Fn(&Caps) -> Option<u64>) {
    for volume in &instance.volumes {
        let Some(disk) = &volume.disk else { continue };
        for role in &volume.roles {
            points.maybe(&[disk, role.name()], value(&volume.caps));
        }
    }
}

fn per_second(cap: &Option<Cap>) -> Option<u64> {
    cap.as_ref().map(|cap| cap.per_second)
}

/// The data directory's disk, and the cap there that reads and writes share.
fn shared_cap(instance: &Instance) -> Option<(&str, u64)> {
    let cap = instance.module.as_ref()?.operations_cap?;
    let data = instance.volumes.iter().find(|volume| volume.roles.contains(&Role::Data))?;
    Some((data.disk.as_deref()?, cap))
}

/// What is used of it, as a part. The disk's counters are of all: a cap that not all instances there have says nothing
/// of them.
fn shared_part<'a>(host: &Host, instance: &'a Instance) -> Option<(&'a str, f64)> {
    let ours = shared_cap(instance);
    let (disk, cap) = ours.filter(|(_, cap)| *cap > 0)?;
    let is_there = |other: &&Instance| other.volumes.iter().any(|volume| volume.disk.as_deref() == Some(disk));
    if host.instances.iter().filter(is_there).any(|other| shared_cap(other) != ours) {
        return None;
    }
    let rates = host.devices.iter().find(|device| device.name == disk)?.rates?;
    Some((disk, (rates.read_operations_per_second + rates.write_operations_per_second) / cap as f64))
}

metrics! {
    Gauge "pgcalm_volume_info" ["device", "role"]
        "Always 1: the disk below files of the instance; role is data, wal, tablespace or log. Joins what an \
         instance does with what its disks do"
        Instance |instance, points| each(instance, points, |_| Some(1));
    Gauge "pgcalm_volume_write_operations_cap" ["device", "role"]
        "Write operations per second that the instance may make on the disk: a control group's limit, or what \
         pg_calm was told; absent if not known to be capped"
        Instance |instance, points| each(instance, points, |caps| per_second(&caps.write_operations));
    Gauge "pgcalm_volume_write_cap_bytes" ["device", "role"]
        "Bytes per second that the instance may write to the disk, likewise"
        Instance |instance, points| each(instance, points, |caps| per_second(&caps.write_bytes));
    Gauge "pgcalm_volume_read_operations_cap" ["device", "role"]
        "Read operations per second that the instance may make on the disk, likewise"
        Instance |instance, points| each(instance, points, |caps| per_second(&caps.read_operations));
    Gauge "pgcalm_volume_read_cap_bytes" ["device", "role"]
        "Bytes per second that the instance may read from the disk, likewise"
        Instance |instance, points| each(instance, points, |caps| per_second(&caps.read_bytes));
    Gauge "pgcalm_volume_operations_cap" ["device", "role"]
        "Operations per second, reads and writes together, that the data directory's disk takes as pg_calm.iops tells; \
         absent if it does not"
        Instance |instance, points| {
            if let Some((disk, cap)) = shared_cap(instance) {
                points.add(&[disk, Role::Data.name()], cap);
            }
        };
    Gauge "pgcalm_volume_cap_used_ratio" ["server", "device", "kind"]
        "What is used of a cap of the instance on the disk, between the last two samples, 0 to 1 and more: of a \
         control group's limit what the group does, of the disk's cap what anybody does there; kind is read-iops, \
         read-bandwidth, write-iops, write-bandwidth, or iops for reads and writes together. Absent where the \
         group's counters can't be read, and where not all instances on the disk have the disk's cap"
        Host |host, points| {
            for instance in &host.instances {
                let server = &instance.identity.name;
                for volume in &instance.volumes {
                    let Some(disk) = &volume.disk else { continue };
                    for (kind, part) in host.used_parts(volume) {
                        points.add(&[server, disk, kind.name()], part);
                    }
                }
                if let Some((disk, part)) = shared_part(host, instance) {
                    points.add(&[server, disk, "iops"], part);
                }
            }
        };
}
