//! The cgroup limits in force for a block device: own group, ancestors, root group; v1 and v2.

use std::path::{Path, PathBuf};

use crate::block_device::BlockDevice;
use crate::cgroup::{Hierarchy, Version};
use crate::{HostRoot, Result, Unknown, cgroup};

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Read operations per second.
    ReadIops,
    /// Bytes read per second.
    ReadBps,
    /// Write operations per second.
    WriteIops,
    /// Bytes written per second.
    WriteBps,
}

names! {
    pub fn name(Kind), ALL:
        ReadIops "read-iops", ReadBps "read-bandwidth", WriteIops "write-iops", WriteBps "write-bandwidth"
}

names! {
    pub fn v1_file(Kind):
        ReadIops "blkio.throttle.read_iops_device", ReadBps "blkio.throttle.read_bps_device",
        WriteIops "blkio.throttle.write_iops_device", WriteBps "blkio.throttle.write_bps_device"
}

names! { pub fn v2_key(Kind): ReadIops "riops", ReadBps "rbps", WriteIops "wiops", WriteBps "wbps" }

/// One limit that is set on one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What it counts.
    pub kind: Kind,
    /// Operations or bytes per second.
    pub value: u64,
    /// The file that it stands in.
    pub file: PathBuf,
    /// `MAJ:MIN` of the device that it is set on.
    pub device: String,
}

impl Limit {
    /// Whether `group` feels it. v1 throttles a group by its own limits only (`throtl_pd_init`, block/blk-throttle.c), and
    /// the kernel's flusher, which writes for it, by the root's.
    pub fn is_felt(&self, hierarchy: &Hierarchy, group: &Path) -> bool {
        let of = [hierarchy.directory(group), hierarchy.mountpoint.clone()];
        hierarchy.version == Version::V2 || of.iter().any(|directory| self.file.parent() == Some(directory))
    }
}

/// The limits on device `number` (`MAJ:MIN`) that apply to a process in `group`, of which the smallest of a kind is the one
/// felt, and why there may be others.
pub fn limits(root: &HostRoot, hierarchy: &Hierarchy, group: &Path, number: &str) -> (Vec<Limit>, Vec<Unknown>) {
    if !hierarchy.shows(group) || !root.path(hierarchy.directory(group)).exists() {
        return (Vec::new(), vec![cgroup::unseen(group)]);
    }
    let mut found = Vec::new();
    let mut unknown: Vec<Unknown> = hierarchy.above(root).into_iter().collect();
    for directory in hierarchy.directories(group) {
        let files: Vec<(PathBuf, &[Kind])> = match hierarchy.version {
            Version::V1 => {
                Kind::ALL.iter().map(|kind| (directory.join(kind.v1_file()), std::slice::from_ref(kind))).collect()
            }
            // The root group has no io.max.
            Version::V2 => vec![(directory.join("io.max"), &Kind::ALL[..])],
        };
        for (file, kinds) in files {
            let text = match read_if_there(root, &file) {
                Ok(text) => text.unwrap_or_default(),
                Err(error) => {
                    unknown.push(error.into());
                    continue;
                }
            };
            found.extend(kinds.iter().filter_map(|kind| {
                let value = match hierarchy.version {
                    Version::V1 => v1_value(&text, number),
                    Version::V2 => v2_value(&text, number, *kind),
                };
                Some(Limit { kind: *kind, value: value?, file: file.clone(), device: number.to_string() })
            }));
        }
    }
    (found, unknown)
}

/// The limits that process `pid` (`self` for this process) feels on the disks that I/O to `device` passes through, and why there
/// may be others.
pub fn felt_by(root: &HostRoot, pid: &str, device: &BlockDevice) -> Result<(Vec<Limit>, Vec<Unknown>)> {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    let Some(hierarchy) = Hierarchy::of_block_io(root)? else { return Ok((found, unknown)) };
    let Some(group) = hierarchy.group_of(root, pid)? else { return Ok((found, unknown)) };
    for disk in device.disks() {
        let (limits, why) = limits(root, &hierarchy, &group, &disk.number);
        found.extend(limits);
        unknown.extend(why);
    }
    found.retain(|limit| limit.is_felt(&hierarchy, &group));
    Ok((found, unknown))
}

