//! The probe groups, a folder each.

pub mod checkpoint;
pub mod server_processes;
