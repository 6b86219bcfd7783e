//! /sys/class/bdi: how much of the host's dirty page cache one device may have.

use crate::Error;
use crate::HostRoot;
use crate::Result;

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
}

impl BackingDevice {
    /// Of disk `number` (`MAJ:MIN`); `None` if the kernel has none by that name. Partitions have that of their disk.
    pub fn read(root: &HostRoot, number: &str) -> Result<Option<Self>> {
        let directory = format!("sys/class/bdi/{number}");
        for (name, unit) in [("max_ratio_fine", 1), ("max_ratio", WHOLE / 100)] {
            let file = format!("{directory}/{name}");
            if let Some(share) = value(root, &file)? {
                return Ok(Some(Self {
                    max_share: share.saturating_mul(unit),
                    file: format!("/{file}"),
                }));
            }
        }
        Ok(None)
    }

    /// What lifts the limit when it is written to [`BackingDevice::file`].
    pub fn no_limit(&self) -> &'static str {
        if self.file.ends_with("_fine") {
            "1000000"
        } else {
            "100"
        }
    }
}

fn value(root: &HostRoot, file: &str) -> Result<Option<u32>> {
    match root.read(file) {
        Ok(text) => match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::Format {
                path: root.path(file),
                expected: "a number",
                found: text,
            }),
        },
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_finer_of_both_files_is_read_where_the_kernel_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        assert_eq!(BackingDevice::read(&root, "8:0").unwrap(), None);
        let device = root.path("sys/class/bdi/8:0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("max_ratio"), "25\n").unwrap();
        let old = BackingDevice::read(&root, "8:0").unwrap().unwrap();
        assert_eq!(old.max_share, WHOLE / 4);
        assert_eq!(old.no_limit(), "100");
        fs::write(device.join("max_ratio_fine"), "938\n").unwrap();
        let fine = BackingDevice::read(&root, "8:0").unwrap().unwrap();
        assert_eq!(fine.max_share, 938);
        assert_eq!(fine.file, "/sys/class/bdi/8:0/max_ratio_fine");
        assert_eq!(fine.no_limit(), "1000000");
    }
}
