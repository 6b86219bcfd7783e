//! Readers of what a Linux host says about itself: /proc, /sys, cgroups, mounts, installed PostgreSQL.
//!
//! Every reader starts from a [`HostRoot`], so that tests can fake a host in a temporary directory.

#[macro_use]
mod names;

mod error;
mod failure;
mod known;
mod resolve;
mod root;

pub mod backing_device;
pub mod block_device;
pub mod cgroup;
pub mod choice;
pub mod control_file;
pub mod cpu_time;
pub mod dirty_threshold;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod file_system;
pub mod file_system_journal;
pub mod instance;
pub mod journal_commits;
pub mod kernel_release;
pub mod meminfo;
pub mod memory_limit;
pub mod memory_room;
pub mod mounts;
pub mod network;
pub mod postgres;
pub mod postmaster;
pub mod pressure;
pub mod process;
pub mod process_file;
pub mod quantity;
pub mod replacement;
pub mod server_process;
pub mod stop;
pub mod tcp_socket;
pub mod throttle;
pub mod unix_socket;
pub mod vm_sysctl;

pub use error::{Error, Result};
pub use failure::Failure;
pub use known::{Known, Unknown};
pub use root::HostRoot;
