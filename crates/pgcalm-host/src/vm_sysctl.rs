//! The sysctls that rule the kernel's writeback.

use std::collections::BTreeMap;

use crate::{HostRoot, Result};

/// The writeback sysctls, by name below `vm.`.
///
/// The `bytes` variants stand first: the kernel zeroes a `bytes` value when its `ratio` is written and the other way
/// round, so values saved from here must be restored with the non-zero one of each pair last.
pub const NAMES: [&str; 6] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
];

/// Where the value of `vm.<name>` lives.
pub fn path(name: &str) -> String {
    format!("proc/sys/vm/{name}")
}

/// All of [`NAMES`] with their values.
pub fn read_all(root: &HostRoot) -> Result<BTreeMap<String, String>> {
    NAMES.iter().map(|name| Ok((name.to_string(), read(root, name)?))).collect()
}

/// The value of `vm.<name>`.
pub fn read(root: &HostRoot, name: &str) -> Result<String> {
    Ok(root.read(path(name))?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_values_without_the_newline() {
        let root = crate::fake::FakeHost::default();
        for name in NAMES {
            root.put(path(name), "42\n");
        }
        let all = read_all(&root).unwrap();
        assert_eq!(all.len(), NAMES.len());
        assert!(all.values().all(|value| value == "42"));
    }
}
