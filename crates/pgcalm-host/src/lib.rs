//! Readers of what a Linux host says about itself: /proc, /sys, cgroups, mounts, installed PostgreSQL.
//!
//! Every reader starts from a [`HostRoot`], so that tests can fake a host in a temporary directory.

mod error;
mod root;

pub mod block_device;
pub mod cgroup;
pub mod journal_commits;
pub mod meminfo;
pub mod mounts;
pub mod postgres;
pub mod process;
pub mod throttle;
pub mod vm_sysctl;

pub use error::Error;
pub use error::Result;
pub use root::HostRoot;
