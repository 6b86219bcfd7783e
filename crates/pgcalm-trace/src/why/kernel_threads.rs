//! Threads of the kernel on which the server's processes wait.

use pgcalm_host::{HostRoot, process};

use crate::why::report::KernelThread;

/// What their names begin with: the journal of ext4, the log of XFS, the flusher and other workers.
const NAMES: [&str; 4] = ["jbd2/", "xfsaild/", "xfs-", "kworker/"];

/// Parent of all kernel threads, kthreadd.
const KTHREADD: i32 = 2;

/// Those that sleep uninterruptibly at the moment, with their stacks.
pub(super) fn sleeping(root: &HostRoot) -> Vec<KernelThread> {
    process::table(root)
        .unwrap_or_default()
        .into_iter()
        .filter(|process| process.state == 'D' && process.parent == KTHREADD)
        .filter_map(|process| {
            let name = root.read(format!("proc/{}/comm", process.pid)).ok()?;
            let name = name.trim_end().to_string();
            let frames = process::kernel_stack(root, process.pid);
            (NAMES.iter().any(|start| name.starts_with(start)) && !frames.is_empty())
                .then_some(KernelThread { name, frames })
        })
        .collect()
}
