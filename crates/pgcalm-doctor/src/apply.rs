//! Making changes that can be taken back.

use std::path::Path;

use anyhow::Context;
use pgcalm_host::{HostRoot, kernel_release};

use crate::connection::Connection;
use crate::report::{Change, Target};
use crate::state::{Entry, State};
use crate::{alter_system, kernel_file};
use pgcalm_host::Failure;

/// What can be done of some changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// These can be made.
    pub changes: Vec<Change>,
    /// What can't be made here and why, a sentence each.
    pub notes: Vec<String>,
}

/// Leaves out what can't be made here.
pub fn plan(root: &HostRoot, changes: Vec<Change>, connection: Option<&mut Connection>) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    let allowed = match connection {
        Some(connection) => alter_system::is_allowed(&mut connection.client)?,
        None => false,
    };
    for change in changes {
        let obstacle = match change.target {
            Target::Kernel => kernel_file::check_writable(root, &change.name)
                .err()
                .map(|error| format!("{error}; run as root on the host, not in a container")),
            Target::Setting if !allowed => Some(alter_system::NOT_ALLOWED.to_string()),
            Target::Setting => None,
        };
        match obstacle {
            Some(obstacle) => plan.notes.push(format!("{} can't be changed here: {obstacle}", change.name)),
            None => plan.changes.push(change),
        }
    }
    Ok(plan)
}

/// Makes the changes, each noted in the state before it is made.
///
/// One that can't be made does not keep the others from it: fails in the end with the first such error. What is made
/// stays, and [`undo`](crate::undo::undo) takes it back.
pub fn apply(
    root: &HostRoot,
    directory: &Path,
    changes: &[Change],
    mut connection: Option<&mut Connection>,
) -> anyhow::Result<()> {
    let mut state = State::open(directory)?;
    let boot_id = kernel_release::boot_id(root)?;
    let mut expected = Vec::new();
    let mut make = |change: &Change| {
        let to = change.to.as_deref().with_context(|| format!("{} is to be changed to nothing", change.name))?;
        match change.target {
            Target::Kernel => {
                anyhow::ensure!(
                    kernel_file::is_known(&change.name),
                    "{} is not a file that doctor writes",
                    change.name
                );
                let (former_file, former) = kernel_file::former(root, &change.name)?;
                state.note(Entry::Kernel {
                    boot_id: boot_id.clone(),
                    file: change.name.clone(),
                    set: to.to_string(),
                    former_file,
                    former,
                })?;
                root.write(&change.name, to)?;
            }
            Target::Setting => {
                let Some(connection) = connection.as_deref_mut() else {
                    return Err(
                        Failure::Usage(format!("{} is a setting of the server: give --connect", change.name)).into()
                    );
                };
                let former = alter_system::former(&mut connection.client, &change.name)?;
                state.note(Entry::Setting {
                    system_identifier: connection.system_identifier.clone(),
                    data_directory: connection.data_directory.clone().unwrap_or_default(),
                    inode: connection.inode,
                    name: change.name.clone(),
                    set: to.to_string(),
                    former,
                })?;
                alter_system::set(&mut connection.client, &change.name, Some(to))?;
                expected.push((change.name.clone(), to.to_string()));
            }
        }
        Ok(())
    };
    // In that order: all are tried.
    let made: Vec<anyhow::Result<()>> = changes.iter().map(&mut make).collect();
    let reloaded = match connection {
        Some(connection) if !expected.is_empty() => alter_system::reload(&mut connection.client, &expected),
        _ => Ok(()),
    };
    made.into_iter().collect::<anyhow::Result<()>>().and(reloaded)
}
