//! Block devices: /sys/block/NAME/stat, number, queue limits, and what a loop device stands on.

use std::path::PathBuf;

use crate::Error;
use crate::HostRoot;
use crate::Result;

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
    })
}

/// `MAJ:MIN` of device `name`.
pub fn number(root: &HostRoot, name: &str) -> Result<String> {
    Ok(root
        .read(format!("sys/block/{name}/dev"))?
        .trim()
        .to_string())
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
        assert_eq!(parse_stat("1 2 3"), None);
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
