//! The points at which predictions are held against measurements.

use serde::Serialize;

use crate::Size;
use crate::options::{Distribution, Named, SysctlProfile, one_of};

/// One point: a table, a load, caps, buffers, and what the kernel allows to be dirty. Serialized by the options of scenario
/// checkpoint, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GridPoint {
    /// As on the command line.
    #[serde(skip)]
    pub name: &'static str,
    /// Rows of the table: with the same rate of writes, fewer are denser.
    pub rows: u64,
    /// Which rows the load touches.
    pub distribution: Distribution,
    /// Write operations per second of the data device.
    pub data_iops: u32,
    /// Bytes written per second to the data device.
    pub data_bps: Size,
    /// shared_buffers.
    pub shared_buffers: Size,
    /// Writeback sysctls.
    pub sysctl: SysctlProfile,
}

const MIB: u64 = 1 << 20;

const MEDIUM: GridPoint = GridPoint {
    name: "medium",
    rows: 5_000_000,
    distribution: Distribution::Uniform,
    data_iops: 800,
    data_bps: Size(125 * MIB),
    shared_buffers: Size(128 * MIB),
    sysctl: SysctlProfile::Default,
};

/// All that there are.
pub const POINTS: [GridPoint; 12] = [
    MEDIUM,
    GridPoint { name: "sparse", rows: 20_000_000, shared_buffers: Size(256 * MIB), ..MEDIUM },
    GridPoint {
        name: "zipfian",
        rows: 20_000_000,
        distribution: Distribution::Zipfian,
        shared_buffers: Size(256 * MIB),
        ..MEDIUM
    },
    GridPoint { name: "few-operations", data_iops: 300, ..MEDIUM },
    GridPoint { name: "many-operations", rows: 20_000_000, data_iops: 3000, shared_buffers: Size(256 * MIB), ..MEDIUM },
    GridPoint { name: "little-bandwidth", data_bps: Size(25 * MIB), ..MEDIUM },
    GridPoint { name: "large-buffers", shared_buffers: Size(1024 * MIB), ..MEDIUM },
    GridPoint {
        name: "little-memory",
        rows: 20_000_000,
        shared_buffers: Size(256 * MIB),
        sysctl: SysctlProfile::Small,
        ..MEDIUM
    },
    GridPoint {
        name: "zipfian-medium",
        distribution: Distribution::Zipfian,
        data_iops: 500,
        data_bps: Size(60 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "sparse-bandwidth",
        rows: 20_000_000,
        data_iops: 1500,
        data_bps: Size(60 * MIB),
        shared_buffers: Size(256 * MIB),
        ..MEDIUM
    },
    GridPoint { name: "sparse-large-buffers", rows: 20_000_000, shared_buffers: Size(4096 * MIB), ..MEDIUM },
    GridPoint {
        name: "roomy-memory",
        data_iops: 500,
        data_bps: Size(90 * MIB),
        shared_buffers: Size(64 * MIB),
        sysctl: SysctlProfile::Roomy,
        ..MEDIUM
    },
];

impl Named for GridPoint {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads one name.
pub fn parse(name: &str) -> Result<&'static GridPoint, String> {
    one_of(&POINTS, "point", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_different_names() {
        let names: std::collections::BTreeSet<_> = POINTS.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), POINTS.len());
    }
}
