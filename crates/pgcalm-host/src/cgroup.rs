//! Which cgroups a process is in, on v1, v2 and hybrid hosts.

use std::path::{Path, PathBuf};

use crate::mounts::Mount;
use crate::{Error, HostRoot, Result, Unknown, mounts};

/// Version of the hierarchy that a controller lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy of its own for (nearly) each controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A controller's hierarchy as this host mounts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// v1 or v2.
    pub version: Version,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The group that is visible at the mountpoint: `/` unless this process lives in a container.
    pub mounted_group: PathBuf,
}

impl Hierarchy {
    /// Finds the hierarchy of the block I/O controller: v1 `blkio` if mounted (then v2 cannot have `io`), else v2 if
    /// its root group offers `io`.
    pub fn of_block_io(root: &HostRoot) -> Result<Option<Self>> {
        Self::of_controller(root, "blkio", "io")
    }

    /// Finds the hierarchy of the memory controller in the same way.
    pub fn of_memory(root: &HostRoot) -> Result<Option<Self>> {
        Self::of_controller(root, "memory", "memory")
    }

    /// Finds the hierarchy of the CPU controller in the same way.
    pub fn of_cpu(root: &HostRoot) -> Result<Option<Self>> {
        Self::of_controller(root, "cpu", "cpu")
    }

    /// A controller is in one hierarchy only; `v1` and `v2` are its names there.
    fn of_controller(root: &HostRoot, v1: &str, v2: &str) -> Result<Option<Self>> {
        let mounts = mounts::read(root)?;
        let hierarchy = |mount: &Mount, version| Self {
            version,
            mountpoint: mount.target.clone(),
            mounted_group: mount.fs_root.clone(),
        };
        // Why it may be there although it is not found.
        let mut hidden: Option<Error> = None;
        let is_v1 = |mount: &&Mount| mount.fs_type == "cgroup" && mount.super_options.iter().any(|option| option == v1);
        for mount in mounts.iter().filter(is_v1) {
            match mounts::cover(&mounts, mount) {
                None => return Ok(Some(hierarchy(mount, Version::V1))),
                Some(cover) => hidden = Some(covered(mount, cover)),
            }
        }
        if let Some(hidden) = hidden {
            return Err(hidden);
        }
        let mut is_mounted = false;
        for mount in mounts.iter().filter(|mount| mount.fs_type == "cgroup2") {
            is_mounted = true;
            if let Some(cover) = mounts::cover(&mounts, mount) {
                hidden = Some(covered(mount, cover));
                continue;
            }
            let found = hierarchy(mount, Version::V2);
            match has_controller(root, &found.mountpoint, v2) {
                Ok(true) => return Ok(Some(found)),
                Ok(false) => hidden = found.above(root).map(Error::from).or(hidden),
                Err(error) => hidden = Some(error),
            }
        }
        // Of what is mounted nowhere, the kernel tells the groups of each process all the same.
        let membership = match root.read("proc/self/cgroup") {
            Ok(text) => text,
            Err(error) if error.is_not_found() => String::new(),
            Err(error) => return Err(hidden.unwrap_or(error)),
        };
        if controller_is_listed(&membership, v1)
            || (!is_mounted && membership.lines().any(|line| line.starts_with("0::")))
        {
            hidden = hidden.or(Some(Error::Unknown(Unknown::new(format!(
                "the control groups of {v1} are mounted nowhere that can be seen from here"
            )))));
        }
        hidden.map_or(Ok(None), Err)
    }

    /// v2: why limits of groups above those that are visible here are not known; none if this is the root, or v1, where groups
    /// above limit nothing.
    pub fn above(&self, root: &HostRoot) -> Option<Unknown> {
        let is_inner = self.version == Version::V2
            // All groups but the root have that file (Documentation/admin-guide/cgroup-v2.rst).
            && root.path(self.mountpoint.join("cgroup.type")).exists();
        is_inner.then(|| {
            Unknown::new(format!(
                "the limits of groups above {}, which can't be seen from inside a container: run pgcalm on the host",
                self.mountpoint.display()
            ))
        })
    }

    /// Whether `group` lies within what is visible here.
    pub fn shows(&self, group: &Path) -> bool {
        let inside = group.strip_prefix(&self.mounted_group);
        inside.is_ok_and(|inside| !inside.starts_with(".."))
    }

    /// The group of process `pid` (`self` for this process) in this hierarchy of block I/O, as a path from its root, e.g. `/a/b`.
    pub fn group_of(&self, root: &HostRoot, pid: &str) -> Result<Option<PathBuf>> {
        self.group_by(root, pid, "blkio")
    }

    /// The same in the hierarchy of another controller, by its name in v1.
    pub fn group_by(&self, root: &HostRoot, pid: &str, v1: &str) -> Result<Option<PathBuf>> {
        let text = root.read(format!("proc/{pid}/cgroup"))?;
        Ok(parse_membership(&text, self.version, v1))
    }

    /// The directory of `group`; where it is above what is visible here, that of the mountpoint.
    pub fn directory(&self, group: &Path) -> PathBuf {
        self.directories(group).swap_remove(0)
    }

    /// Directories of `group` and of its ancestors as far as they are visible here, innermost first.
    pub fn directories(&self, group: &Path) -> Vec<PathBuf> {
        // Inside a container the mountpoint shows a group below the root; what lies above can't be seen.
        let visible = group.strip_prefix(&self.mounted_group).unwrap_or(Path::new(""));
        let visible = visible.strip_prefix("/").unwrap_or(visible);
        visible
            .ancestors()
            .map(|part| if part.as_os_str().is_empty() { self.mountpoint.clone() } else { self.mountpoint.join(part) })
            .collect()
    }
}

