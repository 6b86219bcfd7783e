//! Disks, what lies on them, and their caps.

use pgcalm_host::instance::Role;
use serde::{Deserialize, Serialize};

/// A whole disk (or loop device, device-mapper target, …) with its counters of /sys/block/NAME/stat, which include what
/// any other program reads and writes there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// E.g. `sda`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
    /// Read operations completed since boot, as the device counts them.
    pub read_operations: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations completed.
    pub write_operations: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Operations in flight now. Those that a cgroup limit holds back are not among them.
    pub in_flight: u64,
    /// Time during which anything was in flight (io_ticks), since boot.
    pub busy_seconds: Option<f64>,
    /// What these come to per second.
    pub rates: Option<DeviceRates>,
}

/// What a device does per second, between the last two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Read operations.
    pub read_operations_per_second: f64,
    /// Bytes read.
    pub read_bytes_per_second: f64,
    /// Write operations.
    pub write_operations_per_second: f64,
    /// Bytes written.
    pub write_bytes_per_second: f64,
    /// Part of the time during which anything was in flight, 0 to 1.
    pub busy: Option<f64>,
}

/// Where files of an instance lie.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// What lies there; more than one where data and WAL share a disk.
    pub roles: Vec<Role>,
    /// The first of the directories, as the server sees it.
    pub path: String,
    /// Type of the file system, e.g. `ext4`.
    pub file_system: String,
    /// Name of the disk, which [`crate::model::Host::device`] looks up; `None` for tmpfs, btrfs, NFS.
    pub disk: Option<String>,
    /// What is allowed on the disk to this instance.
    pub caps: Caps,
}

/// Caps that are known; a cloud volume's are visible only where they were given to the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Caps {
    /// Read operations per second.
    pub read_operations: Option<Cap>,
    /// Bytes read per second.
    pub read_bytes: Option<Cap>,
    /// Write operations per second.
    pub write_operations: Option<Cap>,
    /// Bytes written per second.
    pub write_bytes: Option<Cap>,
}

/// One cap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cap {
    /// Operations or bytes per second.
    pub per_second: u64,
    /// Where it stands: the file of a cgroup limit, or `pg_calm: …` with what the module says.
    pub source: String,
    /// `MAJ:MIN` of the device that a control group's limit is set on, or `unknown`; empty for a cap of the disk itself.
    #[serde(default)]
    pub device: String,
    /// What the control group did per second, by its own counters, since the sample before; `None` if that is not known.
    #[serde(default)]
    pub used_per_second: Option<f64>,
}

impl Cap {
    /// Whether it is for a control group, whatever others do on the disk.
    pub fn is_of_group(&self) -> bool {
        !self.device.is_empty()
    }

    /// What is used of it per second on a disk that does `on_disk`; `None` if what its control group does is not known.
    pub fn used(&self, on_disk: f64) -> Option<f64> {
        if self.is_of_group() { self.used_per_second } else { Some(on_disk) }
    }
}
