//! The memory limit that control groups put on a process.

use std::path::{Path, PathBuf};

use crate::cgroup::{Hierarchy, Version};
use crate::{HostRoot, Result, cgroup, mounts};

/// v1 reads as the largest multiple of a page that fits when there is no limit (`PAGE_COUNTER_MAX`).
const NO_LIMIT: u64 = 1 << 60;

/// The tightest limit on the memory of a process's group or one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Page cache and shared memory included.
    pub bytes: u64,
    /// The file that it stands in.
    pub file: PathBuf,
}

/// The limit of process `pid`; none if there is none.
///
/// That there is none can't be told where control groups are covered or, inside a container, where groups are above or the
/// process is in another container.
///
/// v2: `memory.high` counts as `memory.max` does, since beyond it every allocation of the group is throttled.
pub fn of_process(root: &HostRoot, pid: i32) -> Result<Option<MemoryLimit>> {
    let limits = all_of_process(root, pid)?;
    if limits.is_empty()
        && let Some(hierarchy) = Hierarchy::of_memory(root)?
    {
        let unseen = hierarchy.group_by(root, &pid.to_string(), "memory")?.filter(|group| !hierarchy.shows(group));
        if let Some(why) = unseen.map(|group| cgroup::unseen(&group)).or_else(|| hierarchy.above(root)) {
            return Err(why.into());
        }
    }
    Ok(limits.into_iter().min_by_key(|limit| limit.bytes))
}

/// All limits that are seen: of the group of process `pid`, and of those above it.
pub fn all_of_process(root: &HostRoot, pid: i32) -> Result<Vec<MemoryLimit>> {
    let mounts = mounts::read(root)?;
    let membership = root.read(format!("proc/{pid}/cgroup"))?;
    let mut limits = Vec::new();
    for mount in mounts.iter().filter(|m| mounts::cover(&mounts, m).is_none()) {
        let version = match mount.fs_type.as_str() {
            "cgroup" if mount.super_options.iter().any(|name| name == "memory") => Version::V1,
            "cgroup2" => Version::V2,
            _ => continue,
        };
        let Some(group) = group(&membership, version) else { continue };
        let hierarchy = Hierarchy { version, mountpoint: mount.target.clone(), mounted_group: mount.fs_root.clone() };
        // What is seen in its place are the groups of this container.
        if !hierarchy.shows(Path::new(group)) {
            continue;
        }
        let names: &[&str] = match version {
            Version::V1 => &["memory.limit_in_bytes"],
            Version::V2 => &["memory.max", "memory.high"],
        };
        for directory in hierarchy.directories(Path::new(group)) {
            for name in names {
                let file = directory.join(name);
                limits.extend(read(root, &file)?.map(|bytes| MemoryLimit { bytes, file }));
            }
        }
    }
    Ok(limits)
}

fn read(root: &HostRoot, file: &Path) -> Result<Option<u64>> {
    match root.read(file) {
        // `max` is no number.
        Ok(text) => Ok(text.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)),
        // The root group of v2 has no limits.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn group(membership: &str, version: Version) -> Option<&str> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let id = fields.next()?;
        let controllers = fields.next()?;
        let group = fields.next()?;
        let matches = match version {
            Version::V1 => controllers.split(',').any(|name| name == "memory"),
            Version::V2 => id == "0" && controllers.is_empty(),
        };
        matches.then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn the_tightest_limit_of_the_group_and_those_above_counts() {
        let root = FakeHost::default();
        root.put(
            "proc/self/mountinfo",
            "1 0 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:2 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        );
        root.put("proc/70/cgroup", "5:memory:/a/b\n0::/svc\n");
        assert_eq!(of_process(&root, 70).unwrap(), None);
        root.put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
        root.put("cg/memory/a/memory.limit_in_bytes", "2000\n");
        root.put("cg/memory/a/b/memory.limit_in_bytes", "3000\n");
        root.put("cg/unified/svc/memory.max", "max\n");
        let limit = of_process(&root, 70).unwrap().unwrap();
        assert_eq!(limit.bytes, 2000);
        assert_eq!(limit.file, Path::new("/cg/memory/a/memory.limit_in_bytes"));
        root.put("cg/unified/svc/memory.high", "1000\n");
        assert_eq!(of_process(&root, 70).unwrap().unwrap().bytes, 1000);
    }

    #[test]
    fn the_limit_of_this_container_is_none_of_a_process_in_another() {
        let root = FakeHost::with(&[
            ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 cgroup2 rw\n"),
            ("proc/7/cgroup", "0::/../db\n"),
            ("cg/cgroup.controllers", "cpu memory\n"),
            ("cg/memory.max", "1000\n"),
        ]);
        assert_eq!(all_of_process(&root, 7).unwrap(), []);
        let why = of_process(&root, 7).unwrap_err().to_string();
        assert!(why.contains("/../db, which can't be seen from here: run pgcalm on the host"), "{why}");
        root.put("proc/7/cgroup", "0::/db\n");
        assert_eq!(of_process(&root, 7).unwrap().unwrap().bytes, 1000);
    }
}
