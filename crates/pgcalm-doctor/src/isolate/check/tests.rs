use pgcalm_host::Known;

use super::*;
use crate::isolate::report::{Journal, Place, Slave};

fn disk(name: &str) -> Disk {
    Disk { name: name.into(), number: format!("number of {name}") }
}

fn place(role: &str, device: &str, waits_for_data: bool) -> Place {
    Place {
        role: role.into(),
        path: format!("/{device}/{role}"),
        mountpoint: format!("/{device}"),
        fs: "ext4".into(),
        mount_options: vec!["rw".into()],
        device_number: format!("number of {device}"),
        device: Some(device.into()),
        disk: Known::Is(Some(disk(device))),
        slaves: Vec::new(),
        journal: Known::Is(Some(Journal {
            device: Some(device.into()),
            disk: Known::Is(disk(device)),
            slaves: Vec::new(),
            external: false,
            data_mode: Some("ordered".into()),
            waits_for_data,
            shows_unwritten: false,
        })),
    }
}

fn instance(name: &str, places: Vec<Place>) -> Instance {
    Instance {
        data_directory: name.into(),
        pid: 1,
        port: None,
        version: None,
        processes: 5,
        places,
        group: Known::Is(Some(format!("/{name}"))),
        isolated: false,
        other_groups: Vec::new(),
        limits: Vec::new(),
        unknown: Vec::new(),
        memory_controller: None,
    }
}

fn limit(device: &str, kind: &str) -> Limit {
    Limit { disk: disk(device), kind: kind.into(), value: 100, file: format!("/cg/x/{kind}"), in_force: true }
}

fn names(instances: &[Instance], version: &str) -> Vec<String> {
    hazards(instances, Some(version), Some("/cg")).into_iter().map(|hazard| hazard.name).collect()
}

#[test]
fn a_journal_is_a_hazard_when_shared_with_a_capped_instance_only() {
    let one = instance("one", vec![place("data", "sda", true)]);
    let mut two = instance("two", vec![place("data", "sda", true)]);
    assert_eq!(names(&[one.clone(), two.clone()], "v2"), [""; 0]);
    two.limits = vec![limit("sda", "write-iops")];
    let found = hazards(&[one.clone(), two.clone()], Some("v2"), Some("/cg"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].name, "shared-journal");
    assert_eq!(found[0].instances, ["one", "two"]);
    assert!(found[0].evidence[0].contains("wait for data"));
    assert!(found[0].evidence[1].contains("/cg/x/write-iops"));
    // A file system each, and reads, are no hazard.
    assert_eq!(names(&[instance("one", vec![place("data", "sdb", true)]), two.clone()], "v2"), [""; 0]);
    let mut xfs = [one.clone(), two.clone()];
    for instance in &mut xfs {
        instance.places[0].fs = "xfs".into();
    }
    assert_eq!(names(&xfs, "v2"), ["journal-device-capped"]);
    let mut reader = instance("two", vec![place("data", "sda", true)]);
    reader.limits = vec![limit("sda", "read-iops")];
    assert_eq!(names(&[one, reader], "v2"), [""; 0]);
}

#[test]
fn an_instance_that_uses_a_file_system_twice_does_not_share_it() {
    let mut one = instance("one", vec![place("data", "sda", true), place("log", "sda", true)]);
    one.limits = vec![limit("sda", "write-bandwidth")];
    assert_eq!(names(&[one], "v2"), ["log-on-capped-device"]);
}

#[test]
fn wal_and_log_on_a_capped_device_are_named() {
    let mut one =
        instance("one", vec![place("data", "sda", false), place("wal", "sda", false), place("log", "sdb", false)]);
    one.limits = vec![limit("sda", "write-iops")];
    assert_eq!(names(&[one.clone()], "v2"), ["wal-on-capped-device"]);
    // On a disk of its own it is what was wanted.
    one.places[1] = place("wal", "sdc", false);
    one.limits = vec![limit("sdc", "write-iops")];
    assert_eq!(names(&[one], "v2"), [""; 0]);
}

