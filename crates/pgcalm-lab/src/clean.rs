//! Removing what a killed run has left.

use std::fs;
use std::path::Path;

use anyhow::Context;
use pgcalm_host::HostRoot;

use crate::lab_dir::LabDir;
use crate::{DEFAULT_DIR, DEFAULT_TORTURE_DIR, DEFAULT_VOLUME_DIR};
use pgcalm_host::Failure;

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
        return Ok(Cleaned { changes: 0, templates_left: false });
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Host("needs root to unmount and to detach devices: run it with sudo".to_string()).into());
    }
    let root = HostRoot::default();
    let mut cleaned = Cleaned { changes: 0, templates_left: false };
    let (torture, volume) = (LabDir::has_torture(dir), LabDir::has_volume(dir));
    let contest = LabDir::has_contest(dir) || !(torture || volume);
    if volume {
        clean_lab(LabDir::open_volume(dir)?, &root, templates, &mut cleaned)?;
    }
    if torture {
        clean_lab(LabDir::open_torture(dir)?, &root, templates, &mut cleaned)?;
    }
    if contest {
        clean_lab(LabDir::open(&root, dir)?, &root, templates, &mut cleaned)?;
    }
    Ok(cleaned)
}

/// The same for the directories where the lab works unless told otherwise.
pub fn clean_all(templates: bool) -> anyhow::Result<Cleaned> {
    let mut all = Cleaned { changes: 0, templates_left: false };
    let mut first_error = None;
    // None keeps the others from being cleaned.
    for dir in [DEFAULT_DIR, DEFAULT_TORTURE_DIR, DEFAULT_VOLUME_DIR] {
        match clean(Path::new(dir), templates) {
            Ok(cleaned) => {
                all.changes += cleaned.changes;
                all.templates_left |= cleaned.templates_left;
            }
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(all), Err)
}

fn clean_lab(lab: LabDir, root: &HostRoot, templates: bool, cleaned: &mut Cleaned) -> anyhow::Result<()> {
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
