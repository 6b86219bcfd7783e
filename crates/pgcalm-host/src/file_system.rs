//! What a file system is on: the device of a mount, for those, too, that the kernel knows by a number of no device.

use std::path::Path;

use crate::block_device::BlockDevice;
use crate::file_system_journal::FileSystemJournal;
use crate::known::Known;
use crate::mounts::Mount;
use crate::{HostRoot, Result, Unknown, block_device, mounts};

/// File systems that are on no block device of this host: in memory, or another host's. What is written to them comes to no
/// limit of this host's.
const ON_NO_DEVICE: &[&str] =
    &["9p", "ceph", "cifs", "hugetlbfs", "lustre", "nfs", "nfs4", "ramfs", "smb3", "tmpfs", "virtiofs"];

/// What writes to a path go to.
#[derive(Debug)]
pub struct Below {
    /// The mount whose file system takes them.
    pub mount: Mount,
    /// Its device; none where it is on none.
    pub device: Known<Option<BlockDevice>>,
    /// Its journal; none where it has none.
    pub journal: Known<Option<FileSystemJournal>>,
}

/// What is below `path` on `mount`.
pub fn below(root: &HostRoot, mount: Mount, path: &Path) -> Below {
    let mount = match written_mount(root, &mount, path) {
        Ok(written) => written.unwrap_or(mount),
        Err(why) => {
            return Below { mount, device: Known::Not(why.clone()), journal: Known::Not(why) };
        }
    };
    let device = device(root, &mount);
    let journal = match &device {
        Ok(own) => FileSystemJournal::of(root, &mount, own.as_ref()),
        Err(why) => Err(why.clone()),
    };
    Below { mount, device: device.into(), journal: journal.into() }
}

/// The mount that is written to in place of `mount`: of an overlay that which its upper directory lies on, else none.
///
/// The directory is named as whoever mounted the overlay saw it, so it counts only if the server's files are found there.
fn written_mount(root: &HostRoot, mount: &Mount, path: &Path) -> std::result::Result<Option<Mount>, Unknown> {
    if mount.fs_type != "overlay" {
        return Ok(None);
    }
    let mut options = mount.super_options.iter();
    let Some(upper) = options.find_map(|option| option.strip_prefix("upperdir=")) else {
        return Err("this overlay does not say what its upper directory is".into());
    };
    let inside = path.strip_prefix(&mount.target).unwrap_or(path);
    // A mount shows a directory of the overlay, the root unless it was bound.
    let shown = mount.fs_root.strip_prefix("/").unwrap_or(&mount.fs_root);
    let there = root.path(Path::new(upper).join(shown).join(inside)).exists();
    let mounts = mounts::read(root).unwrap_or_default();
    match mounts::containing(&mounts, Path::new(upper)) {
        Some(found) if there && found.fs_type != "overlay" => Ok(Some(found.clone())),
        _ => Err(Unknown::new(format!(
            "the disk below this overlay's upper directory {upper}, which can't be seen from here: run pgcalm on the host, as root"
        ))),
    }
}

fn device(root: &HostRoot, mount: &Mount) -> std::result::Result<Option<BlockDevice>, Unknown> {
    let (number, kind) = (&mount.device, &mount.fs_type);
    if let Some(device) = block_device::by_number(root, number)? {
        return Ok(Some(device));
    }
    if !number.starts_with("0:") {
        return Err(Unknown::new(format!("which disk has number {number}: /sys/dev/block does not show it")));
    }
    if ON_NO_DEVICE.contains(&kind.as_str()) {
        return Ok(None);
    }
    let Some(device) = block_device::by_node(root, Path::new(&mount.source))? else {
        return Err(Unknown::new(format!("which disks this {kind} is on ({} names none)", mount.source)));
    };
    let others = devices_of_btrfs(root, &device)?;
    if others.len() > 1 {
        return Err(Unknown::new(format!("on which of the disks of this {kind} a file lies: {}", others.join(", "))));
    }
    Ok(Some(device))
}

/// The names of all devices of the btrfs that `device` is one of.
fn devices_of_btrfs(root: &HostRoot, device: &BlockDevice) -> Result<Vec<String>> {
    let list = |path: &str| match root.list(path) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        list => list,
    };
    for file_system in list("sys/fs/btrfs")? {
        let devices = list(&format!("sys/fs/btrfs/{file_system}/devices"))?;
        if devices.contains(&device.name.replace('/', "!")) {
            return Ok(devices);
        }
    }
    Ok(Vec::new())
}
