//! The probe groups, a folder each.

pub mod checkpoint;
pub mod locks;
pub mod server_processes;
