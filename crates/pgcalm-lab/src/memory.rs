//! A control group with as much memory as a smaller host has, or as an instance is given.
//!
//! What its processes allocate, and what of files they bring into the page cache, counts against the limit; a table larger
//! than that is really read from its volume. Shared buffers count, too, since its processes touch them first. What stays
//! the host's are the kernel's limits for dirty pages, which cgroup v1 does not have by group: they come by sysctl
//! (`contest::Options::sysctl`).

use std::path::Path;

use pgcalm_host::cgroup::Version;
use pgcalm_host::{HostRoot, meminfo};

use crate::Size;
use crate::control_group::{ControlGroup, Controller};
use crate::journal::Journal;
use pgcalm_host::Failure;

/// What the rest of the host needs beside the group: the lab, the load, the volume's process.
const REST_OF_HOST: u64 = 1 << 30;

/// Makes a group that holds `size`; the rest as for [`ControlGroup::create`].
pub(crate) fn group(
    journal: &Journal,
    size: Size,
    option: &str,
    part: &str,
    existing: Option<&Path>,
) -> anyhow::Result<ControlGroup> {
    let group = ControlGroup::create(journal, Controller::Memory, option, part, existing)?;
    group.set(limit_file(&group), &size.bytes().to_string())?;
    Ok(group)
}

/// The file of such a group that holds its limit.
pub(crate) fn limit_file(group: &ControlGroup) -> &'static str {
    match group.version() {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    }
}

/// Bytes of page cache that its processes have brought in and that are dirty or being written.
pub(crate) fn dirty_bytes(group: &ControlGroup) -> anyhow::Result<u64> {
    let names = match group.version() {
        Version::V1 => ["dirty", "writeback"],
        Version::V2 => ["file_dirty", "file_writeback"],
    };
    let text = group.get("memory.stat")?;
    Ok(sum_of(&text, names))
}

/// Of lines with a name and a number; a name that the kernel does not have counts nothing.
fn sum_of(text: &str, names: [&str; 2]) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

/// Fails unless the host has `size` to give.
pub(crate) fn need(root: &HostRoot, size: Size) -> anyhow::Result<()> {
    let available = meminfo::available_kib(root)? << 10;
    if size.bytes() + REST_OF_HOST <= available {
        return Ok(());
    }
    Err(Failure::Host(format!(
        "--memory {size}: this host has {} MiB available, of which the lab needs {} MiB itself: give less",
        available >> 20,
        REST_OF_HOST >> 20
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_read_by_whole_names() {
        let text = "cache 7\ndirty 8192\nwriteback 4096\ntotal_dirty 1\n";
        assert_eq!(sum_of(text, ["dirty", "writeback"]), 12288);
        assert_eq!(sum_of("file_dirty 5\n", ["file_dirty", "file_writeback"]), 5);
    }

    #[test]
    fn memory_that_the_host_does_not_have_is_refused() {
        let meminfo = "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n";
        let root = pgcalm_host::fake::FakeHost::with(&[("proc/meminfo", meminfo)]);
        need(&root, Size(5 << 30)).unwrap();
        let error = need(&root, Size(6 << 30)).unwrap_err();
        assert!(error.to_string().contains("6144 MiB available"), "{error:#}");
    }
}
