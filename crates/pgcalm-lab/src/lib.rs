//! The lab: capped devices, real PostgreSQL clusters on them, load, sampling, and the scenarios made of these.
//!
//! Everything that changes the host is written to a [`journal`] before it is done and undone from there, by a guard
//! when the run ends in whatever way, or by [`clean`](clean::clean) after a `kill -9`.

#[macro_use]
pub mod scenarios;

mod background;
mod connection;
mod control_group;
mod cpu;
mod crash;
mod device_files;
mod folios;
mod host_facts;
mod lab_dir;
mod load;
mod measure;
mod memory;
mod module;
mod mount_namespace;
mod need_root;
mod network;
mod preload;
mod private_dir;
mod progress;
mod restore;
mod run_dir;
mod sampler;
mod server_log;
mod server_sampler;
mod shared_file;
mod shell;
mod stacked;
mod stage;
mod strace;
mod sysctl;
mod template;
mod tool;
mod transaction_log;
mod volume_process;

pub mod archive;
pub mod archive_crash;
mod backlog;
pub mod cap;
pub mod chosen;
pub mod clean;
pub mod contest;
pub mod contestant;
pub mod device;
pub mod document;
pub mod filesystem;
pub mod fsync_times;
pub mod guard;
pub mod installation;
pub mod interference;
pub mod interrupt;
pub mod journal;
#[cfg(test)]
pub mod naps;
pub mod options;
pub mod predict;
pub mod replica;
pub mod report;
pub mod server;
pub mod stop_start;
pub mod suite;
pub mod tenants;
pub mod torture;
pub mod trouble;
pub mod up;
pub mod volume;
pub mod wal_full;
pub mod warm;

pub use lab_dir::{DEFAULT_DIR, DEFAULT_TORTURE_DIR, DEFAULT_VOLUME_DIR};
pub use load::choice::LoadChoice;
pub use load::command_line::CommandLine;
pub use load::workload::Workload;
pub use pgcalm_host::quantity::{Limit, Seconds, Size};
