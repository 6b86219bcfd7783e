//! Files of the kernel that are changed: sysctls of writeback, limits of devices' dirty pages, and their queues.

use std::fs::OpenOptions;

use pgcalm_host::{HostRoot, Result};

/// The directories of files that may be written. A state file that somebody has changed leads nowhere else.
const DIRECTORIES: [&str; 2] = ["/proc/sys/vm/dirty_", "/sys/class/bdi/"];

/// The only files of a block device that may be.
const OF_BLOCK_DEVICES: [&str; 2] = ["/queue/wbt_lat_usec", "/queue/nr_requests"];

/// Whether it is one of the files that are written here.
pub(crate) fn is_known(file: &str) -> bool {
    let of_device = file.strip_prefix("/sys/block/");
    let device = of_device.and_then(|rest| OF_BLOCK_DEVICES.iter().find_map(|end| rest.strip_suffix(end)));
    !file.contains("..")
        && (DIRECTORIES.iter().any(|start| file.starts_with(start))
            || device.is_some_and(|device| !device.contains('/')))
}

/// The value.
pub(crate) fn read(root: &HostRoot, file: &str) -> Result<String> {
    Ok(root.read(file)?.trim().to_string())
}

/// What has to be written to come back to what is now: of a ratio and its bytes only one is in force and the other reads
/// 0; the kernel zeroes the one when the other is written (`dirty_ratio_handler`, `dirty_bytes_handler`), and a 0 can't be
/// meant.
pub(crate) fn former(root: &HostRoot, file: &str) -> Result<(String, String)> {
    let value = read(root, file)?;
    let twin = if file.ends_with("_ratio") && file.starts_with("/proc/sys/vm/") {
        Some(file.replace("_ratio", "_bytes"))
    } else if file.ends_with("_bytes") && file.starts_with("/proc/sys/vm/") {
        Some(file.replace("_bytes", "_ratio"))
    } else {
        None
    };
    match twin {
        Some(twin) if value == "0" => {
            let value = read(root, &twin)?;
            Ok((twin, value))
        }
        _ => Ok((file.to_string(), value)),
    }
}

/// Whether this process may write it; in a container /proc/sys is read-only, for root too.
pub(crate) fn check_writable(root: &HostRoot, file: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(root.path(file)).map(drop)
}
