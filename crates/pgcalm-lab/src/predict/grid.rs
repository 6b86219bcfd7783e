//! The points at which predictions are held against measurements.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Limit;
use crate::Size;
use crate::options::Distribution;
use crate::options::SysctlProfile;

/// One point: a table, a load, caps, buffers, and what the kernel allows to be dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridPoint {
    /// As on the command line.
    pub name: &'static str,
    /// Whether the model was left as it was when this point had been seen.
    pub held_back: bool,
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
    held_back: false,
    rows: 5_000_000,
    distribution: Distribution::Uniform,
    data_iops: 800,
    data_bps: Size(125 * MIB),
    shared_buffers: Size(128 * MIB),
    sysctl: SysctlProfile::Default,
};

/// All that there are. The model has been changed after those were seen that are not held back.
pub const POINTS: [GridPoint; 12] = [
    MEDIUM,
    GridPoint {
        name: "sparse",
        rows: 20_000_000,
        shared_buffers: Size(256 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "zipfian",
        rows: 20_000_000,
        distribution: Distribution::Zipfian,
        shared_buffers: Size(256 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "few-operations",
        data_iops: 300,
        ..MEDIUM
    },
    GridPoint {
        name: "many-operations",
        held_back: true,
        rows: 20_000_000,
        data_iops: 3000,
        shared_buffers: Size(256 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "little-bandwidth",
        data_bps: Size(25 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "large-buffers",
        shared_buffers: Size(1024 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "little-memory",
        held_back: true,
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
        held_back: true,
        rows: 20_000_000,
        data_iops: 1500,
        data_bps: Size(60 * MIB),
        shared_buffers: Size(256 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "sparse-large-buffers",
        held_back: true,
        rows: 20_000_000,
        shared_buffers: Size(4096 * MIB),
        ..MEDIUM
    },
    GridPoint {
        name: "roomy-memory",
        data_iops: 500,
        data_bps: Size(90 * MIB),
        shared_buffers: Size(64 * MIB),
        sysctl: SysctlProfile::Roomy,
        ..MEDIUM
    },
];

/// The points named in a comma-separated list.
pub fn parse_list(text: &str) -> Result<Vec<&'static GridPoint>, String> {
    let mut chosen: Vec<&'static GridPoint> = Vec::new();
    for name in text.split(',').map(str::trim) {
        let point = POINTS
            .iter()
            .find(|point| point.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = POINTS.iter().map(|point| point.name).collect();
                format!("no point {name:?}; choose from {}", names.join(", "))
            })?;
        if chosen.contains(&point) {
            return Err(format!("{name} is named twice; name each point once"));
        }
        chosen.push(point);
    }
    Ok(chosen)
}

impl GridPoint {
    /// By name on the command line of scenario checkpoint, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        [
            ("rows", Value::from(self.rows)),
            ("distribution", self.distribution.name().into()),
            ("data-iops", Limit(Some(self.data_iops)).0.into()),
            ("data-bps", self.data_bps.to_string().into()),
            ("shared-buffers", self.shared_buffers.to_string().into()),
            ("sysctl", self.sysctl.name().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_different_names_and_some_are_held_back() {
        let names: std::collections::BTreeSet<_> = POINTS.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), POINTS.len());
        let held_back = POINTS.iter().filter(|p| p.held_back).count();
        assert!(held_back >= 3 && held_back < POINTS.len());
    }

    #[test]
    fn a_list_refuses_unknown_and_double_points() {
        let list = parse_list("zipfian, medium").unwrap();
        assert_eq!(list[0].name, "zipfian");
        assert!(parse_list("medium,dense").unwrap_err().contains("sparse"));
        assert!(parse_list("medium,medium").is_err());
    }
}
