//! The host, its disks and network interfaces, and whether instances answer.

use crate::metrics::{Kind, Metric, Read};
use crate::model::{Host, Memory, Reachability};

fn memory(host: &Host, value: fn(&Memory) -> Option<u64>) -> Option<u64> {
    host.memory.as_ref().and_then(value)
}

metrics! {
    Gauge "pgcalm_up" []
        "Whether the instance answers: 1, or 0 if it can't be connected to or hangs. Absent until the first answer \
         or failure, when one that was found on the host has ended, and where it answers and does not let the \
         exporter's role in, which pgcalm_missing says"
        Instance |instance, points| match instance.reachability {
            Reachability::Connecting | Reachability::Unreachable { denied: true, .. } => {}
            Reachability::Reachable => points.add(&[], true),
            _ => points.add(&[], false),
        };
    Gauge "pgcalm_unanswered_seconds" []
        "Since when an instance that hangs has not answered"
        Instance |instance, points| {
            if let Reachability::Hung { seconds } = instance.reachability {
                points.add(&[], seconds);
            }
        };
    Gauge "pgcalm_instance_info" ["version", "cluster", "role", "mode"]
        "Always 1: version, cluster_name, role (primary or standby) and mode of pg_calm (off, shadow, on; absent: \
         none) of the instance, empty where not known"
        Instance |instance, points| {
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
        };
    Gauge "pgcalm_missing" ["subject"]
        "Always 1: something of the instance could not be read; subject is what"
        Instance |instance, points| {
            let mut subjects: Vec<_> = instance.missing.iter().map(|missing| missing.subject).collect();
            subjects.sort();
            subjects.dedup();
            for subject in subjects {
                points.add(&[subject.name()], true);
            }
        };
    Gauge "pgcalm_sample_duration_seconds" []
        "How long the instance took to answer all that was asked for the last sample"
        Instance |instance| instance.sample_seconds;
    Gauge "pgcalm_hidden_server_processes" []
        "Processes that look like servers and that the exporter's user may not look at"
        Host |host, points| points.add(&[], u64::from(host.hidden_processes));
    Gauge "pgcalm_memory_dirty_bytes" []
        "Page cache of the host that waits to be written (Dirty of /proc/meminfo)"
        Host |host| memory(host, |m| Some(m.dirty_bytes));
    Gauge "pgcalm_memory_writeback_bytes" []
        "Page cache of the host that is being written (Writeback of /proc/meminfo)"
        Host |host| memory(host, |m| Some(m.writeback_bytes));
    Gauge "pgcalm_memory_dirty_background_threshold_bytes" []
        "Dirty memory from which on the kernel flusher writes (vm.dirty_background_bytes, or _ratio of the memory \
         that is free or page cache now)"
        Host |host| memory(host, |m| m.background_threshold_bytes);
    Gauge "pgcalm_memory_dirty_threshold_bytes" []
        "Dirty memory from which on writers are held (vm.dirty_bytes, or _ratio likewise); they are slowed down \
         from halfway between the two"
        Host |host| memory(host, |m| m.dirty_threshold_bytes);
    Counter "pgcalm_device_operations" ["device", "direction"]
        "Operations that a disk of an instance has completed since boot, for whoever; direction is read or write"
        Host |host, points| {
            for device in &host.devices {
                points.add(&[&device.name, "read"], device.read_operations);
                points.add(&[&device.name, "write"], device.write_operations);
            }
        };
    Counter "pgcalm_device_bytes" ["device", "direction"]
        "Bytes that a disk of an instance has read or written since boot, for whoever"
        Host |host, points| {
            for device in &host.devices {
                points.add(&[&device.name, "read"], device.read_bytes);
                points.add(&[&device.name, "write"], device.write_bytes);
            }
        };
    Counter "pgcalm_device_busy_seconds" ["device"]
        "Time during which a disk had anything in flight, since boot"
        Host |host, points| {
            for device in &host.devices {
                points.maybe(&[&device.name], device.busy_seconds);
            }
        };
    Gauge "pgcalm_device_in_flight_operations" ["device"]
        "Operations that a disk has in flight; those that a control group's limit holds back are not among them"
        Host |host, points| {
            for device in &host.devices {
                points.add(&[&device.name], device.in_flight);
            }
        };
    Counter "pgcalm_network_bytes" ["interface", "direction"]
        "Bytes that a network interface that WAL leaves by has sent or received, for whoever; link-layer headers \
         included"
        Host |host, points| {
            for interface in &host.interfaces {
                points.add(&[&interface.name, "sent"], interface.sent_bytes);
                points.add(&[&interface.name, "received"], interface.received_bytes);
            }
        };
    Counter "pgcalm_network_packets" ["interface", "direction"]
        "Packets likewise, before they are cut into those of the wire and after those are put together (GSO, GRO)"
        Host |host, points| {
            for interface in &host.interfaces {
                points.add(&[&interface.name, "sent"], interface.sent_packets);
                points.add(&[&interface.name, "received"], interface.received_packets);
            }
        };
    Gauge "pgcalm_network_link_bytes_per_second" ["interface"]
        "What the interface's link carries in either direction, as its driver says (/sys/class/net/NAME/speed); \
         absent where it says nothing, and no cloud's limit"
        Host |host, points| {
            for interface in &host.interfaces {
                points.maybe(&[&interface.name], interface.link_bytes_per_second);
            }
        };
}
