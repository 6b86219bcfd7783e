//! Block devices: /sys/block/NAME/stat, number, queue limits, and what a loop device stands on.

use std::path::Path;
use std::path::PathBuf;

use crate::Error;
use crate::HostRoot;
use crate::Result;
use crate::resolve;

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
    let fields: Vec<u64> = text
        .split_whitespace()
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
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
    })
}

/// `MAJ:MIN` of device `name`.
pub fn number(root: &HostRoot, name: &str) -> Result<String> {
    Ok(root
        .read(format!("sys/block/{name}/dev"))?
        .trim()
        .to_string())
}

/// What a device number or a node stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// E.g. `sda` or `sda1`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
    /// The whole disk that it is a part of: itself unless it is a partition. Block cgroup limits are set on disks only
    /// (`blkg_conf_open_bdev` in the kernel's block/blk-cgroup.c refuses partitions).
    pub disk: Disk,
}

/// A whole disk: what a limit can be set on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// E.g. `sda`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
}

/// The device with number `MAJ:MIN`; `None` for numbers that no block device has, as those of btrfs and tmpfs.
pub fn by_number(root: &HostRoot, number: &str) -> Result<Option<BlockDevice>> {
    at(root, Path::new("/sys/dev/block").join(number))
}

/// The device of a node such as `/dev/sda`; `None` if it is no block device. Links, as those in /dev/disk and
/// /dev/mapper, are followed.
pub fn by_node(root: &HostRoot, node: &Path) -> Result<Option<BlockDevice>> {
    let Some(node) = resolve::resolve(root, Path::new(""), node) else {
        return Ok(None);
    };
    match node.file_name().filter(|_| node.starts_with("/dev")) {
        Some(name) => at(root, Path::new("/sys/class/block").join(name)),
        None => Ok(None),
    }
}

fn at(root: &HostRoot, link: PathBuf) -> Result<Option<BlockDevice>> {
    // The directories of partitions lie in those of their disks.
    let Some(directory) = resolve::resolve(root, Path::new(""), &link) else {
        return Ok(None);
    };
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
    let Some(number) = number_of(&directory)? else {
        return Ok(None);
    };
    let disk = if root.path(directory.join("partition")).exists() {
        directory.parent().unwrap_or(&directory)
    } else {
        &directory
    };
    Ok(number_of(disk)?.map(|disk_number| BlockDevice {
        name: name_of(&directory),
        number,
        disk: Disk {
            name: name_of(disk),
            number: disk_number,
        },
    }))
}

/// Where the largest operation that the kernel sends to device `name` is set, in KiB.
pub fn max_sectors_path(name: &str) -> String {
    format!("sys/block/{name}/queue/max_sectors_kb")
}

/// Where the most pieces of memory that an operation sent to device `name` may be made of are told.
pub fn max_segments_path(name: &str) -> String {
    format!("sys/block/{name}/queue/max_segments")
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
            Ok(file) => devices.push(LoopDevice {
                name,
                backing_file: PathBuf::from(file.trim_end_matches('\n')),
            }),
            // Not in use.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(devices)
}

/// The numbers of all loop devices that there are, in use or not: 7 for `loop7`.
pub fn loop_numbers(root: &HostRoot) -> Result<Vec<u32>> {
    Ok(root
        .list("sys/block")?
        .iter()
        .filter_map(|name| name.strip_prefix("loop")?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_partition_is_told_from_its_disk_by_number_and_by_node() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let disk = root.path("sys/devices/pci/block/sda");
        std::fs::create_dir_all(disk.join("sda1")).unwrap();
        std::fs::write(disk.join("dev"), "8:0\n").unwrap();
        std::fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        std::fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        for directory in ["sys/dev/block", "sys/class/block", "dev/disk/by-id"] {
            std::fs::create_dir_all(root.path(directory)).unwrap();
        }
        for (link, target) in [
            ("sys/dev/block/8:1", "../../devices/pci/block/sda/sda1"),
            ("sys/class/block/sda", "../../devices/pci/block/sda"),
            ("dev/disk/by-id/x", "../../sda"),
        ] {
            symlink(target, root.path(link)).unwrap();
        }
        std::fs::write(root.path("dev/sda"), "").unwrap();
        let partition = by_number(&root, "8:1").unwrap().unwrap();
        assert_eq!(
            (partition.name.as_str(), partition.disk.number.as_str()),
            ("sda1", "8:0")
        );
        let whole = by_node(&root, Path::new("/dev/disk/by-id/x"))
            .unwrap()
            .unwrap();
        assert_eq!(whole.name, "sda");
        assert_eq!(whole.disk.name, "sda");
        assert_eq!(by_number(&root, "0:42").unwrap(), None);
        assert_eq!(by_node(&root, Path::new("/dev/none")).unwrap(), None);
        assert_eq!(by_node(&root, Path::new("/etc")).unwrap(), None);
    }

    #[test]
    fn lists_loop_devices_in_use_only() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["loop0", "loop1", "vda"] {
            std::fs::create_dir_all(dir.path().join("sys/block").join(name)).unwrap();
        }
        let used = dir.path().join("sys/block/loop1/loop");
        std::fs::create_dir(&used).unwrap();
        std::fs::write(used.join("backing_file"), "/a b/data.img\n").unwrap();
        assert_eq!(
            loop_devices(&HostRoot::new(dir.path())).unwrap(),
            [LoopDevice {
                name: "loop1".into(),
                backing_file: "/a b/data.img".into()
            }]
        );
    }
}