/// All limits that are set on the group of `directory` itself, with the number (`MAJ:MIN`) of their device.
pub fn of_group(root: &HostRoot, version: Version, directory: &Path) -> Result<Vec<(String, Limit)>> {
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let file = match version {
            Version::V1 => directory.join(kind.v1_file()),
            // The root group has no io.max.
            Version::V2 => directory.join("io.max"),
        };
        let Some(text) = read_if_there(root, &file)? else { continue };
        for line in text.lines() {
            let Some((number, _)) = line.split_once(' ') else { continue };
            let value = match version {
                Version::V1 => v1_value(line, number),
                Version::V2 => v2_value(line, number, kind),
            };
            found.extend(value.map(|value| {
                let (file, device) = (file.clone(), number.to_string());
                (number.to_string(), Limit { kind, value, file, device })
            }));
        }
    }
    Ok(found)
}

/// How much of a kind the group that has a limit in `file` has done on device `number` (`MAJ:MIN`), by its own counters; `None` if
/// they can't be read. v1 counts what a group asks for, before the limit holds it (`__blk_throtl_bio`, block/blk-throttle.c).
pub fn done(root: &HostRoot, file: &Path, number: &str, kind: Kind) -> Option<u64> {
    let is_v2 = file.ends_with("io.max");
    let (name, key) = match (is_v2, kind) {
        (true, Kind::ReadIops) => ("io.stat", "rios="),
        (true, Kind::ReadBps) => ("io.stat", "rbytes="),
        (true, Kind::WriteIops) => ("io.stat", "wios="),
        (true, Kind::WriteBps) => ("io.stat", "wbytes="),
        (false, Kind::ReadIops) => ("blkio.throttle.io_serviced", "Read "),
        (false, Kind::ReadBps) => ("blkio.throttle.io_service_bytes", "Read "),
        (false, Kind::WriteIops) => ("blkio.throttle.io_serviced", "Write "),
        (false, Kind::WriteBps) => ("blkio.throttle.io_service_bytes", "Write "),
    };
    let text = root.read(file.with_file_name(name)).ok()?;
    let count = |counter: &str| counter.strip_prefix(key)?.trim().parse::<u64>().ok();
    let value = text.lines().find_map(|line| {
        let (device, counters) = line.split_once(' ')?;
        if device != number {
            return None;
        }
        // v2 has all of a device in a line, v1 a line for each.
        if is_v2 { counters.split(' ').find_map(count) } else { count(counters) }
    });
    // A device on which a group has done nothing has no line.
    Some(value.unwrap_or(0))
}

/// The limit of a kind that is felt: the smallest.
pub fn tightest(limits: &[Limit], kind: Kind) -> Option<&Limit> {
    limits.iter().filter(|limit| limit.kind == kind).min_by_key(|limit| limit.value)
}

fn read_if_there(root: &HostRoot, file: &Path) -> Result<Option<String>> {
    match root.read(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn v1_value(text: &str, number: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (device, value) = line.split_once(' ')?;
        (device == number).then(|| value.trim().parse().ok())?
    })
}

