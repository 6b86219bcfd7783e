//! Reads what concerns the host as a whole: dirty memory, disks and network interfaces.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::cpu_time::CpuTime;
use pgcalm_host::dirty_threshold::DirtyThresholds;
use pgcalm_host::meminfo::MemInfo;
use pgcalm_host::pressure::{HeldBack, Stalled};
use pgcalm_host::{HostRoot, Unknown, block_device, network, pressure, vm_sysctl};

use crate::model::{Cpu, Device, Group, Interface, Memory, Missing, Pressure, Subject};
use crate::rates;

/// Dirty memory and the thresholds of the kernel.
pub(crate) fn memory(root: &HostRoot) -> Result<Memory, Missing> {
    let info = MemInfo::read(root).map_err(|error| Missing {
        subject: Subject::Memory,
        reason: error.to_string(),
        remedy: None,
    })?;
    let thresholds = DirtyThresholds::read(root).ok();
    let expire = vm_sysctl::read(root, "dirty_expire_centisecs").ok();
    Ok(Memory {
        total_bytes: info.total_kib << 10,
        dirty_bytes: info.dirty_kib << 10,
        writeback_bytes: info.writeback_kib << 10,
        background_threshold_bytes: thresholds.map(|thresholds| thresholds.background_bytes),
        dirty_threshold_bytes: thresholds.map(|thresholds| thresholds.limit_bytes),
        dirty_expire_seconds: expire
            .and_then(|value| value.parse::<f64>().ok())
            .map(|centiseconds| centiseconds / 100.0),
    })
}

/// Processors and pressure of the host, since the last look.
#[derive(Debug, Default)]
pub(crate) struct Load {
    before: Option<(Instant, Option<CpuTime>, pressure::Pressure)>,
}

impl Load {
    /// Reads them; nothing at the first look.
    pub(crate) fn read(&mut self, root: &HostRoot) -> (Option<Cpu>, Option<Pressure>) {
        let (now, cpu, stalled) = (Instant::now(), CpuTime::read(root).ok(), pressure::of_host(root));
        let Some((then, before_cpu, before)) = self.before.replace((now, cpu, stalled)) else { return (None, None) };
        let processors = cpu.zip(before_cpu).map(|(after, before)| Cpu {
            busy: after.busy_percent_since(&before) / 100.0,
            steal: after.steal_percent_since(&before) / 100.0,
        });
        (processors, shares(&before, &stalled, now.duration_since(then)))
    }
}

/// The control group of an instance, since the last look.
#[derive(Debug, Default)]
pub(crate) struct GroupLoad {
    before: Option<(Instant, pressure::Pressure, HeldBack)>,
}

impl GroupLoad {
    /// Reads it; nothing at the first look.
    pub(crate) fn read(&mut self, root: &HostRoot, group: &pressure::Group) -> Option<Group> {
        let (now, stalled, held) = (Instant::now(), group.pressure(root), group.held_back(root));
        let (then, before, held_before) = self.before.replace((now, stalled, held))?;
        let elapsed = now.duration_since(then);
        let throttled = held.throttled.zip(held_before.throttled).map(|(after, before)| share(before, after, elapsed));
        let hits = held.memory_limit_hits.zip(held_before.memory_limit_hits);
        Some(Group {
            pressure: shares(&before, &stalled, elapsed),
            throttled,
            memory_limit_hits_per_second: hits
                .map(|(after, before)| after.saturating_sub(before) as f64 / elapsed.as_secs_f64().max(0.001)),
        })
    }
}

fn share(before: Duration, after: Duration, elapsed: Duration) -> f64 {
    let waited = after.saturating_sub(before).as_secs_f64();
    if elapsed.is_zero() { 0.0 } else { (waited / elapsed.as_secs_f64()).min(1.0) }
}

