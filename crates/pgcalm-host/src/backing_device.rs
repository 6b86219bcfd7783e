//! /sys/class/bdi: how much of the host's dirty page cache one device may have.

use crate::{Error, HostRoot, Result};

/// A share of all, in the unit of [`BackingDevice::max_share`].
pub const WHOLE: u32 = 1_000_000;

/// Limits of one device's writeback (`struct backing_dev_info` in the kernel; Documentation/ABI/testing/sysfs-class-bdi).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingDevice {
    /// The most that the device's dirty pages may be of vm.dirty_ratio's amount, in millionths; [`WHOLE`] is no limit.
    pub max_share: u32,
    /// The file that the share is written to, in the unit of that file: `max_ratio_fine`, or `max_ratio` on kernels
    /// before 6.2. `max_bytes` is no such file: the kernel keeps it as a share of a threshold that moves
    /// (`bdi_set_max_bytes`), so what is read there can't be given back exactly.
    pub file: String,
    /// What is set aside for it of the dirty thresholds, in millionths, however little it has written lately
    /// (`__wb_calc_thresh` in mm/page-writeback.c).
    pub min_share: u32,
    /// The file that this is written to, in the unit of that file: `min_ratio_fine`, or `min_ratio` before 6.2.
    pub min_file: String,
}

impl BackingDevice {
    /// Of disk `number` (`MAJ:MIN`); `None` if the kernel has none by that name. Partitions have that of their disk.
    pub fn read(root: &HostRoot, number: &str) -> Result<Option<Self>> {
        let directory = format!("sys/class/bdi/{number}");
        for (suffix, unit) in [("_fine", 1), ("", WHOLE / 100)] {
            let file = format!("{directory}/max_ratio{suffix}");
            let min_file = format!("{directory}/min_ratio{suffix}");
            if let Some(share) = value(root, &file)? {
                return Ok(Some(Self {
                    max_share: share.saturating_mul(unit),
                    file: format!("/{file}"),
                    min_share: value(root, &min_file)?.unwrap_or(0).saturating_mul(unit),
                    min_file: format!("/{min_file}"),
                }));
            }
        }
        Ok(None)
    }

    /// What lifts the limit when it is written to [`BackingDevice::file`].
    pub fn no_limit(&self) -> &'static str {
        if self.file.ends_with("_fine") { "1000000" } else { "100" }
    }
}

fn value(root: &HostRoot, file: &str) -> Result<Option<u32>> {
    match root.read(file) {
        Ok(text) => match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::Format { path: root.path(file), expected: "a number", found: text }),
        },
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn the_finer_of_both_files_is_read_where_the_kernel_has_it() {
        let root = FakeHost::default();
        assert_eq!(BackingDevice::read(&root, "8:0").unwrap(), None);
        root.put("sys/class/bdi/8:0/max_ratio", "25\n");
        let old = BackingDevice::read(&root, "8:0").unwrap().unwrap();
        assert_eq!(old.max_share, WHOLE / 4);
        assert_eq!(old.no_limit(), "100");
        assert_eq!(old.min_share, 0);
        root.put("sys/class/bdi/8:0/min_ratio", "5\n");
        let old = BackingDevice::read(&root, "8:0").unwrap().unwrap();
        assert_eq!(old.min_share, WHOLE / 20);
        assert_eq!(old.min_file, "/sys/class/bdi/8:0/min_ratio");
        root.put("sys/class/bdi/8:0/max_ratio_fine", "938\n");
        let fine = BackingDevice::read(&root, "8:0").unwrap().unwrap();
        assert_eq!(fine.max_share, 938);
        assert_eq!(fine.file, "/sys/class/bdi/8:0/max_ratio_fine");
        assert_eq!(fine.no_limit(), "1000000");
    }
}
