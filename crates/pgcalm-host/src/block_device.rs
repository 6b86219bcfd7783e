//! Block devices: /sys/block/NAME/stat, number, queue limits, what a device-mapper or md device is made of, and what a
//! loop device stands on.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{Error, HostRoot, Result, Unknown, resolve};

/// Cumulative counters of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStat {
    /// Read operations completed.
    pub read_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations completed.
    pub write_ops: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Operations in flight.
    pub in_flight: u64,
    /// Milliseconds during which anything was in flight (io_ticks).
    pub busy_ms: u64,
    /// Flushes completed, as the device got them: those asked for at the same time share one (block/blk-flush.c). Requests
    /// that are nothing but a flush count among `write_ops`, too, each of them. `None` before Linux 5.5.
    pub flush_ops: Option<u64>,
}

/// Whether the counters of device `name`, which holds a file system that is mounted, count what it does.
pub fn counts(root: &HostRoot, name: &str, stat: &DeviceStat) -> std::result::Result<(), Unknown> {
    let switch = format!("sys/block/{name}/queue/iostats");
    if root.read(&switch).is_ok_and(|text| text.trim() == "0") {
        return Err(Unknown::new(format!("what {name} does: its counters are off; echo 1 | sudo tee /{switch}")));
    }
    // Whatever mounts a file system reads it first.
    if stat.read_ops == 0 && stat.write_ops == 0 {
        return Err(Unknown::new(format!(
            "what {name} does: its counters stay 0, as those of NVMe multipath (nvme_core.multipath) on some kernels"
        )));
    }
    Ok(())
}

/// Sectors of the stat file are 512 bytes on every device.
const SECTOR: u64 = 512;

impl DeviceStat {
    /// Reads the counters of device `name`, e.g. `loop0`.
    pub fn read(root: &HostRoot, name: &str) -> Result<Self> {
        let path = format!("sys/block/{name}/stat");
        let text = root.read(&path)?;
        parse_stat(&text).ok_or_else(|| Error::Format {
            path: root.path(&path),
            expected: "11 or more counters",
            found: text.trim().to_string(),
        })
    }
}

fn parse_stat(text: &str) -> Option<DeviceStat> {
    let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    if fields.len() < 11 {
        return None;
    }
    Some(DeviceStat {
        read_ops: fields[0],
        read_bytes: fields[2] * SECTOR,
        write_ops: fields[4],
        write_bytes: fields[6] * SECTOR,
        in_flight: fields[8],
        busy_ms: fields[9],
        flush_ops: fields.get(15).copied(),
    })
}

/// `MAJ:MIN` of device `name`.
pub fn number(root: &HostRoot, name: &str) -> Result<String> {
    Ok(root.read(format!("sys/block/{name}/dev"))?.trim().to_string())
}

/// Layers of devices that are looked through, at most. Real ones have three or four: LUKS on LVM on md on partitions.
const MAX_LAYERS: u32 = 8;

/// What a device number or a node stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// E.g. `sda`, `sda1` or `dm-0`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
    /// The whole disk that it is a part of: itself unless it is a partition. Block cgroup limits are set on whole disks,
    /// device-mapper and md devices included; the kernel's block/blk-cgroup.c refuses partitions
    /// (`blkg_conf_open_bdev`, before 6.3 `blkcg_conf_open_bdev`).
    pub disk: Disk,
    /// What the disk is made of, if it is a device-mapper or md device: disks or partitions, by name, as
    /// /sys/block/NAME/slaves has them. What it is asked to do they do, so their limits are felt, too.
    pub slaves: Vec<BlockDevice>,
}

impl BlockDevice {
    /// All disks that I/O to it passes through: its own, then those below it, each once.
    pub fn disks(&self) -> Vec<&Disk> {
        let mut disks = vec![&self.disk];
        for disk in self.slaves.iter().flat_map(Self::disks) {
            if !disks.contains(&disk) {
                disks.push(disk);
            }
        }
        disks
    }
}

/// A whole disk: what a limit can be set on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// E.g. `sda`, `dm-0` or `md0`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
}

/// The device with number `MAJ:MIN`; `None` for numbers that no block device has, as those of btrfs and tmpfs.
pub fn by_number(root: &HostRoot, number: &str) -> Result<Option<BlockDevice>> {
    at(root, Path::new("/sys/dev/block").join(number), MAX_LAYERS)
}

