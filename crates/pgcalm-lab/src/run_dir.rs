use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use anyhow::Context;

use crate::installation::Installation;
use crate::journal::{Change, Journal, Undo};
use crate::lab_dir::LabDir;
use crate::progress::say;

/// A new, empty directory for sockets and logs, owned by the servers' user, where clients work.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    /// Where it is kept when the run has ended.
    pub keep_as: Option<PathBuf>,
    // Clients end before their directory goes.
    clients: Option<Undo>,
    _directory: Undo,
}

impl RunDir {
    /// Makes it, in the place of any other.
    pub(crate) fn create(lab: &LabDir, journal: &Journal, installation: &Installation) -> anyhow::Result<Self> {
        let path = lab.run();
        let directory = journal.note(Change::Directory { path: path.clone() })?;
        let clients = journal.note(installation.processes_in(&path))?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        chown(&path, Some(installation.uid), Some(installation.gid))?;
        Ok(Self { path, keep_as: None, clients: Some(clients), _directory: directory })
    }

    fn keep(&self, target: &PathBuf) -> std::io::Result<()> {
        if target.exists() {
            fs::remove_dir_all(target)?;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(&self.path, target)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        drop(self.clients.take());
        if let Some(target) = &self.keep_as {
            say(&match self.keep(target) {
                Ok(()) => format!("logs are kept in {}", target.display()),
                Err(error) => format!("pgcalm: keep logs in {}: {error}", target.display()),
            });
        }
    }
}
