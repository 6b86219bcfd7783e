//! `global/pg_control`, in the form of the machine.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where it is in a data directory.
pub fn path(data: &Path) -> PathBuf {
    data.join("global/pg_control")
}

/// The system identifier of the cluster in data directory `data`, which its standbys have, too: the first field of
/// `ControlFileData` (pg_control.h).
pub fn system_identifier(data: &Path) -> io::Result<u64> {
    let mut identifier = [0; 8];
    File::open(path(data))?.read_exact(&mut identifier)?;
    Ok(u64::from_ne_bytes(identifier))
}