/// The device of a node such as `/dev/sda` or `/dev/mapper/vg-pg`; `None` if it is no block device. Links, as those in
/// /dev/disk, are followed.
pub fn by_node(root: &HostRoot, node: &Path) -> Result<Option<BlockDevice>> {
    let Some(node) = resolve::resolve(root, Path::new(""), node) else { return by_name_of_node(root, node) };
    // Without udev nodes in /dev/mapper are no links, so a node's name tells less than its number.
    let found = fs::metadata(root.path(&node)).map(|found| (found.file_type(), found.rdev()));
    if let Ok((file_type, number)) = found
        && file_type.is_block_device()
    {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        return by_number(root, &format!("{major}:{minor}"));
    }
    match node.file_name().filter(|_| node.starts_with("/dev")) {
        Some(name) => at(root, Path::new("/sys/class/block").join(name), MAX_LAYERS),
        None => Ok(None),
    }
}

/// The device of a node that is not there, as where /dev has been replaced by one with few nodes (a container's, or that of
/// a service with PrivateDevices=yes): by the names that udev makes nodes of.
fn by_name_of_node(root: &HostRoot, node: &Path) -> Result<Option<BlockDevice>> {
    let class = Path::new("/sys/class/block");
    if let Ok(mapped) = node.strip_prefix("/dev/mapper") {
        let names = match root.list(class) {
            Err(error) if error.is_not_found() => return Ok(None),
            names => names?,
        };
        let is_it = |name: &&String| {
            let text = root.read(class.join(name).join("dm/name"));
            text.is_ok_and(|text| Path::new(text.trim_end()) == mapped)
        };
        return match names.iter().find(is_it) {
            Some(name) => at(root, class.join(name), MAX_LAYERS),
            None => Ok(None),
        };
    }
    let name = node.strip_prefix("/dev").ok().and_then(Path::to_str);
    match name.filter(|name| !name.is_empty() && !name.starts_with("..")) {
        Some(name) => at(root, class.join(name.replace('/', "!")), MAX_LAYERS),
        None => Ok(None),
    }
}

fn at(root: &HostRoot, link: PathBuf, layers: u32) -> Result<Option<BlockDevice>> {
    // The directories of partitions lie in those of their disks.
    let Some(directory) = resolve::resolve(root, Path::new(""), &link) else { return Ok(None) };
    let number_of = |directory: &Path| match root.read(directory.join("dev")) {
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    };
    let name_of = |directory: &Path| {
        // The kernel writes a slash in a name as `!` here.
        let name = directory.file_name().unwrap_or_default();
        name.to_string_lossy().replace('!', "/")
    };
    let Some(number) = number_of(&directory)? else { return Ok(None) };
    let disk = if root.path(directory.join("partition")).exists() {
        directory.parent().unwrap_or(&directory)
    } else {
        &directory
    };
    let Some(disk_number) = number_of(disk)? else { return Ok(None) };
    Ok(Some(BlockDevice {
        name: name_of(&directory),
        number,
        disk: Disk { name: name_of(disk), number: disk_number },
        slaves: slaves(root, disk, layers)?,
    }))
}

fn slaves(root: &HostRoot, disk: &Path, layers: u32) -> Result<Vec<BlockDevice>> {
    let directory = disk.join("slaves");
    let names = match root.list(&directory) {
        Ok(names) if layers > 0 => names,
        Ok(_) => Vec::new(),
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut devices = Vec::new();
    for name in names {
        devices.extend(at(root, directory.join(name), layers - 1)?);
    }
    Ok(devices)
}

/// Where the largest operation that the kernel sends to device `name` is set, in KiB.
pub fn max_sectors_path(name: &str) -> String {
    format!("sys/block/{name}/queue/max_sectors_kb")
}

/// A loop device in use and the file it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    /// E.g. `loop0`.
    pub name: String,
    /// The file; ends in ` (deleted)` when that has been removed.
    pub backing_file: PathBuf,
}

