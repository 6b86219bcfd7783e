use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The system identifier of the cluster that `target` lies in, such as `pg_wal/RECOVERYXLOG`; `None` if there is no
/// pg_control beside it to tell.
///
/// It is the first field of `ControlFileData` (pg_control.h), in the byte order of the machine. pg_wal may be a symbolic
/// link, so the way up is taken in the name, not in the file system.
pub fn of_cluster(target: &Path) -> Option<u64> {
    let cluster = target.parent()?.parent()?;
    let mut identifier = [0; 8];
    File::open(cluster.join("global/pg_control"))
        .and_then(|mut file| file.read_exact(&mut identifier))
        .ok()?;
    Some(u64::from_ne_bytes(identifier))
}
