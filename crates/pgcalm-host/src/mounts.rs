//! /proc/self/mountinfo.

use std::path::PathBuf;

use crate::HostRoot;
use crate::Result;

/// One mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `MAJ:MIN` of the device.
    pub device: String,
    /// The directory of the filesystem that is mounted here; `/` unless a subtree is.
    pub fs_root: PathBuf,
    /// Where it is mounted.
    pub target: PathBuf,
    /// Type, e.g. `ext4`, `cgroup`.
    pub fs_type: String,
    /// What is mounted, e.g. `/dev/loop0`.
    pub source: String,
    /// Options of the filesystem, e.g. the controllers of a cgroup v1 hierarchy.
    pub super_options: Vec<String>,
}

/// All mounts that this process sees.
pub fn read(root: &HostRoot) -> Result<Vec<Mount>> {
    let text = root.read("proc/self/mountinfo")?;
    Ok(text.lines().filter_map(parse_line).collect())
}

fn parse_line(line: &str) -> Option<Mount> {
    // 38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let mut filesystem = filesystem.split(' ');
    Some(Mount {
        device: mount.next()?.to_string(),
        fs_root: unescape(mount.next()?).into(),
        target: unescape(mount.next()?).into(),
        fs_type: filesystem.next()?.to_string(),
        source: unescape(filesystem.next()?),
        super_options: filesystem
            .next()
            .unwrap_or("")
            .split(',')
            .map(String::from)
            .collect(),
    })
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cgroup_and_loop_mounts() {
        let mount = parse_line(
            "38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio",
        )
        .unwrap();
        assert_eq!(mount.fs_type, "cgroup");
        assert_eq!(mount.target, PathBuf::from("/sys/fs/cgroup/blkio"));
        assert_eq!(mount.super_options, ["rw", "blkio"]);

        let mount =
            parse_line("90 22 7:0 / /mnt/with\\040space rw,noatime - ext4 /dev/loop0 rw").unwrap();
        assert_eq!(mount.device, "7:0");
        assert_eq!(mount.target, PathBuf::from("/mnt/with space"));
        assert_eq!(mount.source, "/dev/loop0");
    }

    #[test]
    fn skips_lines_it_does_not_understand() {
        assert_eq!(parse_line(""), None);
        assert_eq!(parse_line("1 2 3:4 /"), None);
    }
}
