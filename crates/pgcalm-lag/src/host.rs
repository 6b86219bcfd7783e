//! What the kernel of the primary's host knows.

use pgcalm_host::HostRoot;

/// The host that this program runs on.
#[derive(Debug, Clone, Default)]
pub struct Host {
    root: HostRoot,
}

impl Host {
    /// A host whose /proc lies under `root`.
    pub fn new(root: HostRoot) -> Self {
        Self { root }
    }

    /// Where its /proc lies.
    pub fn root(&self) -> &HostRoot {
        &self.root
    }
}
