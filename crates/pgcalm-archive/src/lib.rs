//! Reading an archive of WAL files: finding a file in whatever form it was archived, decompressing it, telling whether
//! it is whole and the right one, and restoring it for PostgreSQL's `restore_command`.
//!
//! The invariant: a file appears under the name that was asked for only if all of it has been checked and is on disk.

mod cluster;
mod file_name;
mod form;
mod history;
mod lz4;
mod remains;
mod restore;
mod segment_check;
mod stored;

pub use file_name::{FileName, SegmentName};
pub use form::Form;
pub use restore::{Outcome, Request, Restored, Target, restore};
pub use segment_check::SegmentCheck;
pub use stored::Stored;
