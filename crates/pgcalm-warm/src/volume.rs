//! The volume that it is read from: what it takes, and what others do on it.

use std::path::Path;

use pgcalm_host::block_device::{BlockDevice, DeviceStat};
use pgcalm_host::throttle::Kind;
use pgcalm_host::{HostRoot, Unknown, block_device, file_system, mounts, throttle};

use crate::pace::{Caps, Others};
use crate::runs::BLOCK;

/// The disk below a data directory.
#[derive(Debug)]
pub struct Volume {
    root: HostRoot,
    /// Its name, or why it is not known.
    pub disk: Result<String, Unknown>,
    /// Caps of the control groups that this process reads under.
    pub caps: Caps,
    last: Option<DeviceStat>,
}

impl Volume {
    /// That of `data`.
    pub fn below(root: &HostRoot, data: &Path) -> Self {
        let found = device(root, data);
        let caps = found.as_ref().map(|device| caps(root, device)).unwrap_or_default();
        let mut volume = Self { root: root.clone(), disk: found.map(|device| device.disk.name), caps, last: None };
        volume.last = volume.read();
        volume
    }

    fn read(&self) -> Option<DeviceStat> {
        let name = self.disk.as_ref().ok()?;
        let stat = DeviceStat::read(&self.root, name).ok()?;
        block_device::counts(&self.root, name, &stat).is_ok().then_some(stat)
    }

    /// What others did since the last call, `seconds` ago, in which we read `own` bytes; none if we read `elsewhere`: nothing is
    /// known of whom that disturbs.
    pub fn others(&mut self, own: u64, elsewhere: bool, seconds: f64) -> Option<Others> {
        let now = self.read();
        let then = std::mem::replace(&mut self.last, now)?;
        let now = now.filter(|_| !elsewhere)?;
        Some(others(&then, &now, own, seconds))
    }
}

fn others(then: &DeviceStat, now: &DeviceStat, own: u64, seconds: f64) -> Others {
    let since = |counter: fn(&DeviceStat) -> u64| counter(now).saturating_sub(counter(then)) as f64;
    let read_bytes = (since(|stat| stat.read_bytes) - own as f64).max(0.0);
    // In how many parts our own reads come to the device is not told, but no read of a server's is less than a page.
    let reads = since(|stat| stat.read_ops).min(read_bytes / BLOCK as f64);
    Others {
        reads: reads / seconds,
        read_bytes: read_bytes / seconds,
        writes: since(|stat| stat.write_ops) / seconds,
        written_bytes: since(|stat| stat.write_bytes) / seconds,
    }
}

fn device(root: &HostRoot, data: &Path) -> Result<BlockDevice, Unknown> {
    let unknown = || Unknown::new(format!("which disk {} is on", data.display()));
    let data = data.canonicalize().map_err(|_| unknown())?;
    let mounts = mounts::read(root)?;
    let mount = mounts::containing(&mounts, &data).ok_or_else(unknown)?;
    let below = file_system::below(root, mount.clone(), &data);
    let device = below.device.as_ref().map_err(Clone::clone)?.as_ref().ok_or_else(unknown)?;
    Ok(device.clone())
}

fn caps(root: &HostRoot, device: &BlockDevice) -> Caps {
    let (limits, _) = throttle::felt_by(root, "self", device).unwrap_or_default();
    let cap = |kind| throttle::tightest(&limits, kind).map(|limit| limit.value as f64);
    Caps { operations: cap(Kind::ReadIops), bytes: cap(Kind::ReadBps) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::block_device::Disk;
    use pgcalm_host::fake::FakeHost;

    /// On v1 a group feels its own alone.
    #[test]
    fn the_cap_is_the_one_that_is_felt() {
        let root = FakeHost::default();
        let mounts = "1 0 0:1 / / rw - tmpfs tmpfs rw\n2 1 0:35 / /cg rw - cgroup cgroup rw,blkio\n";
        root.put("proc/self/mountinfo", mounts);
        root.put("proc/self/cgroup", "7:blkio:/a/b\n");
        for (group, text) in [("cg/a", "8:0 100\n"), ("cg/a/b", "8:0 900\n")] {
            root.put(format!("{group}/{}", Kind::ReadIops.v1_file()), text);
        }
        let disk = Disk { name: "sda".to_string(), number: "8:0".to_string() };
        let device = BlockDevice { name: "sda1".to_string(), number: "8:1".to_string(), disk, slaves: Vec::new() };
        assert_eq!(caps(&root, &device), Caps { operations: Some(900.0), bytes: None });
    }

    /// An idle disk says nothing of the one that a tablespace is on.
    #[test]
    fn of_another_volume_nothing_is_known() {
        let root = FakeHost::default();
        root.put("sys/block/sda/stat", "10 0 80 0 9 0 8000 0 0 0 0\n");
        let disk = Ok("sda".to_string());
        let mut volume = Volume { root: HostRoot::clone(&root), disk, caps: Caps::default(), last: None };
        assert_eq!(volume.others(0, false, 1.0), None);
        assert_eq!(volume.others(0, false, 1.0), Some(Others::default()));
        assert_eq!(volume.others(1 << 20, true, 1.0), None);
        assert_eq!(volume.others(0, false, 1.0), Some(Others::default()));
    }

    #[test]
    fn our_own_reads_are_not_others() {
        let then = DeviceStat { read_ops: 10, read_bytes: 1000, ..DeviceStat::default() };
        let now = |reads, pages| DeviceStat {
            read_ops: then.read_ops + reads,
            read_bytes: then.read_bytes + (2 << 20) + pages * BLOCK,
            write_ops: 6,
            write_bytes: 60_000,
            ..then
        };
        let alone = others(&then, &now(16, 0), 2 << 20, 2.0);
        assert_eq!((alone.reads, alone.read_bytes, alone.writes), (0.0, 0.0, 3.0));
        let beside = others(&then, &now(36, 20), 2 << 20, 2.0);
        assert_eq!((beside.reads, beside.read_bytes, beside.written_bytes), (10.0, 81_920.0, 30_000.0));
        // A scan of theirs takes few operations.
        assert_eq!(others(&then, &now(20, 1000), 2 << 20, 2.0).reads, 10.0);
    }
}
