//! Which kernel runs: /proc/sys/kernel.

use crate::{HostRoot, Result};

/// What `uname -r` says, e.g. `6.18.44-cloud-amd64`.
pub fn read(root: &HostRoot) -> Result<String> {
    Ok(root.read("proc/sys/kernel/osrelease")?.trim().to_string())
}

/// What the kernel draws anew at each boot.
pub fn boot_id(root: &HostRoot) -> Result<String> {
    Ok(root.read("proc/sys/kernel/random/boot_id")?.trim().to_string())
}

/// Version and patch level of a release, e.g. (6, 18).
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_understood() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.4-rc1"), Some((5, 4)));
        assert_eq!(version("what"), None);
    }
}
