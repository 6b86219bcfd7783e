//! The amounts of dirty page cache at which the kernel starts to write, and at which it holds writers up.

use crate::{Error, HostRoot, Result, vm_sysctl};

/// Thresholds of the whole host, as `domain_dirty_limits()` in the kernel's mm/page-writeback.c comes to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyThresholds {
    /// Memory that the ratios are of: free, or page cache of files (`global_dirtyable_memory()`; the reserve that the
    /// kernel takes off, below 1 % of memory, is not visible and is left in).
    pub dirtyable_bytes: u64,
    /// From here on the flusher writes, whatever the age of the pages.
    pub background_bytes: u64,
    /// From here on writers wait (`balance_dirty_pages()`; they are slowed down from halfway to it).
    pub limit_bytes: u64,
}

impl DirtyThresholds {
    /// As they are now: the ratios are of memory that is free or page cache, which changes.
    pub fn read(root: &HostRoot) -> Result<Self> {
        let path = "proc/meminfo";
        let text = root.read(path)?;
        let mut dirtyable_bytes: u64 = 0;
        for name in ["MemFree:", "Active(file):", "Inactive(file):"] {
            let kib: u64 = text
                .lines()
                .find_map(|line| {
                    let value = line.strip_prefix(name)?.trim().strip_suffix("kB")?;
                    value.trim().parse().ok()
                })
                .ok_or_else(|| Error::Format {
                    path: root.path(path),
                    expected: name,
                    found: text.chars().take(80).collect(),
                })?;
            dirtyable_bytes += kib << 10;
        }
        let amount = |bytes: &str, ratio: &str| -> Result<u64> {
            match number(root, bytes)? {
                0 => Ok(dirtyable_bytes / 100 * number(root, ratio)?),
                bytes => Ok(bytes),
            }
        };
        let limit_bytes = amount("dirty_bytes", "dirty_ratio")?;
        let background_bytes = amount("dirty_background_bytes", "dirty_background_ratio")?;
        Ok(Self {
            dirtyable_bytes,
            limit_bytes,
            background_bytes: if background_bytes >= limit_bytes { limit_bytes / 2 } else { background_bytes },
        })
    }
}

fn number(root: &HostRoot, name: &str) -> Result<u64> {
    let text = vm_sysctl::read(root, name)?;
    text.parse().map_err(|_| Error::Format {
        path: root.path(vm_sysctl::path(name)),
        expected: "a number",
        found: text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn ratios_are_of_dirtyable_memory_bytes_win_and_background_stays_below_the_limit() {
        let meminfo = "MemTotal: 900000 kB\nMemFree: 100000 kB\nActive(file): 50000 kB\nInactive(file):   50000 kB\n";
        let root = FakeHost::with(&[("proc/meminfo", meminfo)]);
        let set = |name: &str, value: u64| root.put(vm_sysctl::path(name), &format!("{value}\n"));
        for (name, value) in
            [("dirty_bytes", 0), ("dirty_ratio", 20), ("dirty_background_bytes", 0), ("dirty_background_ratio", 10)]
        {
            set(name, value);
        }
        let read = || DirtyThresholds::read(&root).unwrap();
        assert_eq!(
            read(),
            DirtyThresholds {
                dirtyable_bytes: 200_000 << 10,
                background_bytes: 20_000 << 10,
                limit_bytes: 40_000 << 10,
            }
        );
        set("dirty_bytes", 1 << 20);
        assert_eq!(read().limit_bytes, 1 << 20);
        assert_eq!(read().background_bytes, 1 << 19);
    }
}
