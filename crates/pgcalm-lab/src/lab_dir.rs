use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use pgcalm_host::HostRoot;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::LabError;
use crate::journal::Journal;

/// Where the lab works unless told otherwise.
pub const DEFAULT_DIR: &str = "/var/lib/pgcalm-lab";

/// A Unix socket's path has room for 107 bytes; the rest is for `/pgcalm-run/.s.PGSQL.5432`.
const LONGEST_DIR: usize = 107 - 25;

/// One lab per host, whatever directory it works in: the sysctls are the host's, two labs would take each other's for
/// the former values, and neither would measure anything of worth.
const LOCK: &str = "run/pgcalm-lab.lock";

/// The directory of the lab. All names in it are fixed, so that nothing else in it is ever touched.
#[derive(Debug)]
pub struct LabDir {
    path: PathBuf,
    /// Holds the flock; closing the file, or the end of the process in whatever way, gives it up.
    _lock: File,
}

impl LabDir {
    /// Creates the directory if needed; from now on this process is the only lab on the host.
    pub fn open(root: &HostRoot, path: &Path) -> anyhow::Result<Self> {
        let path = &std::path::absolute(path).context("resolve --dir")?;
        // Before anything is created there.
        if let Some(closed) = closed_to_others(path) {
            return Err(LabError::Usage(format!(
                "--dir {}: user postgres cannot enter {}; use a directory such as {DEFAULT_DIR}",
                path.display(),
                closed.display()
            ))
            .into());
        }
        let lock = lock(root)?;
        fs::create_dir_all(path).with_context(|| format!("create --dir {}", path.display()))?;
        // As /proc shows it, or what is found there can't be compared.
        let path = path
            .canonicalize()
            .with_context(|| format!("resolve --dir {}", path.display()))?;
        if path.as_os_str().len() > LONGEST_DIR {
            return Err(LabError::Usage(format!(
                "--dir {}: too long for a Unix socket in it; use at most {LONGEST_DIR} bytes",
                path.display()
            ))
            .into());
        }
        Ok(Self { path, _lock: lock })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the journal of changes.
    pub fn journal(&self, root: HostRoot) -> anyhow::Result<Journal> {
        Journal::open(root, &self.path.join("pgcalm-lab.json"))
    }

    /// The file of the device for `role`: `data` or `wal`.
    pub fn image(&self, role: &str) -> PathBuf {
        self.path.join(format!("pgcalm-{role}.img"))
    }

    /// Where the device for `role` is mounted.
    pub fn mountpoint(&self, role: &str) -> PathBuf {
        self.path.join(format!("pgcalm-{role}"))
    }

    /// Sockets, server logs and transaction logs of the run at hand.
    pub fn run(&self) -> PathBuf {
        self.path.join("pgcalm-run")
    }

    /// What `--keep` leaves of all runs.
    pub fn kept(&self) -> PathBuf {
        self.path.join("pgcalm-kept")
    }

    /// Loaded clusters, to be copied for each run.
    pub fn templates(&self) -> PathBuf {
        self.path.join("pgcalm-templates")
    }

    /// Removes the directory if nothing is left in it.
    pub fn remove_if_empty(self) -> anyhow::Result<()> {
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(error).with_context(|| format!("remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

fn lock(root: &HostRoot) -> anyhow::Result<File> {
    let path = root.path(LOCK);
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(LabError::Host(
            "another pgcalm lab is at work on this host: wait for it, two would spoil each other's measurements"
                .to_string(),
        )
        .into()),
        Err(error) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

/// The first directory on the way to `path` that only its owner may enter. What doesn't exist yet will be open to all.
fn closed_to_others(path: &Path) -> Option<&Path> {
    path.ancestors().find(|directory| {
        fs::metadata(directory).is_ok_and(|metadata| metadata.mode() & 0o001 == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn host(mode: u32) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        let root = HostRoot::new(dir.path());
        (dir, root)
    }

    #[test]
    fn a_directory_that_postgres_cannot_reach_is_refused_before_anything_is_made() {
        let (dir, root) = host(0o700);
        let error = LabDir::open(&root, &dir.path().join("new/lab")).unwrap_err();
        assert!(matches!(
            error.downcast_ref::<LabError>(),
            Some(LabError::Usage(_))
        ));
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn there_is_one_lab_per_host_even_in_different_directories() {
        let (dir, root) = host(0o755);
        let one = dir.path().join("one");
        let first = LabDir::open(&root, &one).unwrap();
        let error = LabDir::open(&root, &dir.path().join("two")).unwrap_err();
        assert!(matches!(
            error.downcast_ref::<LabError>(),
            Some(LabError::Host(_))
        ));
        first.remove_if_empty().unwrap();
        assert!(!one.exists());
        assert!(LabDir::open(&root, &one).is_ok());
    }
}
