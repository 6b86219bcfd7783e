//! The host.

use pgcalm_host::throttle::Kind;
use serde::{Deserialize, Serialize};

use crate::model::{Cap, Caps, Cpu, Device, Instance, Interface, Missing, Pressure, Volume};

/// A host and its instances at one moment: one sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// When the sample was put together: milliseconds since 1970, wall clock.
    pub time_ms: u64,
    /// Page cache that waits to be written; `None` if /proc/meminfo can't be read.
    pub memory: Option<Memory>,
    /// The disks that hold anything of an instance, by name.
    pub devices: Vec<Device>,
    /// The network interfaces that any instance's WAL leaves by, by name.
    pub interfaces: Vec<Interface>,
    /// By port, then data directory.
    pub instances: Vec<Instance>,
    /// Processes that look like servers and that this user may not look at.
    pub hidden_processes: u32,
    /// What is missing for the host as a whole.
    pub missing: Vec<Missing>,
    /// Its processors; `None` in the first sample.
    #[serde(default)]
    pub cpu: Option<Cpu>,
    /// What its tasks stood still for; `None` in the first sample, and where the kernel does not tell.
    #[serde(default)]
    pub pressure: Option<Pressure>,
    /// Incidents that `pgcalm record` has written; empty unless it is asked for them.
    #[serde(default)]
    pub incidents: Vec<IncidentCount>,
}

/// Incidents of an instance with the same verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentCount {
    /// Name of the instance.
    pub server: String,
    /// The verdict's name.
    pub verdict: String,
    /// How many there have been since the record was begun.
    pub total: u64,
    /// Number of the last one, for `pgcalm incident`; 0 if there was none.
    pub last_id: u64,
}

impl Host {
    /// The disk below a volume; `None` if it has none.
    pub fn device(&self, volume: &Volume) -> Option<&Device> {
        let name = volume.disk.as_deref()?;
        self.devices.iter().find(|device| device.name == name)
    }

    /// What is allowed on the disk below a volume to all instances there: the disk's counters are of all, and a cap of one alone says
    /// nothing of them. A control group has counters of its own ([`Cap::used`]), and so its caps stay.
    pub fn caps_of_all(&self, volume: &Volume) -> Caps {
        let of = |cap: fn(&Caps) -> &Option<Cap>| {
            let ours = cap(&volume.caps);
            if ours.as_ref().is_some_and(Cap::is_of_group) {
                return ours.clone();
            }
            let has_it = |instance: &Instance| {
                let on_it = instance.volumes.iter().filter(|other| other.disk == volume.disk);
                let mut caps = on_it.map(|other| cap(&other.caps)).peekable();
                caps.peek().is_none() || caps.any(|other| other == ours)
            };
            ours.clone().filter(|_| self.instances.iter().all(has_it))
        };
        Caps {
            read_operations: of(|caps| &caps.read_operations),
            read_bytes: of(|caps| &caps.read_bytes),
            write_operations: of(|caps| &caps.write_operations),
            write_bytes: of(|caps| &caps.write_bytes),
        }
    }

    /// What is used of each cap of a volume, as a part of it, 0 to 1 and more; without those of which it is not known.
    pub fn used_parts(&self, volume: &Volume) -> Vec<(Kind, f64)> {
        let Some(rates) = self.device(volume).and_then(|device| device.rates) else { return Vec::new() };
        let caps = self.caps_of_all(volume);
        let part = |kind: Kind, cap: &Option<Cap>, on_disk: f64| {
            let cap = cap.as_ref().filter(|cap| cap.per_second > 0)?;
            Some((kind, cap.used(on_disk)? / cap.per_second as f64))
        };
        let parts = [
            part(Kind::ReadIops, &caps.read_operations, rates.read_operations_per_second),
            part(Kind::ReadBps, &caps.read_bytes, rates.read_bytes_per_second),
            part(Kind::WriteIops, &caps.write_operations, rates.write_operations_per_second),
            part(Kind::WriteBps, &caps.write_bytes, rates.write_bytes_per_second),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// Dirty memory of the whole host, and from when on the kernel writes it or holds writers (`domain_dirty_limits()` in the
/// kernel's mm/page-writeback.c).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Usable memory (MemTotal of /proc/meminfo).
    pub total_bytes: u64,
    /// Page cache that waits to be written (Dirty). A large folio counts as a whole when one block of it is dirty.
    pub dirty_bytes: u64,
    /// Page cache being written (Writeback).
    pub writeback_bytes: u64,
    /// From here on the kernel flusher writes: vm.dirty_background_bytes, or _ratio of the memory that may be dirty now.
    pub background_threshold_bytes: Option<u64>,
    /// From here on writers are held: vm.dirty_bytes, or _ratio likewise.
    pub dirty_threshold_bytes: Option<u64>,
    /// Age from which the kernel flusher writes a page: vm.dirty_expire_centisecs.
    pub dirty_expire_seconds: Option<f64>,
}
