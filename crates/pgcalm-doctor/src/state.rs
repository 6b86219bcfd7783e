//! What was changed, on disk before it is done.
//!
//! Under /var/lib, not /run: what ALTER SYSTEM sets outlives a boot. What is written to the kernel does not, so that is
//! kept with the boot that it was written in.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use pgcalm_host::replacement;
use pgcalm_host::replacement::Durability;
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

use pgcalm_host::Failure;

/// Where the state is unless the caller says otherwise.
pub const DIRECTORY: &str = "/var/lib/pgcalm/doctor";

/// One value that was changed; of a value that was changed more than once the first former value is kept, unless somebody else
/// changed it in between: then what they set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "target", rename_all = "lowercase")]
pub enum Entry {
    /// A file of the kernel.
    Kernel {
        /// Of the boot that it was changed in.
        boot_id: String,
        /// That was written.
        file: String,
        /// What was written.
        set: String,
        /// What is written to take it back: another file where a ratio was changed and its bytes were in force, or the
        /// other way round.
        former_file: String,
        /// The value of that file.
        former: String,
    },
    /// A setting in postgresql.auto.conf.
    Setting {
        /// Of the cluster.
        system_identifier: String,
        /// Tells a standby from its primary.
        data_directory: String,
        /// Inode of that directory, where it was known: it tells a container's from another's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inode: Option<u64>,
        /// Name of the setting.
        name: String,
        /// What was set.
        set: String,
        /// What postgresql.auto.conf had; `None` if it had no such line.
        former: Option<String>,
    },
}

impl Entry {
    /// Whether both are about the same value.
    fn is_of_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kernel { boot_id, file, .. }, Self::Kernel { boot_id: other_boot, file: other_file, .. }) => {
                (boot_id, file) == (other_boot, other_file)
            }
            (
                Self::Setting { system_identifier, data_directory, inode, name, .. },
                Self::Setting {
                    system_identifier: other_cluster,
                    data_directory: other_directory,
                    inode: other_inode,
                    name: other_name,
                    ..
                },
            ) => {
                (system_identifier, data_directory, inode, name)
                    == (other_cluster, other_directory, other_inode, other_name)
            }
            _ => false,
        }
    }
}

/// The state, locked: no other doctor changes anything meanwhile. Unlocked when dropped, or by the end of the process.
#[derive(Debug)]
pub struct State {
    directory: PathBuf,
    entries: Vec<Entry>,
    _lock: File,
}

impl State {
    /// Opens what is in `directory`, which is made if it isn't there.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let host = |error: io::Error| {
            Failure::Host(format!(
                "{}: {error}; run as root, or name another directory with --state-dir",
                directory.display()
            ))
        };
        // Those above it are no secret: other users have theirs there, as pgcalm-warm-save has.
        if let Some(above) = directory.parent() {
            fs::create_dir_all(above).map_err(host)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(host)?;
        let found = rustix::fs::lstat(directory).map_err(|error| host(error.into()))?;
        // Whoever may write there could lead what is written elsewhere.
        let is_own = found.st_uid == rustix::process::geteuid().as_raw();
        if !is_own || found.st_mode & 0o022 != 0 {
            let others = io::Error::new(io::ErrorKind::PermissionDenied, "others may write there");
            return Err(host(others).into());
        }
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(directory.join("lock"))
            .map_err(host)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let file = directory.join("state.json");
        let entries = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("read {}: not written by pgcalm doctor", file.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
        };
        Ok(Self { directory: directory.to_path_buf(), entries, _lock: lock })
    }

    /// What was changed, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Notes a change that is about to be made. On disk when this returns.
    pub fn note(&mut self, entry: Entry) -> anyhow::Result<()> {
        match self.entries.iter_mut().find(|e| e.is_of_same(&entry)) {
            Some(earlier) => match (&mut *earlier, &entry) {
                (Entry::Kernel { set, .. }, Entry::Kernel { set: new, former, .. }) if set == former => {
                    *set = new.clone();
                }
                (Entry::Setting { set, .. }, Entry::Setting { set: new, former: Some(former), .. })
                    if set == former =>
                {
                    *set = new.clone();
                }
                _ => *earlier = entry,
            },
            None => self.entries.push(entry),
        }
        self.save()
    }

    /// Forgets a change that was taken back.
    pub fn forget(&mut self, entry: &Entry) -> anyhow::Result<()> {
        self.entries.retain(|e| e != entry);
        self.save()
    }

    /// Whoever reads it finds the old or the new text, never a part, after a crash of the host, too.
    fn save(&self) -> anyhow::Result<()> {
        let file = self.directory.join("state.json");
        let new = self.directory.join("state.json.new");
        let text = serde_json::to_vec_pretty(&self.entries)?;
        replacement::write(&file, &new, 0o600, &text, Durability::Synced)
            .with_context(|| format!("write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(set: &str, former: Option<&str>) -> Entry {
        Entry::Setting {
            system_identifier: "1".into(),
            data_directory: "/d".into(),
            inode: None,
            name: "max_wal_size".into(),
            set: set.into(),
            former: former.map(str::to_string),
        }
    }

    #[test]
    fn a_directory_of_all_is_none_for_the_state() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = State::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("others may write"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // Nor is what is a link to one that would do.
        let own = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(own.path(), dir.path().join("state")).unwrap();
        assert!(State::open(&dir.path().join("state")).is_err());
    }

    #[test]
    fn what_is_above_the_state_is_open_to_all_and_the_state_to_its_user() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        State::open(&dir.path().join("pgcalm/doctor")).unwrap();
        assert_eq!(mode("pgcalm") & 0o055, 0o055);
        assert_eq!(mode("pgcalm/doctor") & 0o077, 0);
    }

    #[test]
    fn the_first_former_value_is_kept_and_what_was_noted_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("a/b");
        let mut state = State::open(&directory).unwrap();
        state.note(setting("2GB", Some("1GB"))).unwrap();
        state.note(setting("3GB", Some("2GB"))).unwrap();
        drop(state);
        let mut state = State::open(&directory).unwrap();
        assert_eq!(state.entries(), [setting("3GB", Some("1GB"))]);
        // Somebody else has set 5GB since.
        state.note(setting("8GB", Some("5GB"))).unwrap();
        assert_eq!(state.entries(), [setting("8GB", Some("5GB"))]);
        let entry = state.entries()[0].clone();
        state.forget(&entry).unwrap();
        assert_eq!(State::open_entries(&directory), []);
    }

    impl State {
        /// Without the lock, which the test holds.
        fn open_entries(directory: &Path) -> Vec<Entry> {
            let text = fs::read(directory.join("state.json")).unwrap();
            serde_json::from_slice(&text).unwrap()
        }
    }
}
