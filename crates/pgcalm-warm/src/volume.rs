//! The volume that it is read from: what it takes, and what others do on it.

use std::path::Path;

use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::cgroup::Hierarchy;
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
        let found = disk(root, data);
        let caps = found.as_ref().map(|(_, number)| caps(root, number)).unwrap_or_default();
        let mut volume = Self { root: root.clone(), disk: found.map(|(name, _)| name), caps, last: None };
        volume.last = volume.read();
        volume
    }

    fn read(&self) -> Option<DeviceStat> {
        let name = self.disk.as_ref().ok()?;
        let stat = DeviceStat::read(&self.root, name).ok()?;
        block_device::counts(&self.root, name, &stat).is_ok().then_some(stat)
    }

    /// What others did since the last call, `seconds` ago, in which we read `own` bytes.
    pub fn others(&mut self, own: u64, seconds: f64) -> Option<Others> {
        let now = self.read();
        let then = std::mem::replace(&mut self.last, now)?;
        Some(others(&then, &now?, own, seconds))
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

/// Name and number.
fn disk(root: &HostRoot, data: &Path) -> Result<(String, String), Unknown> {
    let unknown = || Unknown::new(format!("which disk {} is on", data.display()));
    let data = data.canonicalize().map_err(|_| unknown())?;
    let mounts = mounts::read(root)?;
    let mount = mounts::containing(&mounts, &data).ok_or_else(unknown)?;
    let below = file_system::below(root, mount.clone(), &data);
    let device = below.device.as_ref().map_err(Clone::clone)?.as_ref().ok_or_else(unknown)?;
    Ok((device.disk.name.clone(), device.disk.number.clone()))
}

fn caps(root: &HostRoot, number: &str) -> Caps {
    let limits = || {
        let hierarchy = Hierarchy::of_block_io(root).ok()??;
        let group = hierarchy.group_of(root, "self").ok()??;
        Some(throttle::limits(root, &hierarchy, &group, number).0)
    };
    let limits = limits().unwrap_or_default();
    let cap = |kind| throttle::tightest(&limits, kind).map(|limit| limit.value as f64);
    Caps { operations: cap(Kind::ReadIops), bytes: cap(Kind::ReadBps) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