/// The loop devices in use.
pub fn loop_devices(root: &HostRoot) -> Result<Vec<LoopDevice>> {
    let mut devices = Vec::new();
    for name in root.list("sys/block")? {
        if !name.starts_with("loop") {
            continue;
        }
        match root.read(format!("sys/block/{name}/loop/backing_file")) {
            Ok(file) => devices.push(LoopDevice { name, backing_file: PathBuf::from(file.trim_end_matches('\n')) }),
            // Not in use.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(devices)
}

/// The numbers of all loop devices that there are, in use or not: 7 for `loop7`.
pub fn loop_numbers(root: &HostRoot) -> Result<Vec<u32>> {
    Ok(root.list("sys/block")?.iter().filter_map(|name| name.strip_prefix("loop")?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn parses_a_stat_line_of_a_current_kernel() {
        let stat = parse_stat(
            "    1213      12   90210     304   52310    1024  8437512   90210       3   41234   90514        0        0        0        0    1034     210\n",
        )
        .unwrap();
        assert_eq!(stat.read_ops, 1213);
        assert_eq!(stat.read_bytes, 90210 * 512);
        assert_eq!(stat.write_ops, 52310);
        assert_eq!(stat.write_bytes, 8_437_512 * 512);
        assert_eq!(stat.in_flight, 3);
        assert_eq!(stat.busy_ms, 41234);
        assert_eq!(parse_stat("1 2 3"), None);
    }

    #[test]
    fn counters_that_are_off_or_stay_0_count_nothing() {
        let root = FakeHost::default();
        let stat = |read_ops| DeviceStat { read_ops, ..DeviceStat::default() };
        assert_eq!(counts(&root, "nvme0n1", &stat(1)), Ok(()));
        let why = counts(&root, "nvme0n1", &stat(0)).unwrap_err();
        assert!(why.unknown.contains("multipath"), "{why}");
        root.put("sys/block/sda/queue/iostats", "0\n");
        let why = counts(&root, "sda", &stat(1)).unwrap_err();
        assert!(why.unknown.contains("iostats"), "{why}");
    }

    #[test]
    fn a_partition_is_told_from_its_disk_by_number_and_by_node() {
        let root = FakeHost::default();
        for (file, text) in [("dev", "8:0\n"), ("sda1/dev", "8:1\n"), ("sda1/partition", "1\n")] {
            root.put(format!("sys/devices/pci/block/sda/{file}"), text);
        }
        root.link("sys/dev/block/8:1", "../../devices/pci/block/sda/sda1");
        root.link("sys/class/block/sda", "../../devices/pci/block/sda");
        root.link("dev/disk/by-id/x", "../../sda");
        root.put("dev/sda", "");
        let partition = by_number(&root, "8:1").unwrap().unwrap();
        assert_eq!((partition.name.as_str(), partition.disk.number.as_str()), ("sda1", "8:0"));
        let whole = by_node(&root, Path::new("/dev/disk/by-id/x")).unwrap().unwrap();
        assert_eq!(whole.name, "sda");
        assert_eq!(whole.disk.name, "sda");
        assert_eq!(by_number(&root, "0:42").unwrap(), None);
        assert_eq!(by_node(&root, Path::new("/dev/none")).unwrap(), None);
        assert_eq!(by_node(&root, Path::new("/etc")).unwrap(), None);
    }

    #[test]
    fn what_a_device_is_made_of_is_looked_through_to_the_disks() {
        let root = FakeHost::default();
        // LUKS (dm-1) on LVM (dm-0) on a mirror (md0) of two partitions.
        for (disk, number) in [("sda", "8:0"), ("sdb", "8:16")] {
            root.put(format!("sys/devices/{disk}/dev"), number);
            root.put(format!("sys/devices/{disk}/{disk}1/dev"), "8:1");
            root.put(format!("sys/devices/{disk}/{disk}1/partition"), "1");
        }
        for (name, number) in [("md0", "9:0"), ("dm-0", "253:0"), ("dm-1", "253:1")] {
            root.put(format!("sys/devices/virtual/{name}/dev"), number);
        }
        for (holder, slave) in
            [("md0", "../../../sda/sda1"), ("md0", "../../../sdb/sdb1"), ("dm-0", "../../md0"), ("dm-1", "../../dm-0")]
        {
            let name = slave.rsplit('/').next().unwrap();
            root.link(format!("sys/devices/virtual/{holder}/slaves/{name}"), slave);
        }
        root.link("sys/dev/block/253:1", "../../devices/virtual/dm-1");
        let device = by_number(&root, "253:1").unwrap().unwrap();
        let names: Vec<&str> = device.disks().iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["dm-1", "dm-0", "md0", "sda", "sdb"]);
        let mirror = &device.slaves[0].slaves[0];
        let parts: Vec<&str> = mirror.slaves.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts, ["sda1", "sdb1"]);
        assert_eq!(mirror.slaves[1].disk.number, "8:16");

        // Nothing that sysfs can show, but nothing to hang in either.
        root.link("sys/devices/sda/slaves/dm-1", "../../virtual/dm-1");
        assert!(by_number(&root, "253:1").is_ok());
    }

    #[test]
    fn lists_loop_devices_in_use_only() {
        let root = FakeHost::with(&[("sys/block/loop1/loop/backing_file", "/a b/data.img\n")]);
        root.make("sys/block/loop0");
        root.make("sys/block/vda");
        assert_eq!(
            loop_devices(&root).unwrap(),
            [LoopDevice { name: "loop1".into(), backing_file: "/a b/data.img".into() }]
        );
    }
}
