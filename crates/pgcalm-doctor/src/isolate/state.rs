//! What was changed, on disk before it is done: one file for each group that was made, under /run, which a reboot
//! empties just as it ends the groups.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::Context;
use pgcalm_host::block_device::Disk;
use pgcalm_host::cgroup::Version;
use pgcalm_host::process::Process;
use pgcalm_host::replacement::Durability;
use pgcalm_host::{HostRoot, replacement, throttle};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::isolate::{Setting, inventory, need_root};
use pgcalm_host::Failure;

/// Where the files are.
const DIRECTORY: &str = "/run/pgcalm/isolate";

/// A process that was moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    pub pid: i32,
    pub start_ticks: u64,
    /// Directory of the group that it was in.
    pub former: PathBuf,
}

/// A limit that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// `MAJ:MIN` of the disk.
    pub device: String,
    /// Its name.
    pub kind: String,
    pub value: u64,
}

/// One isolated instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Directory of the group that was made.
    pub group: PathBuf,
    /// Directory of the group that the postmaster was in.
    pub former: PathBuf,
    pub data_directory: PathBuf,
    pub pid: i32,
    pub start_ticks: u64,
    pub moved: Vec<Moved>,
    /// v2: controllers that were switched on for groups below `former`.
    pub controllers: Vec<String>,
    /// What was asked for, by which `show` sees that it is in force still.
    #[serde(default)]
    pub limits: Vec<Asked>,
    /// Whether all was done; false while `set` is at it, and after one that was killed.
    #[serde(default = "complete_before")]
    pub complete: bool,
    /// The process with which the limits are to end.
    #[serde(default)]
    pub holder: Option<Holder>,
}

/// Notes of before there was that field.
fn complete_before() -> bool {
    true
}

/// A process that holds limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub pid: i32,
    pub start_ticks: u64,
}

impl Holder {
    /// This process.
    pub(crate) fn this(root: &HostRoot) -> anyhow::Result<Self> {
        let process = Process::read(root, std::process::id() as i32)?;
        Ok(Self { pid: process.pid, start_ticks: process.start_ticks })
    }

    /// Whether it is there still.
    pub(crate) fn runs(self, root: &HostRoot) -> bool {
        Process::read(root, self.pid).is_ok_and(|found| found.start_ticks == self.start_ticks && !found.is_zombie())
    }
}

impl State {
    /// Notes limits; those that are lifted are forgotten.
    pub(crate) fn ask(&mut self, disk: &Disk, settings: &[Setting]) {
        for Setting { kind, value } in settings {
            self.limits.retain(|asked| asked.device != disk.number || asked.kind != kind.name());
            let asked = value.map(|value| Asked { device: disk.number.clone(), kind: kind.name().to_string(), value });
            self.limits.extend(asked);
        }
    }

    /// Limits that were asked for and are not in force, as somebody else has changed the group.
    pub(crate) fn lost(&self, root: &HostRoot, version: Version) -> Result<Vec<&Asked>, pgcalm_host::Error> {
        let live = throttle::of_group(root, version, &self.group)?;
        let is_live = |asked: &&Asked| {
            live.iter().any(|(device, limit)| {
                (device, limit.kind.name(), limit.value) == (&asked.device, asked.kind.as_str(), asked.value)
            })
        };
        Ok(self.limits.iter().filter(|asked| !is_live(asked)).collect())
    }

    /// The name of its file: that of the group.
    fn file(&self, root: &HostRoot) -> PathBuf {
        let mut name = self.group.file_name().unwrap_or_default().to_os_string();
        name.push(".json");
        root.path(DIRECTORY).join(name)
    }

    /// Writes it; whoever reads it finds the old or the new text, never a part.
    pub(crate) fn save(&self, root: &HostRoot) -> anyhow::Result<()> {
        let file = self.file(root);
        let new = file.with_extension("json.new");
        let text = serde_json::to_vec_pretty(self)?;
        // Unsynced: a reboot takes the limits and /run with it.
        replacement::write(&file, &new, 0o600, &text, Durability::Unsynced)
            .with_context(|| format!("write {}", file.display()))
    }

    /// Removes it.
    pub(crate) fn forget(&self, root: &HostRoot) -> anyhow::Result<()> {
        let file = self.file(root);
        fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))
    }
}

