//! /proc/self/mountinfo.

use std::path::{Path, PathBuf};

use crate::{HostRoot, Result};

/// One mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its number, which others have as that of their parent.
    pub id: u64,
    /// The mount that it is mounted on.
    pub parent: u64,
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
    /// Options of this mount, e.g. `noatime`.
    pub options: Vec<String>,
    /// Options of the filesystem, e.g. the controllers of a cgroup v1 hierarchy.
    pub super_options: Vec<String>,
}

/// All mounts that this process sees.
pub fn read(root: &HostRoot) -> Result<Vec<Mount>> {
    let text = root.read("proc/self/mountinfo")?;
    Ok(text.lines().filter_map(parse_line).collect())
}

/// All mounts that process `pid` sees, which in a container or a mount namespace of its own are others.
pub fn of_process(root: &HostRoot, pid: i32) -> Result<Vec<Mount>> {
    let text = root.read(format!("proc/{pid}/mountinfo"))?;
    Ok(text.lines().filter_map(parse_line).collect())
}

/// The mount that hides `mount`, all of it: what was mounted later on the same directory or one above. Mounts stand in the
/// order in which they were made.
pub fn cover<'a>(mounts: &'a [Mount], mount: &Mount) -> Option<&'a Mount> {
    let (mut at, mut above) = (mount, None::<&Mount>);
    // No mount is its own ancestor; lines that say so must not be followed for ever.
    for _ in 0..mounts.len() {
        let number = |id: u64| mounts.iter().position(|other| other.id == id);
        let covers = |other: &&Mount| {
            // The first of all is its own parent.
            let is_on_it = other.parent == at.id && other.id != at.id;
            let is_on_its_root = is_on_it && other.target == at.target;
            match above {
                None => is_on_its_root,
                Some(child) => {
                    is_on_it
                        && other.id != child.id
                        && child.target.starts_with(&other.target)
                        && (is_on_its_root || number(other.id) > number(child.id))
                }
            }
        };
        if let Some(found) = mounts.iter().find(covers) {
            return Some(found);
        }
        let parent = mounts.iter().find(|other| other.id == at.parent)?;
        if parent.id == at.id {
            return None;
        }
        (above, at) = (Some(at), parent);
    }
    None
}

/// The mount that `path` lies on: `path` must be absolute and free of symbolic links.
pub fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Of mounts on the same directory the last one covers the others; max_by_key takes the last of equals.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.target) && cover(mounts, mount).is_none())
        .max_by_key(|mount| mount.target.components().count())
}

fn parse_line(line: &str) -> Option<Mount> {
    // 38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let mut filesystem = filesystem.split(' ');
    Some(Mount {
        id: mount.next()?.parse().ok()?,
        parent: mount.next()?.parse().ok()?,
        device: mount.next()?.to_string(),
        fs_root: unescape(mount.next()?).into(),
        target: unescape(mount.next()?).into(),
        options: words(mount.next().unwrap_or("")),
        fs_type: filesystem.next()?.to_string(),
        source: unescape(filesystem.next()?),
        super_options: words(filesystem.next().unwrap_or("")),
    })
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(String::from).collect()
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
        let mount =
            parse_line("38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio").unwrap();
        assert_eq!(mount.fs_type, "cgroup");
        assert_eq!(mount.target, PathBuf::from("/sys/fs/cgroup/blkio"));
        assert_eq!(mount.super_options, ["rw", "blkio"]);

        let mount = parse_line("90 22 7:0 / /mnt/with\\040space rw,noatime - ext4 /dev/loop0 rw").unwrap();
        assert_eq!(mount.device, "7:0");
        assert_eq!(mount.target, PathBuf::from("/mnt/with space"));
        assert_eq!(mount.source, "/dev/loop0");
    }

    #[test]
    fn the_innermost_mount_holds_a_path_and_a_later_one_covers_an_earlier() {
        let mounts: Vec<Mount> = [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 8:2 / /srv rw,noatime - xfs /dev/sda2 rw",
            "3 1 7:0 / /srv rw - ext4 /dev/loop0 rw",
            "4 1 8:3 / /srv/pg rw - ext4 /dev/sda3 rw",
        ]
        .into_iter()
        .filter_map(parse_line)
        .collect();
        let device = |path: &str| containing(&mounts, Path::new(path)).unwrap().device.clone();
        assert_eq!(device("/srv/pg/data"), "8:3");
        assert_eq!(device("/srv/pgdata"), "7:0");
        assert_eq!(device("/var"), "8:1");
        assert_eq!(mounts[1].options, ["rw", "noatime"]);
    }

    #[test]
    fn a_mount_on_a_directory_above_covers_what_was_mounted_before_and_not_what_came_after() {
        let mounts: Vec<Mount> = [
            "9 9 0:7 / / rw - rootfs rootfs rw",
            "1 9 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 0:1 / /a rw - tmpfs one rw",
            "3 2 0:2 / /a/b rw - tmpfs two rw",
            "4 2 0:3 / /a rw - tmpfs three rw",
            "5 4 0:4 / /a/c rw - tmpfs four rw",
        ]
        .into_iter()
        .filter_map(parse_line)
        .collect();
        let covered: Vec<Option<&str>> =
            mounts.iter().map(|mount| cover(&mounts, mount).map(|cover| cover.source.as_str())).collect();
        let (disk, three) = (Some("/dev/sda1"), Some("three"));
        assert_eq!(covered, [disk, None, three, three, None, None]);
        let source = |path: &str| &containing(&mounts, Path::new(path)).unwrap().source;
        assert_eq!(source("/a/b/x"), "three");
        assert_eq!(source("/a/c/x"), "four");
    }

    #[test]
    fn skips_lines_it_does_not_understand() {
        assert_eq!(parse_line(""), None);
        assert_eq!(parse_line("1 2 3:4 /"), None);
    }
}
