use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use pgcalm_host::HostRoot;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::journal::Journal;
use crate::progress::Progress;
use pgcalm_host::Failure;

/// Where the lab works unless told otherwise.
pub const DEFAULT_DIR: &str = "/var/lib/pgcalm-lab";

/// Where crash cycles work unless told otherwise.
pub const DEFAULT_TORTURE_DIR: &str = "/var/lib/pgcalm-torture";

/// Where `lab volume` works unless told otherwise.
pub const DEFAULT_VOLUME_DIR: &str = "/var/lib/pgcalm-volume";

/// A Unix socket's path has room for 107 bytes; the rest is for `/pgcalm-torture-run/.s.PGSQL.5432`.
const LONGEST_DIR: usize = 107 - 33;

/// One lab per host, whatever directory it works in: the sysctls are the host's, two labs would take each other's for
/// the former values, and neither would measure anything of worth.
const LOCK: &str = "run/pgcalm-lab.lock";

/// Crash cycles measure nothing and leave the sysctls alone, so they need the directory for themselves and not the host.
const TORTURE_LOCK: &str = "pgcalm-torture.lock";

/// A volume changes nothing but its own devices.
const VOLUME_LOCK: &str = "pgcalm-volume.lock";

/// What a directory is used for. The names in it differ, so that both uses of one directory don't meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Contest,
    Torture,
    Volume,
}

pgcalm_host::names! { fn prefix(Use): Contest "pgcalm", Torture "pgcalm-torture", Volume "pgcalm-volume" }

impl Use {
    /// The file in the directory by which this use of it is locked.
    fn own_lock(self) -> Option<&'static str> {
        match self {
            Self::Contest => None,
            Self::Torture => Some(TORTURE_LOCK),
            Self::Volume => Some(VOLUME_LOCK),
        }
    }
}

/// The directory of the lab. All names in it are fixed, so that nothing else in it is ever touched.
#[derive(Debug)]
pub(crate) struct LabDir {
    path: PathBuf,
    used_for: Use,
    /// Holds the flock; closing the file, or the end of the process in whatever way, gives it up.
    _lock: File,
}

impl LabDir {
    /// Creates the directory if needed; from now on this process is the only lab on the host.
    pub(crate) fn open(root: &HostRoot, path: &Path) -> anyhow::Result<Self> {
        let path = usable(path)?;
        let lock = lock(
            &root.path(LOCK),
            "another pgcalm lab is at work on this host: wait for it, two would spoil each other's measurements",
        )?;
        Ok(Self { path: create(&path)?, used_for: Use::Contest, _lock: lock })
    }

    /// Creates the directory if needed; from now on this process is the only one that runs crash cycles in it.
    pub(crate) fn open_torture(path: &Path) -> anyhow::Result<Self> {
        let path = create(&usable(path)?)?;
        let lock = lock(
            &path.join(TORTURE_LOCK),
            &format!("crash cycles are under way in {}: wait for them, or name another --dir", path.display()),
        )?;
        Ok(Self { path, used_for: Use::Torture, _lock: lock })
    }

    /// Creates the directory if needed; from now on this process is the only one that has a volume in it.
    pub(crate) fn open_volume(path: &Path) -> anyhow::Result<Self> {
        let path = create(&std::path::absolute(path).context("resolve --dir")?)?;
        let lock = lock(
            &path.join(VOLUME_LOCK),
            &format!("there is a volume in {}: end it with Ctrl-C, or name another --dir", path.display()),
        )?;
        Ok(Self { path, used_for: Use::Volume, _lock: lock })
    }

    /// Whether there has been a volume in `path` without `lab clean` after it.
    pub(crate) fn has_volume(path: &Path) -> bool {
        path.join(VOLUME_LOCK).exists()
    }

    /// Whether crash cycles have ever run in `path` without `lab clean` after them.
    pub(crate) fn has_torture(path: &Path) -> bool {
        path.join(TORTURE_LOCK).exists()
    }

    /// Whether `path` holds anything of a contest.
    pub(crate) fn has_contest(path: &Path) -> bool {
        ["pgcalm-lab.json", "pgcalm-kept", "pgcalm-templates"].iter().any(|name| path.join(name).exists())
    }

    /// Opens the journal of changes.
    pub(crate) fn journal(&self, root: HostRoot) -> anyhow::Result<Journal> {
        let name = match self.used_for {
            Use::Contest => "pgcalm-lab.json",
            Use::Torture => "pgcalm-torture.json",
            Use::Volume => "pgcalm-volume.json",
        };
        Journal::open(root, &self.path.join(name))
    }

    /// Opens the journal of changes, and takes back those that an earlier run has left.
    pub(crate) fn clean_journal(&self, root: &HostRoot, progress: &Progress) -> anyhow::Result<Journal> {
        let journal = self.journal(root.clone())?;
        let left = journal.undo_all().context("clean up after an earlier run")?;
        if left > 0 {
            progress.note(&format!("removed {left} leftovers of an earlier run"));
        }
        Ok(journal)
    }