/// The file in the directory that is locked.
const LOCK: &str = "lock";

/// How often it is tried to get the lock.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The lock that keeps two commands from changing groups at once. Given up when dropped, or by the end of the process in
/// whatever way; with it goes the directory, once nothing is noted there.
#[derive(Debug)]
pub(super) struct Lock {
    directory: PathBuf,
    // Closed last: what is removed is removed under the lock.
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let is_noted = fs::read_dir(&self.directory).is_ok_and(|entries| {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            names.any(|name| name != LOCK)
        });
        if is_noted {
            return;
        }
        // Whoever waits for this file finds that it is no more, and makes a new one. Another may have made one in the directory
        // meanwhile, and others than this command have theirs in the one above: those stay.
        let _ = fs::remove_file(self.directory.join(LOCK));
        let _ = fs::remove_dir(&self.directory);
        if let Some(above) = self.directory.parent() {
            let _ = fs::remove_dir(above);
        }
    }
}

/// Takes the [`lock`], or fails at once without root.
pub(super) fn lock_to_change(root: &HostRoot, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Lock> {
    need_root()?;
    lock(root, interrupted)
}

/// Takes the lock, and makes the directory. Waits for it until `interrupted` says so.
pub(super) fn lock(root: &HostRoot, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Lock> {
    let directory = root.path(DIRECTORY);
    loop {
        match try_lock(&directory) {
            Ok(file) => {
                return Ok(Lock { directory, _file: file });
            }
            Err(error) if !is_passing(&error) => {
                return Err(error).with_context(|| format!("lock {}", directory.display()));
            }
            Err(_) if interrupted() => return Err(Failure::Interrupted("all is as before").into()),
            Err(_) => thread::sleep(LOCK_POLL),
        }
    }
}

/// An error of kind `WouldBlock`, `NotFound` or `AlreadyExists` if another command has the lock or has just removed it.
fn try_lock(directory: &Path) -> io::Result<File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| match fs::symlink_metadata(
        directory,
    ) {
        Ok(found) if !found.is_dir() => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    let path = directory.join(LOCK);
    let file = File::create(&path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let (locked, named) = (file.metadata()?, fs::metadata(&path)?);
    if (locked.dev(), locked.ino()) != (named.dev(), named.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

fn is_passing(error: &io::Error) -> bool {
    // The directory was there when it was to be made, and gone when it was looked at.
    use io::ErrorKind::{AlreadyExists, Interrupted, NotFound, WouldBlock};
    matches!(error.kind(), AlreadyExists | Interrupted | NotFound | WouldBlock)
}

/// All isolated instances, by group.
pub(super) fn read_all(root: &HostRoot) -> anyhow::Result<Vec<State>> {
    let directory = root.path(DIRECTORY);
    let names = match root.list(DIRECTORY) {
        Ok(names) => names,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        // Only root can tell what is isolated.
        Err(error) if !rustix::process::geteuid().is_root() => {
            return Err(pgcalm_host::Failure::Host(format!("{error}: run it with sudo")).into());
        }
        Err(error) => return Err(error.into()),
    };
    let mut states = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".json")) {
        states.extend(read(&directory.join(name))?);
    }
    Ok(states)
}

/// `None` if another command has removed it meanwhile.
fn read(file: &Path) -> anyhow::Result<Option<State>> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    let state: State = serde_json::from_slice(&text)
        .with_context(|| format!("read {}: not written by pgcalm isolate", file.display()))?;
    anyhow::ensure!(
        inventory::is_ours(&state.group),
        "read {}: {} is not a group that pgcalm makes; move the file away",
        file.display(),
        state.group.display()
    );
    Ok(Some(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_lock_leaves_nothing_and_two_never_have_it() {
        let root = pgcalm_host::fake::FakeHost::default();
        let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = lock(&root, &|| false).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(taken.into_inner(), 200);
        assert!(!root.path("run/pgcalm").exists());
        // What is noted stays, and so does what others have there.
        let lock = lock(&root, &|| false).unwrap();
        fs::write(root.path(DIRECTORY).join("one.json"), "").unwrap();
        drop(lock);
        assert!(root.path(DIRECTORY).join("one.json").exists());
    }
}
