//! The probe groups, a folder each.

pub mod checkpoint;
pub mod connect;
pub mod io;
pub mod locks;
pub mod server_processes;
pub mod why;
