//! Removing what a killed run has left.

use std::fs;
use std::path::Path;

use anyhow::Context;
use pgcalm_host::HostRoot;

use crate::LabError;
use crate::lab_dir::LabDir;

/// What a clean-up has done.
#[derive(Debug)]
pub struct Cleaned {
    /// Changes that were undone.
    pub changes: usize,
    /// Whether loaded tables are still there for later runs.
    pub templates_left: bool,
}

/// Undoes what the journal in `dir` lists and removes kept logs; with `templates` the loaded tables, too.
pub fn clean(dir: &Path, templates: bool) -> anyhow::Result<Cleaned> {
    if !dir.exists() {
        return Ok(Cleaned {
            changes: 0,
            templates_left: false,
        });
    }
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::Host(
            "needs root to unmount and to detach devices: run it with sudo".to_string(),
        )
        .into());
    }
    let root = HostRoot::default();
    let lab = LabDir::open(&root, dir)?;
    let changes = lab.journal(root)?.undo_all()?;
    remove(&lab.kept())?;
    if templates {
        remove(&lab.templates())?;
    }
    let templates_left = lab.templates().exists();
    lab.remove_if_empty()?;
    Ok(Cleaned {
        changes,
        templates_left,
    })
}

fn remove(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}
