//! The cluster that asks for a file: that in whose pg_wal the file is to appear. pg_wal may be a symbolic link, so the way up is
//! taken in the name, not in the file system.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pgcalm_host::control_file;

/// The system identifier of the cluster that `target` lies in, such as `pg_wal/RECOVERYXLOG`; `None` if there is no
/// pg_control beside it to tell.
pub(crate) fn system_identifier(target: &Path) -> Option<u64> {
    control_file::system_identifier(data_directory(target)?).ok()
}

/// Whether that cluster is a standby: it asks for what isn't there again and again, and its database opens for writing when
/// somebody promotes it, not when WAL ends.
pub(crate) fn is_standby(target: &Path) -> bool {
    data_directory(target).is_some_and(|cluster| cluster.join("standby.signal").exists())
}

/// The mode of that cluster's files: their group may read them if it may read the data directory (`initdb --allow-group-access`).
pub(crate) fn file_mode(target: &Path) -> u32 {
    // By way of global: what has none is no cluster, and the path of one may be empty.
    let found = data_directory(target).and_then(|cluster| cluster.join("global/..").metadata().ok());
    if found.is_some_and(|found| found.permissions().mode() & 0o040 != 0) { 0o640 } else { 0o600 }
}

/// Whether that cluster is about to open: the server removes both signals before it asks for the last file, the history of the
/// timeline that it leaves (`writeTimeLineHistory`, timeline.c). What there is of that it has kept in pg_wal.
pub(crate) fn opens(target: &Path) -> bool {
    data_directory(target).is_some_and(|cluster| {
        let there = |name: &str| cluster.join(name).exists();
        there("global/pg_control") && !there("standby.signal") && !there("recovery.signal")
    })
}

fn data_directory(target: &Path) -> Option<&Path> {
    target.parent()?.parent()
}
