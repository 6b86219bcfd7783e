//! Who uses how much of a device's caps.

use std::ops::Add;

use crate::report::Observation;

const MIB: f64 = 1_048_576.0;

/// Operations, as the device counts them, and bytes, each per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Use {
    pub operations: f64,
    pub bytes: f64,
}

impl Add for Use {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { operations: self.operations + other.operations, bytes: self.bytes + other.bytes }
    }
}

/// What stock takes for data files, and what others than the server write to the device.
///
/// The device counts both, and WAL. Stock takes no more than an operation for each page that it writes. Where the device
/// can't be seen it is taken to be that.
pub(super) fn stock(observation: &Observation) -> (Use, Use) {
    let pages = observation.pages_per_s();
    let most = Use { operations: pages, bytes: pages * observation.settings.page_bytes as f64 };
    let device = &observation.device;
    if !device.counted {
        return (most, Use::default());
    }
    let wal = wal(observation);
    let seen = Use {
        operations: (device.operations_per_s - wal.operations).max(0.0),
        bytes: (device.mib_per_s * MIB - wal.bytes).max(0.0),
    };
    let data = Use { operations: seen.operations.min(most.operations), bytes: seen.bytes.min(most.bytes) };
    (data, Use { operations: seen.operations - data.operations, bytes: seen.bytes - data.bytes })
}

/// What pg_calm has counted in shadow mode for data files.
pub(super) fn pg_calm(observation: &Observation) -> Option<Use> {
    let counted = observation.shadow.as_ref()?;
    Some(Use { operations: counted.device_operations_per_s, bytes: counted.mib_per_s * MIB })
}

/// WAL, if it is on the device.
fn wal(observation: &Observation) -> Use {
    match observation.device.wal_writes_per_s {
        operations if operations > 0.0 => Use { operations, bytes: observation.wal_bytes_per_s },
        _ => Use::default(),
    }
}

/// The caps of a device, infinite where there is none, and what is used of them whatever writes data files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Caps {
    /// For writes; no more than reads and writes have together.
    pub writes: Use,
    /// For reads and writes together.
    all: Use,
    reads: Use,
    /// WAL, and what others write.
    other_writes: Use,
}

impl Caps {
    pub(super) fn of(observation: &Observation, others: Use) -> Self {
        let device = &observation.device;
        let cap = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        let all = Use { operations: cap(device.all_iops), bytes: cap(device.all_bytes_per_s) };
        Self {
            writes: Use {
                operations: cap(device.write_iops).min(all.operations),
                bytes: cap(device.write_bytes_per_s).min(all.bytes),
            },
            all,
            reads: Use { operations: device.reads_per_s, bytes: device.read_mib_per_s * MIB },
            other_writes: wal(observation) + others,
        }
    }

    /// Parts of the caps that are used if data files take `data`.
    pub(super) fn used(&self, data: Use) -> Used {
        let writes = data + self.other_writes;
        let all = writes + self.reads;
        Used {
            operations: (writes.operations / self.writes.operations).max(all.operations / self.all.operations),
            bytes: (writes.bytes / self.writes.bytes).max(all.bytes / self.all.bytes),
        }
    }
}

/// Parts of the caps: 1 is all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Used {
    pub operations: f64,
    pub bytes: f64,
}

impl Used {
    /// Of the cap that ends first.
    pub(super) fn most(self) -> f64 {
        self.operations.max(self.bytes)
    }
}
