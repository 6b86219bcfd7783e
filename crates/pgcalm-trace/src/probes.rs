//! The probe groups, a folder each.

pub mod server_processes;
