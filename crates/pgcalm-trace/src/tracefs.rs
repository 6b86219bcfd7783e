//! Access to the kernel's tracepoints through tracefs, mounted or not.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use nix::sched::CloneFlags;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use pgcalm_host::Failure;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Runs `attach` with tracefs mounted.
///
/// Where the host has not mounted it, this thread sees it for the time of the call in a mount namespace of its own; the
/// host's mounts stay as they are. libbpf needs the files only while it attaches.
pub fn with_tracefs<T>(attach: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    if is_mounted() {
        return attach();
    }
    let home = File::open("/proc/thread-self/ns/mnt").context("open own mount namespace")?;
    let directory =
        rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).context("open working directory")?;
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).context("make a mount namespace")?;
    let result = mount().and_then(|()| attach());
    // Entering a mount namespace resets the working directory.
    nix::sched::setns(home, CloneFlags::CLONE_NEWNS).context("return to own mount namespace")?;
    rustix::process::fchdir(directory).context("return to working directory")?;
    result
}

fn is_mounted() -> bool {
    [TRACEFS, "/sys/kernel/debug/tracing"].iter().any(|directory| Path::new(directory).join("events").is_dir())
}

fn mount() -> anyhow::Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("keep mounts from the rest of the host")?;
    rustix::mount::mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None).map_err(|error| {
        Failure::Host(format!(
            "mount tracefs on {TRACEFS}: {error}; the kernel's tracepoints are out of reach without it"
        ))
        .into()
    })
}
