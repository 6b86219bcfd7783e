//! Taking changes back.

use std::path::Path;

use pgcalm_host::{HostRoot, kernel_release};

use crate::connection::Connection;
use crate::report::{Change, Target};
use crate::state::{Entry, State};
use crate::{alter_system, kernel_file};

/// What was taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undone {
    /// In order, newest first.
    pub changes: Vec<Change>,
    /// What was left alone and why, a sentence each.
    pub notes: Vec<String>,
}

/// Takes back what [`apply`](crate::apply::apply) has changed: of the kernel all, of servers those of the connection.
/// One that can't be taken back does not keep the others from it, and is not forgotten: fails in the end with the first such error,
/// of which a plan has a note.
///
/// A value that somebody has changed since is left as it is, and said to be. What a boot has ended is forgotten, and said if
/// the value is there nevertheless. With `plan` nothing is changed or forgotten.
pub fn undo(
    root: &HostRoot,
    directory: &Path,
    mut connection: Option<&mut Connection>,
    plan: bool,
) -> anyhow::Result<Undone> {
    let mut state = State::open(directory)?;
    let boot_id = kernel_release::boot_id(root)?;
    let mut undone = Undone::default();
    let mut reload = false;
    let mut failed: Option<anyhow::Error> = None;
    let entries: Vec<Entry> = state.entries().iter().rev().cloned().collect();
    for entry in entries {
        match &entry {
            Entry::Kernel { boot_id: of_boot, file, set, former_file, former } => {
                anyhow::ensure!(
                    kernel_file::is_known(file) && kernel_file::is_known(former_file),
                    "{}: {former_file} is not a file that doctor writes; take it out of state.json",
                    directory.display()
                );
                let now = (*of_boot == boot_id).then(|| kernel_file::read(root, file)).transpose();
                match now {
                    Err(error) if error.is_not_found() => {
                        // The device was taken away, and what was set with it.
                        undone.notes.push(format!("{file} is not there any more: nothing is left to be taken back"));
                    }
                    Err(error) => {
                        failed.get_or_insert(error.into());
                        continue;
                    }
                    Ok(Some(now)) if now == *set => {
                        if !plan && let Err(error) = root.write(former_file, former) {
                            failed.get_or_insert(error.into());
                            continue;
                        }
                        undone.changes.push(Change {
                            target: Target::Kernel,
                            name: former_file.clone(),
                            from: (former_file == file).then_some(now),
                            to: Some(former.clone()),
                        });
                    }
                    Ok(Some(now)) if kernel_file::read(root, former_file)? != *former => {
                        undone.notes.push(changed_since(file, &now, set, former));
                    }
                    // Not written back: what was there before this boot may fit neither this kernel nor this device.
                    Ok(None) if kernel_file::read(root, file).is_ok_and(|now| now == *set) => {
                        undone.notes.push(format!(
                            "{file} stays {set}: doctor set it before this boot, and if it is not the kernel's own value, something \
                             sets it at each boot: take it out of /etc/sysctl.d or udev's rules, and reboot"
                        ));
                    }
                    Ok(_) => {}
                }
            }
            Entry::Setting { system_identifier, data_directory, inode, name, set, former } => {
                let server = connection.as_deref_mut().filter(|connection| {
                    connection.system_identifier == *system_identifier
                        && connection.data_directory.as_deref() == Some(data_directory)
                        && inode.zip(connection.inode).is_none_or(|(noted, now)| noted == now)
                });
                let Some(server) = server else {
                    undone.notes.push(format!(
                        "{name} of the server in {data_directory} stays {set}: not connected to it; give --connect or --instance"
                    ));
                    continue;
                };
                if !alter_system::is_allowed(&mut server.client)? {
                    undone.notes.push(format!("{name} stays {set}: {}", alter_system::NOT_ALLOWED));
                    continue;
                }
                let now = alter_system::former(&mut server.client, name)?;
                if now.as_ref() == Some(set) {
                    if !plan {
                        if let Err(error) = alter_system::set(&mut server.client, name, former.as_deref()) {
                            failed.get_or_insert(error);
                            continue;
                        }
                        reload = true;
                    }
                    undone.changes.push(Change {
                        target: Target::Setting,
                        name: name.clone(),
                        from: now,
                        to: former.clone(),
                    });
                } else if now != *former {
                    let none = "nothing";
                    undone.notes.push(changed_since(
                        name,
                        now.as_deref().unwrap_or(none),
                        set,
                        former.as_deref().unwrap_or(none),
                    ));
                }
            }
        }
        if !plan {
            state.forget(&entry)?;
        }
    }
    if let (true, Some(connection)) = (reload, connection) {
        alter_system::reload(&mut connection.client, &[])?;
    }
    match failed {
        Some(error) if plan => undone.notes.push(format!("{error:#}")),
        Some(error) => return Err(error),
        None => {}
    }
    Ok(undone)
}

fn changed_since(name: &str, now: &str, set: &str, former: &str) -> String {
    format!(
        "{name} is left as it is, {now}: somebody has changed it since doctor set {set}; before that it was {former}"
    )
}
