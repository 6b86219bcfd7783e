use std::fs;
use std::os::unix::fs::chown;

use anyhow::Context;

use crate::installation::Installation;
use crate::journal::Change;
use crate::journal::Journal;
use crate::journal::Undo;
use crate::lab_dir::LabDir;

/// A new, empty directory for sockets and logs, owned by the servers' user, where clients work.
#[derive(Debug)]
pub struct RunDir {
    // Clients end before their directory goes.
    _clients: Undo,
    _directory: Undo,
}

impl RunDir {
    /// Makes it, in the place of any other.
    pub fn create(
        lab: &LabDir,
        journal: &Journal,
        installation: &Installation,
    ) -> anyhow::Result<Self> {
        let path = lab.run();
        let directory = journal.note(Change::Directory { path: path.clone() })?;
        let clients = journal.note(installation.processes_in(&path))?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        chown(&path, Some(installation.uid), Some(installation.gid))?;
        Ok(Self {
            _clients: clients,
            _directory: directory,
        })
    }
}