    /// Bytes that its file system has to spare.
    pub(crate) fn space(&self) -> anyhow::Result<u64> {
        let space = rustix::fs::statvfs(&self.path)?;
        Ok(space.f_bavail * space.f_frsize)
    }

    /// Fails unless the file system of the directory has `needed` bytes to spare; `less` are the options that make it need
    /// less.
    pub(crate) fn need_space(&self, needed: u64, less: &str) -> anyhow::Result<()> {
        let available = self.space()?;
        if needed <= available {
            return Ok(());
        }
        Err(Failure::Host(format!(
            "--dir {}: {} MiB needed, {} MiB free: use {less}, or another --dir",
            self.path.display(),
            needed >> 20,
            available >> 20
        ))
        .into())
    }

    fn named(&self, rest: &str) -> PathBuf {
        self.path.join(format!("{}-{rest}", self.used_for.prefix()))
    }

    /// The file of the device for `role`, e.g. `data` or `wal`.
    pub(crate) fn image(&self, role: &str) -> PathBuf {
        self.named(&format!("{role}.img"))
    }

    /// Where a tmpfs for the files of devices is mounted.
    pub(crate) fn memory(&self) -> PathBuf {
        self.named("memory")
    }

    /// For the process of the volume for `role`, and where the volume's file appears.
    pub(crate) fn volume(&self, role: &str) -> PathBuf {
        self.named(&format!("volume-{role}"))
    }

    /// Where the device for `role` is mounted.
    pub(crate) fn mountpoint(&self, role: &str) -> PathBuf {
        self.named(role)
    }

    /// Sockets, server logs and transaction logs of the run at hand.
    pub(crate) fn run(&self) -> PathBuf {
        self.named("run")
    }

    /// Server modules that are not among the server's own.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.named("libraries")
    }

    /// A new cluster that others are copies of.
    pub(crate) fn base(&self) -> PathBuf {
        self.named("base")
    }

    /// What `--keep` leaves of all runs.
    pub(crate) fn kept(&self) -> PathBuf {
        self.named("kept")
    }

    /// Loaded clusters, to be copied for each run.
    pub(crate) fn templates(&self) -> PathBuf {
        self.named("templates")
    }

    /// Removes the directory if nothing is left in it.
    pub(crate) fn remove_if_empty(self) -> anyhow::Result<()> {
        if let Some(lock) = self.used_for.own_lock() {
            // Still locked: whoever waits for it finds that the file is no more, or makes a new one.
            fs::remove_file(self.path.join(lock)).with_context(|| format!("remove {lock}"))?;
        }
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(error).with_context(|| format!("remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The absolute path, if servers can work there.
fn usable(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).context("resolve --dir")?;
    if let Some(closed) = closed_to_others(&path) {
        anyhow::bail!(Failure::Usage(format!(
            "--dir {}: user postgres cannot enter {}; use a directory such as {DEFAULT_DIR}",
            path.display(),
            closed.display()
        )));
    }
    Ok(path)
}

/// Creates the directory and returns its path as /proc shows it, or what is found there can't be compared.
fn create(path: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(path).with_context(|| format!("create --dir {}", path.display()))?;
    let path = path.canonicalize().with_context(|| format!("resolve --dir {}", path.display()))?;
    if path.as_os_str().len() > LONGEST_DIR {
        anyhow::bail!(Failure::Usage(format!(
            "--dir {}: too long for a Unix socket in it; use at most {LONGEST_DIR} bytes",
            path.display()
        )));
    }
    Ok(path)
}

fn lock(path: &Path, busy: &str) -> anyhow::Result<File> {
    // The directory may be another user's: a link in it must not lead root elsewhere.
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
        .with_context(|| format!("create {}", path.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(Failure::Host(busy.to_string()).into()),
        Err(error) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

/// The first directory on the way to `path` that only its owner may enter. What doesn't exist yet will be open to all.
fn closed_to_others(path: &Path) -> Option<&Path> {
    path.ancestors().find(|directory| fs::metadata(directory).is_ok_and(|metadata| metadata.mode() & 0o001 == 0))
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
        assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Usage(_))));
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn there_is_one_lab_per_host_even_in_different_directories() {
        let (dir, root) = host(0o755);
        let one = dir.path().join("one");
        let first = LabDir::open(&root, &one).unwrap();
        let error = LabDir::open(&root, &dir.path().join("two")).unwrap_err();
        assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Host(_))));
        first.remove_if_empty().unwrap();
        assert!(!one.exists());
        assert!(LabDir::open(&root, &one).is_ok());
    }

    #[test]
    fn crash_cycles_lock_their_directory_and_not_the_host() {
        let (dir, root) = host(0o755);
        let one = dir.path().join("one");
        let lab = LabDir::open(&root, &one).unwrap();
        let first = LabDir::open_torture(&one).unwrap();
        assert!(LabDir::open_torture(&one).is_err());
        assert!(LabDir::open_torture(&dir.path().join("two")).is_ok());
        assert_ne!(lab.run(), first.run());
        assert!(LabDir::has_torture(&one));
        first.remove_if_empty().unwrap();
        assert!(!one.exists());
        assert!(!LabDir::has_torture(&one));
    }
}