fn v2_value(text: &str, number: &str, kind: Kind) -> Option<u64> {
    text.lines().find_map(|line| {
        let (device, values) = line.split_once(' ')?;
        if device != number {
            return None;
        }
        values.split(' ').find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            // `max` is no limit and no number.
            (key == kind.v2_key()).then(|| value.parse().ok())?
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_device::Disk;
    use crate::fake::FakeHost;

    /// systemd sets them on the disk below, whatever stands on it.
    #[test]
    fn limits_of_the_disk_below_a_mapped_device_are_felt() {
        let root = FakeHost::default();
        let mounts = "1 0 0:1 / / rw - tmpfs tmpfs rw\n2 1 0:35 / /cg rw - cgroup2 cgroup rw\n";
        root.put("proc/self/mountinfo", mounts);
        root.put("proc/7/cgroup", "0::/a\n");
        root.put("cg/cgroup.controllers", "cpu io\n");
        root.put("cg/a/io.max", "8:0 rbps=max wbps=max riops=max wiops=800\n");
        let device = |name: &str, number: &str, slaves| {
            let disk = Disk { name: name.to_string(), number: number.to_string() };
            BlockDevice { name: disk.name.clone(), number: disk.number.clone(), disk, slaves }
        };
        let mapped = device("dm-0", "253:0", vec![device("sda", "8:0", Vec::new())]);
        let (found, unknown) = felt_by(&root, "7", &mapped).unwrap();
        assert_eq!(tightest(&found, Kind::WriteIops).map(|limit| limit.value), Some(800));
        assert_eq!(unknown, []);
    }

    #[test]
    fn v1_limits_of_own_group_and_root_are_found_and_the_smaller_is_felt() {
        let root = FakeHost::default();
        let file = Kind::WriteIops.v1_file();
        for (group, text) in [("cg", "7:1 900\n7:0 800\n"), ("cg/a", "7:0 700\n"), ("cg/a/b", "7:0 1000\n")] {
            root.put(format!("{group}/{file}"), text);
        }
        let hierarchy = Hierarchy { version: Version::V1, mountpoint: "/cg".into(), mounted_group: "/".into() };
        let (found, unknown) = limits(&root, &hierarchy, Path::new("/a/b"), "7:0");
        assert_eq!(unknown, []);
        assert_eq!(found.len(), 3);
        let felt: Vec<_> = found.into_iter().filter(|limit| limit.is_felt(&hierarchy, Path::new("/a/b"))).collect();
        let found = felt.as_slice();
        let felt = tightest(found, Kind::WriteIops).unwrap();
        assert_eq!(felt.value, 800);
        assert_eq!(felt.file, Path::new("/cg").join(file));
        assert_eq!(tightest(found, Kind::WriteBps), None);
    }

    #[test]
    fn what_a_group_has_done_is_in_its_own_counters_of_the_device() {
        let root = FakeHost::default();
        let file = Path::new("/cg/a").join(Kind::WriteIops.v1_file());
        assert_eq!(done(&root, &file, "7:0", Kind::WriteIops), None);
        root.put("cg/a/blkio.throttle.io_serviced", "8:0 Write 9\n7:0 Read 3\n7:0 Write 5\n7:0 Sync 8\nTotal 17\n");
        root.put("cg/a/blkio.throttle.io_service_bytes", "7:0 Read 12288\n7:0 Write 40960\n");
        assert_eq!(Kind::ALL.map(|kind| done(&root, &file, "7:0", kind)), [3, 12288, 5, 40960].map(Some));
        assert_eq!(done(&root, &file, "7:1", Kind::WriteIops), Some(0));
        root.put("cg/b/io.stat", "8:0 rbytes=8192 wbytes=4096 rios=2 wios=1 dbytes=0 dios=0\n");
        let file = Path::new("/cg/b/io.max");
        assert_eq!(Kind::ALL.map(|kind| done(&root, file, "8:0", kind)), [2, 8192, 1, 4096].map(Some));
    }

    #[test]
    fn v2_reads_io_max_and_takes_max_for_no_limit() {
        let text = "254:0 rbps=max wbps=131072000 riops=max wiops=800\n";
        assert_eq!(v2_value(text, "254:0", Kind::WriteIops), Some(800));
        assert_eq!(v2_value(text, "254:0", Kind::WriteBps), Some(131_072_000));
        assert_eq!(v2_value(text, "254:0", Kind::ReadIops), None);
        assert_eq!(v2_value(text, "254:1", Kind::WriteIops), None);
    }
}
