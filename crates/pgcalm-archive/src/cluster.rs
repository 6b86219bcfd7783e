//! The cluster that asks for a file: that in whose pg_wal the file is to appear. pg_wal may be a symbolic link, so the way up is
//! taken in the name, not in the file system.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The system identifier of the cluster that `target` lies in, such as `pg_wal/RECOVERYXLOG`; `None` if there is no
/// pg_control beside it to tell.
///
/// It is the first field of `ControlFileData` (pg_control.h), in the byte order of the machine.
pub fn system_identifier(target: &Path) -> Option<u64> {
    let mut identifier = [0; 8];
    File::open(data_directory(target)?.join("global/pg_control"))
        .and_then(|mut file| file.read_exact(&mut identifier))
        .ok()?;
    Some(u64::from_ne_bytes(identifier))
}

/// Whether that cluster is a standby: it asks for what isn't there again and again, and its database opens for writing when
/// somebody promotes it, not when WAL ends.
pub fn is_standby(target: &Path) -> bool {
    data_directory(target).is_some_and(|cluster| cluster.join("standby.signal").exists())
}

fn data_directory(target: &Path) -> Option<&Path> {
    target.parent()?.parent()
}
