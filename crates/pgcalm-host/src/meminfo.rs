//! /proc/meminfo.

use crate::{Error, HostRoot, Result};

const PATH: &str = "proc/meminfo";

/// The figures of /proc/meminfo that matter for writeback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemInfo {
    /// Usable memory.
    pub total_kib: u64,
    /// Page cache waiting to be written.
    pub dirty_kib: u64,
    /// Page cache being written.
    pub writeback_kib: u64,
}

impl MemInfo {
    /// Reads the current figures.
    pub fn read(root: &HostRoot) -> Result<Self> {
        let text = root.read(PATH)?;
        Ok(Self {
            total_kib: field(root, &text, "MemTotal")?,
            dirty_kib: field(root, &text, "Dirty")?,
            writeback_kib: field(root, &text, "Writeback")?,
        })
    }
}

/// What could be had without swapping, in KiB, page cache that can be dropped included.
pub fn available_kib(root: &HostRoot) -> Result<u64> {
    field(root, &root.read(PATH)?, "MemAvailable")
}

/// Page cache that was used more than once lately, in KiB: what a program that fills the cache would take from others.
pub fn active_file_kib(root: &HostRoot) -> Result<u64> {
    field(root, &root.read(PATH)?, "Active(file)")
}

fn field(root: &HostRoot, text: &str, name: &'static str) -> Result<u64> {
    parse_field(text, name).ok_or_else(|| Error::Format {
        path: root.path(PATH),
        expected: name,
        found: text.chars().take(80).collect(),
    })
}

fn parse_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        value.trim().strip_suffix("kB")?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    const SAMPLE: &str = "\
MemTotal:       24682548 kB
MemFree:        23107836 kB
Dirty:              1234 kB
Writeback:            56 kB
WritebackTmp:          7 kB
";

    #[test]
    fn reads_dirty_and_writeback_but_not_writeback_tmp() {
        let info = MemInfo::read(&FakeHost::with(&[(PATH, SAMPLE)])).unwrap();
        assert_eq!(info, MemInfo { total_kib: 24_682_548, dirty_kib: 1234, writeback_kib: 56 });
    }

    #[test]
    fn a_missing_field_is_an_error_that_names_it() {
        let error = MemInfo::read(&FakeHost::with(&[(PATH, "MemTotal: 1 kB\n")])).unwrap_err();
        assert!(error.to_string().contains("Dirty"), "{error}");
    }
}
