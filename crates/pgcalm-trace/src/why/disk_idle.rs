//! Whether a disk has nothing to do while the block cgroup holds bios back for it.

use std::collections::HashMap;

use pgcalm_host::HostRoot;

use crate::disks;

/// Looks at disks, once for each sample.
#[derive(Debug)]
pub(crate) struct DiskIdle {
    root: HostRoot,
    disk_of_partition: HashMap<u32, u32>,
    known: HashMap<u32, bool>,
    /// Most bios seen held back since the last call of [`Self::take_held_back`].
    held_back: HashMap<u32, u64>,
}

impl DiskIdle {
    /// For the disks of a host.
    pub(crate) fn new(root: &HostRoot) -> Self {
        Self {
            root: root.clone(),
            disk_of_partition: disks::partitions(root),
            known: HashMap::new(),
            held_back: HashMap::new(),
        }
    }

    /// Another sample begins.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// Whether the disk of a device, by the kernel's number, has no request in flight; `bios` are held back for it.
    ///
    /// A bio over its limit waits before it becomes a request (block/blk-throttle.c), so who waits for such a disk waits
    /// for the throttle. The file inflight of sysfs has reads and writes (Documentation/ABI/stable/sysfs-block).
    pub(crate) fn is_idle_holding_back(&mut self, device: u32, bios: u64) -> bool {
        let device = self.disk_of_partition.get(&device).copied().unwrap_or(device);
        let most = self.held_back.entry(device).or_default();
        *most = bios.max(*most);
        let root = &self.root;
        *self.known.entry(device).or_insert_with(|| {
            let (major, minor) = (device >> 20, device & 0xf_ffff);
            let text = root.read(format!("sys/dev/block/{major}:{minor}/inflight"));
            text.is_ok_and(|text| text.split_whitespace().all(|number| number == "0"))
        })
    }

    /// The most bios that were held back at a moment, by disk, since the last call.
    pub(crate) fn take_held_back(&mut self) -> HashMap<u32, u64> {
        std::mem::take(&mut self.held_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    #[test]
    fn a_disk_with_no_request_in_flight_is_idle() {
        let root = FakeHost::default();
        for (disk, inflight) in [("7:1", "       0        0\n"), ("7:2", "       0        3\n")] {
            root.put(format!("sys/dev/block/{disk}/inflight"), inflight);
        }
        let mut idle = DiskIdle::new(&root);
        assert!(idle.is_idle_holding_back(disks::number(7, 1), 5));
        assert!(idle.is_idle_holding_back(disks::number(7, 1), 2));
        assert!(!idle.is_idle_holding_back(disks::number(7, 2), 1));
        // One that is gone is not known to be idle.
        assert!(!idle.is_idle_holding_back(disks::number(7, 3), 1));
        assert_eq!(idle.take_held_back()[&disks::number(7, 1)], 5);
        assert!(idle.take_held_back().is_empty());
    }
}
