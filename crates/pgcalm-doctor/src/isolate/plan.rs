//! Changes to control groups, as data first, so that a plan and what is done cannot differ.

use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_host::process::Process;

use crate::isolate::report as model;

/// How often a group that is not quite empty yet is tried again to be removed.
const REMOVE_TRIES: u32 = 50;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A new control group.
    MakeGroup(PathBuf),
    /// A control group goes; its processes must have gone.
    RemoveGroup(PathBuf),
    /// A value is written to a file of a control group.
    Write {
        /// The file.
        file: PathBuf,
        /// The value.
        value: String,
    },
    /// A process with all its threads goes to another group; what it forks from then on starts there.
    Move {
        /// Process id.
        pid: i32,
        /// Its start, so that another process with the same id is left alone.
        start_ticks: u64,
        /// Directory of the group.
        to: PathBuf,
    },
}

impl Step {
    /// Makes the change.
    pub(crate) fn apply(&self, root: &HostRoot) -> anyhow::Result<()> {
        match self {
            Self::MakeGroup(directory) => fs::create_dir(root.path(directory))
                .with_context(|| format!("create control group {}", directory.display())),
            Self::RemoveGroup(directory) => {
                remove(root, directory).with_context(|| format!("remove control group {}", directory.display()))
            }
            Self::Write { file, value } => Ok(root.write(file, value)?),
            Self::Move { pid, start_ticks, to } => {
                // Ids are given out in turn (alloc_pid), so one that is in use now isn't another process's in a moment.
                let is_same = |process: Process| process.start_ticks == *start_ticks;
                if !Process::read(root, *pid).is_ok_and(is_same) {
                    return Ok(());
                }
                match root.write(to.join("cgroup.procs"), &pid.to_string()) {
                    // It has ended meanwhile.
                    Err(_) if !Process::read(root, *pid).is_ok_and(is_same) => Ok(()),
                    Err(error) => Err(error.into()),
                    Ok(()) => Ok(()),
                }
            }
        }
    }

    /// As a report shows it.
    pub(crate) fn described(&self) -> model::Step {
        let (action, path, value) = match self {
            Self::MakeGroup(directory) => ("make-group", directory.clone(), None),
            Self::RemoveGroup(directory) => ("remove-group", directory.clone(), None),
            Self::Write { file, value } => ("write", file.clone(), Some(value.clone())),
            Self::Move { pid, to, .. } => ("move", to.join("cgroup.procs"), Some(pid.to_string())),
        };
        model::Step { action: action.to_string(), path: path.display().to_string(), value }
    }
}

fn remove(root: &HostRoot, directory: &PathBuf) -> io::Result<()> {
    let directory = root.path(directory);
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir(&directory) {
            // A process that ends is counted until it is gone.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other,
        }
    }
    fs::remove_dir(&directory)
}