/// Why nothing is known of a group that a hierarchy does not show: pgcalm runs in another container than its processes.
pub(crate) fn unseen(group: &Path) -> Unknown {
    Unknown::new(format!(
        "the limits of control group {}, which can't be seen from here: run pgcalm on the host",
        group.display()
    ))
}

/// The processes that are in the group of `directory` itself.
pub fn members(root: &HostRoot, directory: &Path) -> Result<Vec<i32>> {
    let text = root.read(directory.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Whether `controller` works in the v2 group of `directory`.
pub fn has_controller(root: &HostRoot, directory: &Path, controller: &str) -> Result<bool> {
    let text = root.read(directory.join("cgroup.controllers"))?;
    Ok(text.split_whitespace().any(|name| name == controller))
}

/// v2: whether what the kernel's flusher writes is charged to the group that dirtied it, which takes the memory controller;
/// `None` if that can't be seen from inside a container.
///
/// The io controller brings the memory controller with it wherever the kernel has one, listed in cgroup.controllers or not
/// (`depends_on` of `io_cgrp_subsys` in the kernel's block/blk-cgroup.c), so only a host without any lacks it, as after
/// `cgroup_disable=memory`.
pub fn owns_writeback(root: &HostRoot, hierarchy: &Hierarchy) -> Result<Option<bool>> {
    if has_controller(root, &hierarchy.mountpoint, "memory")? {
        return Ok(Some(true));
    }
    Ok(hierarchy.above(root).is_none().then_some(false))
}

fn covered(mount: &Mount, cover: &Mount) -> Error {
    Error::Unknown(Unknown::new(format!(
        "{} is covered by the {} that is mounted on {}: run pgcalm where it is not",
        mount.target.display(),
        cover.fs_type,
        cover.target.display()
    )))
}

/// Whether a line of /proc/PID/cgroup is of the v1 hierarchy of that controller.
fn controller_is_listed(membership: &str, controller: &str) -> bool {
    let lists = membership.lines().filter_map(|line| line.split(':').nth(1));
    lists.flat_map(|names| names.split(',')).any(|name| name == controller)
}

fn parse_membership(text: &str, version: Version, v1: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let id = fields.next()?;
        let controllers = fields.next()?;
        let group = fields.next()?;
        let matches = match version {
            Version::V1 => controllers.split(',').any(|name| name == v1),
            Version::V2 => id == "0" && controllers.is_empty(),
        };
        matches.then(|| PathBuf::from(group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    const HYBRID_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const HYBRID_MEMBERSHIP: &str = "9:name=systemd:/\n7:blkio:/tenants/a\n0::/user.slice\n";

    fn host(mountinfo: &str, membership: &str) -> FakeHost {
        FakeHost::with(&[("proc/self/mountinfo", mountinfo), ("proc/self/cgroup", membership)])
    }

    #[test]
    fn on_a_hybrid_host_block_io_is_found_in_v1() {
        let root = host(HYBRID_MOUNTS, HYBRID_MEMBERSHIP);
        let hierarchy = Hierarchy::of_block_io(&root).unwrap().unwrap();
        assert_eq!(hierarchy.version, Version::V1);
        let group = hierarchy.group_of(&root, "self").unwrap().unwrap();
        assert_eq!(group, PathBuf::from("/tenants/a"));
        assert_eq!(
            hierarchy.directories(&group),
            [
                PathBuf::from("/sys/fs/cgroup/blkio/tenants/a"),
                PathBuf::from("/sys/fs/cgroup/blkio/tenants"),
                PathBuf::from("/sys/fs/cgroup/blkio"),
            ]
        );
    }

    #[test]
    fn v2_counts_only_if_it_offers_the_io_controller() {
        let mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let root = host(mounts, "0::/system.slice/pg.service\n");
        root.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n");
        assert_eq!(Hierarchy::of_block_io(&root).unwrap(), None);
        root.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
        let hierarchy = Hierarchy::of_block_io(&root).unwrap().unwrap();
        assert_eq!(hierarchy.version, Version::V2);
        assert_eq!(hierarchy.group_of(&root, "self").unwrap(), Some("/system.slice/pg.service".into()));
    }

    #[test]
    fn writeback_has_no_owner_only_where_the_host_has_no_memory_controller() {
        let mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let root = host(mounts, "0::/pg\n");
        let owned = |controllers: &str| {
            root.put("sys/fs/cgroup/cgroup.controllers", controllers);
            let hierarchy = Hierarchy::of_block_io(&root).unwrap().unwrap();
            owns_writeback(&root, &hierarchy).unwrap()
        };
        assert_eq!(owned("cpu io memory\n"), Some(true));
        assert_eq!(owned("cpu io\n"), Some(false));
        // A container's group, whose parent may have it on without listing it here.
        root.put("sys/fs/cgroup/cgroup.type", "domain\n");
        assert_eq!(owned("cpu io\n"), None);
    }

    #[test]
    fn inside_a_container_only_the_groups_below_the_mount_are_looked_at() {
        let hierarchy = Hierarchy {
            version: Version::V1,
            mountpoint: "/sys/fs/cgroup/blkio".into(),
            mounted_group: "/docker/abc".into(),
        };
        assert_eq!(
            hierarchy.directories(Path::new("/docker/abc/db")),
            [PathBuf::from("/sys/fs/cgroup/blkio/db"), PathBuf::from("/sys/fs/cgroup/blkio")]
        );
    }
}
