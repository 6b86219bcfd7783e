use anyhow::Context;
use nix::sched::CloneFlags;
use rustix::mount::MountPropagationFlags;

use crate::tool;

/// Gives this thread, the threads that it starts and their children mounts of their own.
///
/// A process anywhere on the host that makes a mount namespace for itself takes a copy of each mount with it, and the
/// kernel keeps a file system with its page cache for as long as any mount of it is left. Nobody can copy what is
/// mounted here; and the mounts go with the last process that has them.
pub(crate) fn enter_own() -> anyhow::Result<()> {
    tool::this_program()?;
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).context("make a mount namespace")?;
    // Where the host shares mounts between namespaces, as systemd has it, ours would be copied all the same.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .context("keep mounts from the rest of the host")
}
