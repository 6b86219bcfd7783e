//! How much a process may still read into the page cache: what the host has left, and what the limits of its control groups
//! leave. The page cache is charged to the group of whoever reads it first.

use std::path::PathBuf;

use crate::{HostRoot, Result, meminfo, memory_limit};

/// Memory of the host or of a group that has a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRoom {
    /// What could be had without swapping, page cache that can be dropped included.
    pub available: u64,
    /// The part of it that is page cache in use.
    pub active_file: u64,
    /// The file that the limit stands in; of the host none.
    pub limit: Option<PathBuf>,
}

/// Of the host, and of each group with a limit that process `pid` is in.
pub fn of_process(root: &HostRoot, pid: i32) -> Result<Vec<MemoryRoom>> {
    const KIB: u64 = 1024;
    let mut rooms = vec![MemoryRoom {
        available: meminfo::available_kib(root)? * KIB,
        active_file: meminfo::active_file_kib(root)? * KIB,
        limit: None,
    }];
    for limit in memory_limit::all_of_process(root, pid)? {
        let text = |name: &str| root.read(limit.file.with_file_name(name)).unwrap_or_default();
        let number = |name: &str| text(name).trim().parse::<u64>().ok();
        // Version 2 and 1: what is in the group, and, of groups below it, too, the page cache.
        let Some(used) = number("memory.current").or_else(|| number("memory.usage_in_bytes")) else { continue };
        let stat = text("memory.stat");
        let figure = |name: &str| {
            let find =
                |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            find(&format!("total_{name}")).or_else(|| find(name)).unwrap_or(0_u64)
        };
        let (active_file, inactive_file) = (figure("active_file"), figure("inactive_file"));
        let available = (limit.bytes + active_file + inactive_file).saturating_sub(used);
        rooms.push(MemoryRoom { available, active_file, limit: Some(limit.file) });
    }
    Ok(rooms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn limits_of_both_versions_leave_what_is_neither_used_nor_page_cache() {
        let root = FakeHost::default();
        root.put(
            "proc/self/mountinfo",
            "1 0 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n2 0 0:2 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        );
        root.put("proc/7/cgroup", "5:memory:/a\n0::/svc\n");
        root.put("proc/meminfo", "MemAvailable: 100 kB\nActive(file): 30 kB\n");
        let host = MemoryRoom { available: 102_400, active_file: 30_720, limit: None };
        assert_eq!(of_process(&root, 7).unwrap(), std::slice::from_ref(&host));
        root.put("cg/memory/a/memory.limit_in_bytes", "1000\n");
        root.put("cg/memory/a/memory.usage_in_bytes", "900\n");
        root.put("cg/memory/a/memory.stat", "active_file 1\ntotal_inactive_file 500\ntotal_active_file 200\n");
        root.put("cg/unified/svc/memory.max", "5000\n");
        root.put("cg/unified/svc/memory.current", "6000\n");
        root.put("cg/unified/svc/memory.stat", "anon 5900\ninactive_file 60\nactive_file 40\n");
        let group =
            |available, active_file, file: &str| MemoryRoom { available, active_file, limit: Some(file.into()) };
        assert_eq!(
            of_process(&root, 7).unwrap(),
            [host, group(800, 200, "/cg/memory/a/memory.limit_in_bytes"), group(0, 40, "/cg/unified/svc/memory.max")]
        );
    }
}