/// `None` where the kernel tells of no pressure.
fn shares(before: &pressure::Pressure, after: &pressure::Pressure, elapsed: Duration) -> Option<Pressure> {
    let of = |before: Option<Stalled>, after: Option<Stalled>| {
        let (before, after) = (before?, after?);
        Some((share(before.some, after.some, elapsed), share(before.full, after.full, elapsed)))
    };
    let (io_some, io_full) = of(before.io, after.io)?;
    let (memory_some, memory_full) = of(before.memory, after.memory).unwrap_or_default();
    let (cpu_some, _) = of(before.cpu, after.cpu).unwrap_or_default();
    Some(Pressure { cpu_some, io_some, io_full, memory_some, memory_full })
}

/// The counters of disks, with rates since the last look.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    before: Option<(Instant, Vec<Device>)>,
}

impl Disks {
    /// Reads the disks of these names; those that can't be read are left out, and named in `missing`.
    pub(crate) fn read(
        &mut self,
        root: &HostRoot,
        names: &BTreeSet<String>,
        missing: &mut Vec<Missing>,
    ) -> Vec<Device> {
        let now = Instant::now();
        let mut devices = Vec::new();
        for name in names {
            match device(root, name) {
                Ok(device) => devices.push(device),
                Err(why) => missing.push(Missing { subject: Subject::Devices, reason: why.to_string(), remedy: None }),
            }
        }
        let plain = devices.clone();
        if let Some((then, before)) = &self.before {
            let elapsed: Duration = now.duration_since(*then);
            for device in &mut devices {
                // A loop device that was detached and attached again has another file below the same name.
                device.rates = before
                    .iter()
                    .find(|old| old.name == device.name && old.number == device.number)
                    .and_then(|old| rates::of_device(old, device, elapsed));
            }
        }
        self.before = Some((now, plain));
        devices
    }
}

fn device(root: &HostRoot, name: &str) -> Result<Device, Unknown> {
    // sysfs has no slash in a name.
    let file_name = name.replace('/', "!");
    let stat = DeviceStat::read(root, &file_name)?;
    block_device::counts(root, &file_name, &stat)?;
    Ok(Device {
        name: name.to_string(),
        number: block_device::number(root, &file_name)?,
        read_operations: stat.read_ops,
        read_bytes: stat.read_bytes,
        write_operations: stat.write_ops,
        write_bytes: stat.write_bytes,
        in_flight: stat.in_flight,
        busy_seconds: Some(stat.busy_ms as f64 / 1000.0),
        rates: None,
    })
}

/// The counters of network interfaces, with rates since the last look.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    before: Option<(Instant, Vec<Interface>)>,
}