/// A place on a device-mapper device on partitions of these disks.
fn mapped(role: &str, device: &str, disks: &[&str]) -> Place {
    let slaves = disks.iter().map(|name| Slave { device: format!("{name}1"), disk: disk(name), slaves: Vec::new() });
    let mut place = place(role, device, false);
    place.slaves = slaves.collect();
    if let Known::Is(Some(journal)) = &mut place.journal {
        journal.slaves = place.slaves.clone();
    }
    place
}

#[test]
fn devices_that_are_made_of_one_disk_share_it() {
    let mut one = instance(
        "one",
        vec![mapped("data", "dm-0", &["sda"]), mapped("wal", "dm-1", &["sdb", "sda"]), mapped("log", "dm-2", &["sdc"])],
    );
    // On the device of the one only.
    one.limits = vec![limit("dm-0", "write-iops"), limit("sdb", "write-iops")];
    assert_eq!(names(&[one.clone()], "v2"), [""; 0]);
    one.limits = vec![limit("sda", "write-iops")];
    let found = hazards(&[one.clone()], Some("v2"), Some("/cg"));
    assert_eq!(found[0].name, "wal-on-capped-device");
    assert_eq!(
        found[0].evidence,
        ["/dm-1/wal and /dm-0/data are both on sda", "write-iops 100 on sda in /cg/x/write-iops"]
    );
    one.limits = vec![limit("sdc", "write-iops")];
    assert_eq!(names(&[one.clone()], "v2"), ["log-on-capped-device"]);

    // The limit below a shared file system is one on its journal.
    let two = instance("two", vec![mapped("data", "dm-0", &["sda"])]);
    one.limits = vec![limit("sda", "write-bandwidth")];
    let found = hazards(&[one.clone(), two.clone()], Some("v2"), Some("/cg"));
    assert_eq!(found[0].name, "shared-journal");
    assert_eq!(found[0].instances, ["one", "two"]);
    one.limits = vec![Limit { file: "/cg/blkio.throttle.write_iops_device".into(), ..limit("sda", "write-iops") }];
    assert!(names(&[one], "v1").contains(&"journal-device-capped".to_string()));
}

#[test]
fn a_journal_is_capped_by_the_root_group_and_on_xfs_by_the_instances_own() {
    let mut one = instance("one", vec![place("data", "sda", false)]);
    one.limits = vec![Limit {
        file: "/cg/blkio.throttle.write_iops_device".into(),
        in_force: false,
        ..limit("sda", "write-iops")
    }];
    assert_eq!(names(&[one.clone()], "v1"), ["journal-device-capped", "limit-not-passed-down"]);
    // Elsewhere the log of XFS costs a limited instance more.
    let cure = |instance: &Instance| {
        hazards(std::slice::from_ref(instance), Some("v1"), Some("/cg"))
            .into_iter()
            .find(|hazard| hazard.name == "journal-device-capped")
            .unwrap()
            .cure
    };
    assert!(cure(&one).contains("journal_dev"), "{}", cure(&one));
    one.limits = vec![limit("sda", "write-iops")];
    assert_eq!(names(&[one.clone()], "v2"), [""; 0]);
    one.places[0].fs = "xfs".into();
    assert!(cure(&one).starts_with("take the limit off"), "{}", cure(&one));
    assert_eq!(names(&[one], "v2"), ["journal-device-capped"]);
}

#[test]
fn limits_that_writeback_escapes_are_named() {
    let mut one = instance("one", vec![place("data", "sda", false)]);
    one.limits = vec![limit("sda", "write-iops")];
    assert_eq!(names(&[one.clone()], "v1"), ["writeback-escapes-limit"]);
    one.memory_controller = Some(false);
    assert_eq!(names(&[one.clone()], "v2"), ["no-memory-controller"]);
    one.memory_controller = Some(true);
    assert_eq!(names(&[one.clone()], "v2"), [""; 0]);
    one.other_groups = vec!["/elsewhere".into()];
    assert_eq!(names(&[one], "v2"), ["split-instance"]);
}
