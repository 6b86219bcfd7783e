//! Where a record may lie: not on a disk that it is to tell the stalls of.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pgcalm_host::instance::{Instance, Role};
use pgcalm_host::{Failure, HostRoot, file_system, instance, mounts, process, process_file};

/// Fails if the directory shares a device with a data directory, pg_wal or a tablespace of any instance that may be looked at.
///
/// # Errors
///
/// [`Failure::Usage`], which names both; [`Failure::Host`] if mounts or processes can't be read.
pub fn check(root: &HostRoot, directory: &Path) -> Result<(), Failure> {
    let unread = |error: pgcalm_host::Error| Failure::Host(format!("--dir {}: {error}", directory.display()));
    let table = process::table(root).map_err(unread)?;
    let found = instance::find(root, &table).map_err(unread)?;
    let own = Lies::of(root, directory).map_err(unread)?;
    for instance in &found.instances {
        if let Some((role, path, device)) = shared(root, &own, instance) {
            return Err(Failure::Usage(format!(
                "--dir {}: is on the same device ({device}) as {} {} of a server, and would stall with it; \
                 name a directory on another disk, or give --same-device",
                directory.display(),
                match role {
                    Role::Wal => "pg_wal",
                    Role::Tablespace => "tablespace",
                    _ => "the data directory",
                },
                path.display(),
            )));
        }
    }
    Ok(())
}

/// What a directory lies on.
struct Lies {
    /// The number of its file system.
    file_system: Option<u64>,
    /// Its disk, and those that this is made of, by name.
    disks: Vec<String>,
}

impl Lies {
    fn of(root: &HostRoot, directory: &Path) -> pgcalm_host::Result<Self> {
        // It may be made later: then its parent counts.
        let there = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let there: PathBuf = there.canonicalize().unwrap_or_else(|_| there.to_path_buf());
        let mounts = mounts::read(root)?;
        let disks = match mounts::containing(&mounts, &there) {
            Some(mount) => {
                let below = file_system::below(root, mount.clone(), &there);
                let device = below.device.there();
                device.map(|device| device.disks().iter().map(|disk| disk.name.clone()).collect()).unwrap_or_default()
            }
            None => Vec::new(),
        };
        Ok(Self { file_system: std::fs::metadata(&there).ok().map(|metadata| metadata.dev()), disks })
    }
}

fn shared<'a>(root: &HostRoot, own: &Lies, instance: &'a Instance) -> Option<(Role, &'a Path, String)> {
    instance.places.iter().filter(|place| place.role != Role::Log).find_map(|place| {
        let disks = place.device.there().map(|device| device.disks()).unwrap_or_default();
        if let Some(disk) = disks.iter().find(|disk| own.disks.contains(&disk.name)) {
            return Some((place.role, place.path.as_path(), disk.name.clone()));
        }
        // Of an overlay or a tmpfs no disk is known, but the number of the file system is.
        let descriptor = process_file::find(root, instance.postmaster.pid, &place.path).ok()?;
        let number = rustix::fs::fstat(descriptor).ok()?.st_dev;
        (own.file_system == Some(number)).then(|| (place.role, place.path.as_path(), place.mount.source.clone()))
    })
}
