//! What instances lie on, and the caps there.

use pgcalm_host::instance::Role;

use crate::metrics::{Kind, Metric, Points, Read};
use crate::model::{Cap, Caps, Instance};

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
            let cap = instance.module.as_ref().and_then(|module| module.operations_cap);
            let data = instance.volumes.iter().find(|volume| volume.roles.contains(&Role::Data));
            if let Some(disk) = data.and_then(|volume| volume.disk.as_ref()) {
                points.maybe(&[disk, Role::Data.name()], cap);
            }
        };
}