impl Interfaces {
    /// Reads the interfaces of these names; those that are gone are left out.
    pub(crate) fn read(
        &mut self,
        root: &HostRoot,
        names: &BTreeSet<String>,
        missing: &mut Vec<Missing>,
    ) -> Vec<Interface> {
        if names.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let stats = network::interfaces(root, "self").unwrap_or_else(|error| {
            missing.push(Missing { subject: Subject::Replication, reason: error.to_string(), remedy: None });
            Vec::new()
        });
        let mut interfaces: Vec<Interface> = stats
            .into_iter()
            .filter(|stat| names.contains(&stat.name))
            .map(|stat| Interface {
                link_bytes_per_second: network::link_bytes_per_second(root, &stat.name),
                name: stat.name,
                sent_bytes: stat.sent_bytes,
                sent_packets: stat.sent_packets,
                received_bytes: stat.received_bytes,
                received_packets: stat.received_packets,
                rates: None,
            })
            .collect();
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        let plain = interfaces.clone();
        if let Some((then, before)) = &self.before {
            let elapsed = now.duration_since(*then);
            for interface in &mut interfaces {
                interface.rates = before
                    .iter()
                    .find(|old| old.name == interface.name)
                    .and_then(|old| rates::of_interface(old, interface, elapsed));
            }
        }
        self.before = Some((now, plain));
        interfaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    #[test]
    fn dirty_memory_has_thresholds_if_they_can_be_read() {
        let root = FakeHost::default();
        assert_eq!(memory(&root).unwrap_err().subject, Subject::Memory);
        root.put(
            "proc/meminfo",
            "MemTotal:       1000 kB\nMemFree:         100 kB\nActive(file):     40 kB\nInactive(file):   60 kB\n\
             Dirty:       20 kB\nWriteback:       3 kB\n",
        );
        assert_eq!(memory(&root).unwrap().dirty_threshold_bytes, None);
        for (name, value) in [
            ("dirty_background_bytes", "4096"),
            ("dirty_background_ratio", "0"),
            ("dirty_bytes", "0"),
            ("dirty_ratio", "20"),
            ("dirty_expire_centisecs", "3000"),
        ] {
            root.put(format!("proc/sys/vm/{name}"), value);
        }
        let memory = memory(&root).unwrap();
        assert_eq!(memory.dirty_bytes, 20 << 10);
        assert_eq!(memory.background_threshold_bytes, Some(4096));
        assert_eq!(memory.dirty_threshold_bytes, Some((200 << 10) / 100 * 20));
        assert_eq!(memory.dirty_expire_seconds, Some(30.0));
    }

    #[test]
    fn the_second_look_at_a_disk_has_rates_and_one_that_is_gone_is_missing() {
        let root = FakeHost::default();
        let names = BTreeSet::from(["sda".to_string(), "sdb".to_string()]);
        root.put("sys/block/sda/dev", "8:0\n");
        root.put("sys/block/sda/stat", "1 0 8 0 10 0 80 0 0 1000 0\n");
        let mut disks = Disks::default();
        let mut missing = Vec::new();
        let first = disks.read(&root, &names, &mut missing);
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].write_bytes, 80 * 512);
        assert_eq!(first[0].rates, None);
        assert!(missing[0].reason.contains("sdb"), "{missing:?}");
        root.put("sys/block/sda/stat", "1 0 8 0 30 0 80 0 0 1000 0\n");
        let second = disks.read(&root, &names, &mut missing);
        let rates = second[0].rates.unwrap();
        assert!(rates.write_operations_per_second > 0.0);
        assert_eq!(rates.read_operations_per_second, 0.0);
    }

    #[test]
    fn pressure_is_the_share_of_the_time_since_the_look_before() {
        let root = FakeHost::default();
        let line = |total: u64| format!("some avg10=0.00 total={total}\nfull avg10=0.00 total={total}\n");
        root.put("proc/pressure/io", &line(0));
        root.put("proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n");
        let mut load = Load::default();
        assert_eq!(load.read(&root), (None, None));
        root.put("proc/pressure/io", &line(3_600_000_000));
        root.put("proc/stat", "cpu  30 0 0 50 0 0 0 20 0 0\n");
        let (cpu, pressure) = load.read(&root);
        assert_eq!(cpu, Some(Cpu { busy: 0.3, steal: 0.2 }));
        assert_eq!(pressure, Some(Pressure { io_some: 1.0, io_full: 1.0, ..Pressure::default() }));
    }

    #[test]
    fn only_interfaces_that_wal_leaves_by_are_read_with_their_links_speed() {
        let root = FakeHost::default();
        let dev =
            |sent: u64| format!("  lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\neth0: 7 2 0 0 0 0 0 0 {sent} 3 0 0 0 0 0 0\n");
        root.put("proc/self/net/dev", &dev(1000));
        root.put("sys/class/net/eth0/speed", "1000\n");
        let mut missing = Vec::new();
        let mut interfaces = Interfaces::default();
        assert_eq!(interfaces.read(&root, &BTreeSet::new(), &mut missing), Vec::new());
        let names = BTreeSet::from(["eth0".to_string(), "gone".to_string()]);
        let first = interfaces.read(&root, &names, &mut missing);
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].link_bytes_per_second, Some(125_000_000));
        assert_eq!((first[0].sent_packets, first[0].received_bytes), (3, 7));
        assert_eq!(first[0].rates, None);
        root.put("proc/self/net/dev", &dev(5000));
        let second = interfaces.read(&root, &names, &mut missing);
        let rates = second[0].rates.unwrap();
        assert!(rates.sent_bytes_per_second > 0.0);
        assert_eq!(rates.sent_packets_per_second, 0.0);
        assert_eq!(missing, Vec::new());
    }
}
