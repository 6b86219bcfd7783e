//! The host, its disks and network interfaces, and whether instances answer.

use crate::metrics::{Kind, Metric, Read};
use crate::model::{Host, Memory, Reachability};

fn memory(host: &Host, value: fn(&Memory) -> Option<u64>) -> Option<u64> {
    host.memory.as_ref().and_then(value)
}

pub const TABLE: &[Metric] = &[
    Metric {
        name: "pgcalm_up",
        kind: Kind::Gauge,
        help: "Whether the instance answers: 1, or 0 if it can't be connected to or hangs. Absent until the first answer \
               or failure",
        labels: &[],
        read: Read::Instance(|instance, points| match instance.reachability {
            Reachability::Connecting => {}
            Reachability::Reachable => points.add(&[], true),
            _ => points.add(&[], false),
        }),
    },
    Metric {
        name: "pgcalm_unanswered_seconds",
        kind: Kind::Gauge,
        help: "Since when an instance that hangs has not answered",
        labels: &[],
        read: Read::Instance(|instance, points| {
            if let Reachability::Hung { seconds } = instance.reachability {
                points.add(&[], seconds);
            }
        }),
    },
    Metric {
        name: "pgcalm_instance_info",
        kind: Kind::Gauge,
        help: "Always 1: version, cluster_name, role (primary or standby) and mode of pg_calm (off, shadow, on; absent: \
               none) of the instance, empty where not known",
        labels: &["version", "cluster", "role", "mode"],
        read: Read::Instance(|instance, points| {
            let identity = &instance.identity;
            let mode = match &instance.module {
                Some(module) => module.mode.as_str(),
                None if instance.reachability.is_reachable() => "absent",
                None => "",
            };
            points.add(
                &[
                    identity.version.as_deref().unwrap_or_default(),
                    identity.cluster_name.as_deref().unwrap_or_default(),
                    instance.role.map_or("", |role| role.name()),
                    mode,
                ],
                true,
            );
        }),
    },
    Metric {
        name: "pgcalm_missing",
        kind: Kind::Gauge,
        help: "Always 1: something of the instance could not be read; subject is what",
        labels: &["subject"],
        read: Read::Instance(|instance, points| {
            let mut subjects: Vec<_> = instance.missing.iter().map(|missing| missing.subject).collect();
            subjects.sort();
            subjects.dedup();
            for subject in subjects {
                points.add(&[subject.name()], true);
            }
        }),
    },
    Metric {
        name: "pgcalm_sample_duration_seconds",
        kind: Kind::Gauge,
        help: "How long the instance took to answer all that was asked for the last sample",
        labels: &[],
        read: Read::Instance(|instance, points| points.maybe(&[], instance.sample_seconds)),
    },
    Metric {
        name: "pgcalm_hidden_server_processes",
        kind: Kind::Gauge,
        help: "Processes that look like servers and that the exporter's user may not look at",
        labels: &[],
        read: Read::Host(|host, points| points.add(&[], u64::from(host.hidden_processes))),
    },
    Metric {
        name: "pgcalm_memory_dirty_bytes",
        kind: Kind::Gauge,
        help: "Page cache of the host that waits to be written (Dirty of /proc/meminfo)",
        labels: &[],
        read: Read::Host(|host, points| points.maybe(&[], memory(host, |m| Some(m.dirty_bytes)))),
    },
    Metric {
        name: "pgcalm_memory_writeback_bytes",
        kind: Kind::Gauge,
        help: "Page cache of the host that is being written (Writeback of /proc/meminfo)",
        labels: &[],
        read: Read::Host(|host, points| {
            points.maybe(&[], memory(host, |m| Some(m.writeback_bytes)));
        }),
    },
    Metric {
        name: "pgcalm_memory_dirty_background_threshold_bytes",
        kind: Kind::Gauge,
        help: "Dirty memory from which on the kernel flusher writes (vm.dirty_background_bytes, or _ratio of the memory that \
               is free or page cache now)",
        labels: &[],
        read: Read::Host(|host, points| {
            points.maybe(&[], memory(host, |m| m.background_threshold_bytes));
        }),
    },
    Metric {
        name: "pgcalm_memory_dirty_threshold_bytes",
        kind: Kind::Gauge,
        help: "Dirty memory from which on writers are held (vm.dirty_bytes, or _ratio likewise); they are slowed down from \
               halfway between the two",
        labels: &[],
        read: Read::Host(|host, points| {
            points.maybe(&[], memory(host, |m| m.dirty_threshold_bytes));
        }),
    },
    Metric {
        name: "pgcalm_device_operations",
        kind: Kind::Counter,
        help: "Operations that a disk of an instance has completed since boot, for whoever; direction is read or write",
        labels: &["device", "direction"],
        read: Read::Host(|host, points| {
            for device in &host.devices {
                points.add(&[&device.name, "read"], device.read_operations);
                points.add(&[&device.name, "write"], device.write_operations);
            }
        }),
    },
    Metric {
        name: "pgcalm_device_bytes",
        kind: Kind::Counter,
        help: "Bytes that a disk of an instance has read or written since boot, for whoever",
        labels: &["device", "direction"],
        read: Read::Host(|host, points| {
            for device in &host.devices {
                points.add(&[&device.name, "read"], device.read_bytes);
                points.add(&[&device.name, "write"], device.write_bytes);
            }
        }),
    },
    Metric {
        name: "pgcalm_device_busy_seconds",
        kind: Kind::Counter,
        help: "Time during which a disk had anything in flight, since boot",
        labels: &["device"],
        read: Read::Host(|host, points| {
            for device in &host.devices {
                points.maybe(&[&device.name], device.busy_seconds);
            }
        }),
    },
    Metric {
        name: "pgcalm_device_in_flight_operations",
        kind: Kind::Gauge,
        help: "Operations that a disk has in flight; those that a control group's limit holds back are not among them",
        labels: &["device"],
        read: Read::Host(|host, points| {
            for device in &host.devices {
                points.add(&[&device.name], device.in_flight);
            }
        }),
    },
    Metric {
        name: "pgcalm_network_bytes",
        kind: Kind::Counter,
        help: "Bytes that a network interface that WAL leaves by has sent or received, for whoever; link-layer headers included",
        labels: &["interface", "direction"],
        read: Read::Host(|host, points| {
            for interface in &host.interfaces {
                points.add(&[&interface.name, "sent"], interface.sent_bytes);
                points.add(&[&interface.name, "received"], interface.received_bytes);
            }
        }),
    },
    Metric {
        name: "pgcalm_network_packets",
        kind: Kind::Counter,
        help: "Packets likewise, before they are cut into those of the wire and after those are put together (GSO, GRO)",
        labels: &["interface", "direction"],
        read: Read::Host(|host, points| {
            for interface in &host.interfaces {
                points.add(&[&interface.name, "sent"], interface.sent_packets);
                points.add(&[&interface.name, "received"], interface.received_packets);
            }
        }),
    },
    Metric {
        name: "pgcalm_network_link_bytes_per_second",
        kind: Kind::Gauge,
        help: "What the interface's link carries in either direction, as its driver says (/sys/class/net/NAME/speed); absent \
               where it says nothing, and no cloud's limit",
        labels: &["interface"],
        read: Read::Host(|host, points| {
            for interface in &host.interfaces {
                points.maybe(&[&interface.name], interface.link_bytes_per_second);
            }
        }),
    },
];
