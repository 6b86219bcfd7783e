//! What the lab has changed on the host, on disk before it is done.
//!
//! The file needs no fsync: it is for the case that this process dies, not the machine; a reboot undoes everything but
//! files, whose names are fixed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use anyhow::Context;
use pgcalm_host::replacement::Durability;
use pgcalm_host::{HostRoot, replacement};
use serde::{Deserialize, Serialize};

use crate::progress::say;
pub use crate::restore::Change;

/// The changes in force, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    /// The boot that they were made in.
    boot_id: String,
    next_id: u64,
    changes: Vec<Record>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    id: u64,
    #[serde(flatten)]
    change: Change,
}

/// The journal of one lab directory. Clones are the same journal.
#[derive(Debug, Clone)]
pub struct Journal {
    root: HostRoot,
    path: PathBuf,
    document: Arc<Mutex<Document>>,
}

impl Journal {
    /// Opens the journal at `path`, with what an earlier run may have left in it.
    pub fn open(root: HostRoot, path: &Path) -> anyhow::Result<Self> {
        let boot_id = root.read("proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default();
        let mut document: Document = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("read {}: not a journal of pgcalm lab; move it away", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Document::default(),
            Err(error) => {
                return Err(error).with_context(|| format!("read {}", path.display()));
            }
        };
        if document.boot_id != boot_id {
            // Device numbers and pids of an earlier boot mean something else now.
            document.changes.retain(|record| !record.change.ends_with_reboot());
            document.boot_id = boot_id;
        }
        Ok(Self { root, path: path.to_path_buf(), document: Arc::new(Mutex::new(document)) })
    }

    /// The host that the changes are made on.
    pub fn root(&self) -> &HostRoot {
        &self.root
    }

    /// Notes a change that is about to be made; dropping the result undoes it.
    pub fn note(&self, change: Change) -> anyhow::Result<Undo> {
        let mut document = self.lock();
        let id = document.next_id;
        document.next_id += 1;
        document.changes.push(Record { id, change });
        self.save(&document)?;
        Ok(Undo { journal: self.clone(), id: Some(id) })
    }

    /// Undoes everything, newest first; returns how many changes there were. What can't be undone stays noted, and
    /// the first reason is returned once all else is done.
    pub fn undo_all(&self) -> anyhow::Result<usize> {
        let ids: Vec<u64> = self.lock().changes.iter().map(|r| r.id).collect();
        let mut first_error = None;
        for id in ids.iter().rev() {
            if let Err(error) = self.undo(*id) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(ids.len()), Err)
    }

    fn undo(&self, id: u64) -> anyhow::Result<()> {
        let change = self.lock().changes.iter().find(|record| record.id == id).map(|record| record.change.clone());
        if let Some(change) = change {
            // Not under the lock: this may take long.
            change.undo(&self.root)?;
        }
        let mut document = self.lock();
        document.changes.retain(|record| record.id != id);
        self.save(&document)
    }

    fn save(&self, document: &Document) -> anyhow::Result<()> {
        let save = || -> anyhow::Result<()> {
            if document.changes.is_empty() {
                return match fs::remove_file(&self.path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
                    _ => Ok(()),
                };
            }
            let new = self.path.with_extension("json.new");
            let text = serde_json::to_vec_pretty(document)?;
            // After a kill the old or the new text is found; a crash of the host undoes what it would tell.
            replacement::write(&self.path, &new, 0o644, &text, Durability::Unsynced)?;
            Ok(())
        };
        save().with_context(|| format!("write {}", self.path.display()))
    }

    fn lock(&self) -> MutexGuard<'_, Document> {
        // A panic elsewhere must not keep the clean-up from running.
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Undoes its change when dropped.
#[derive(Debug)]
#[must_use = "dropping this undoes the change at once"]
pub struct Undo {
    journal: Journal,
    id: Option<u64>,
}

impl Undo {
    /// Undoes the change now and says if that fails.
    pub fn now(mut self) -> anyhow::Result<()> {
        match self.id.take() {
            Some(id) => self.journal.undo(id),
            None => Ok(()),
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if let Err(error) = self.journal.undo(id) {
            say(&format!("pgcalm: clean-up: {error:#}; pgcalm lab clean tries again"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> Journal {
        Journal::open(HostRoot::default(), &dir.join("pgcalm-lab.json")).unwrap()
    }

    #[test]
    fn a_change_is_on_disk_before_it_is_made_and_gone_after_it_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("made");
        let journal = open(dir.path());
        let undo = journal.note(Change::File { path: file.clone() }).unwrap();
        let text = fs::read_to_string(dir.path().join("pgcalm-lab.json")).unwrap();
        assert!(text.contains("made"), "{text}");
        fs::write(&file, "x").unwrap();
        drop(undo);
        assert!(!file.exists());
        assert!(!dir.path().join("pgcalm-lab.json").exists());
    }

    #[test]
    fn what_a_killed_run_left_is_undone_newest_first_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let outer = dir.path().join("outer");
        let journal = open(dir.path());
        let first = journal.note(Change::Directory { path: outer.clone() }).unwrap();
        let second = journal.note(Change::File { path: outer.join("inner") }).unwrap();
        fs::create_dir(&outer).unwrap();
        fs::write(outer.join("inner"), "x").unwrap();
        // A kill -9 runs no guard.
        std::mem::forget((first, second));
        assert_eq!(open(dir.path()).undo_all().unwrap(), 2);
        assert!(!outer.exists());
        assert_eq!(open(dir.path()).undo_all().unwrap(), 0);
    }

    #[test]
    fn after_a_reboot_only_files_are_left_to_undo() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("host");
        let boot_id = host.join("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
        fs::write(&boot_id, "one\n").unwrap();
        let path = dir.path().join("pgcalm-lab.json");
        let setting = host.join("sysctl");
        fs::write(&setting, "new").unwrap();
        let journal = Journal::open(HostRoot::new(&host), &path).unwrap();
        for change in [
            Change::File { path: dir.path().join("image") },
            Change::Setting { file: "/sysctl".into(), former: "old".into() },
        ] {
            std::mem::forget(journal.note(change).unwrap());
        }
        fs::write(&boot_id, "two\n").unwrap();
        let journal = Journal::open(HostRoot::new(&host), &path).unwrap();
        assert_eq!(journal.undo_all().unwrap(), 1);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "new");
    }

    #[test]
    fn one_failure_does_not_keep_the_rest_from_being_undone() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let not_a_file = dir.path().join("directory");
        fs::create_dir(&not_a_file).unwrap();
        for path in [file.clone(), not_a_file] {
            std::mem::forget(journal.note(Change::File { path }).unwrap());
        }
        assert!(journal.undo_all().is_err());
        assert!(!file.exists());
        let text = fs::read_to_string(dir.path().join("pgcalm-lab.json")).unwrap();
        assert!(text.contains("directory"), "{text}");
    }
}
