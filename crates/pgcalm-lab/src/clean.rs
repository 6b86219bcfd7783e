//! Removing what a killed run has left.

use std::fs;
use std::path::Path;

use anyhow::Context;
use pgcalm_host::HostRoot;

use crate::DEFAULT_DIR;
use crate::DEFAULT_TORTURE_DIR;
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
    let mut cleaned = Cleaned {
        changes: 0,
        templates_left: false,
    };
    let only_torture = LabDir::has_torture(dir) && !LabDir::has_contest(dir);
    if LabDir::has_torture(dir) {
        clean_lab(LabDir::open_torture(dir)?, &root, templates, &mut cleaned)?;
    }
    if !only_torture {
        clean_lab(LabDir::open(&root, dir)?, &root, templates, &mut cleaned)?;
    }
    Ok(cleaned)
}

/// The same for the directories where the lab works unless told otherwise.
pub fn clean_all(templates: bool) -> anyhow::Result<Cleaned> {
    // Neither keeps the other from being cleaned.
    let first = clean(Path::new(DEFAULT_DIR), templates);
    let second = clean(Path::new(DEFAULT_TORTURE_DIR), templates);
    let (first, second) = (first?, second?);
    Ok(Cleaned {
        changes: first.changes + second.changes,
        templates_left: first.templates_left || second.templates_left,
    })
}

fn clean_lab(
    lab: LabDir,
    root: &HostRoot,
    templates: bool,
    cleaned: &mut Cleaned,
) -> anyhow::Result<()> {
    cleaned.changes += lab.journal(root.clone())?.undo_all()?;
    remove(&lab.kept())?;
    if templates {
        remove(&lab.templates())?;
    }
    cleaned.templates_left |= lab.templates().exists();
    lab.remove_if_empty()
}

fn remove(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}
