//! Lifting limits: each process goes back to the group that it was in, and the group goes.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, cgroup};

use crate::isolate::inventory::Inventory;
use crate::isolate::plan::Step;
use crate::isolate::report::Report;
use crate::isolate::state::State;
use crate::isolate::{select, state};

/// Scans for processes that were forked in the group meanwhile.
const SCANS: u32 = 100;

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Data directory, port or process id; all isolated instances if not given.
    pub instance: Option<String>,
    /// Only say what would be done.
    pub plan: bool,
}

/// Clears one isolated instance, or all. `interrupted` ends it while it waits for another command, not once it has begun:
/// the rest takes a moment.
pub fn clear(root: &HostRoot, options: &Options, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Report> {
    let _lock = if options.plan { None } else { Some(state::lock_to_change(root, interrupted)?) };
    let inventory = Inventory::take(root)?;
    let states = state::read_all(root)?;
    let mut report = inventory.report("clear", &[]);
    let chosen: Vec<&State> = match &options.instance {
        Some(name) => choose(&inventory, &states, name, &mut report.notes)?.into_iter().collect(),
        None => states.iter().collect(),
    };
    for state in chosen {
        let others: Vec<State> = states.iter().filter(|s| *s != state).cloned().collect();
        let kept = in_need(root, state, &others).map(|group| {
            format!(
                "What pgcalm isolate switched on in {} stays on: the limits of {} need it.",
                state.former.join("cgroup.subtree_control").display(),
                group.display()
            )
        });
        report.notes.extend(kept);
        let steps = if options.plan { steps(root, state, &others)? } else { undo(root, state, &others)? };
        report.steps.extend(steps.iter().map(Step::described));
    }
    report.applied = !options.plan && !report.steps.is_empty();
    Ok(report)
}

/// The instance may have ended: then its group is known by the data directory or the former process id. One that runs and has
/// no limits is as it is to be.
fn choose<'a>(
    inventory: &Inventory,
    states: &'a [State],
    name: &str,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<&'a State>> {
    let running = select::instance(inventory, name);
    let found = match &running {
        Ok(instance) => {
            let postmaster = &instance.postmaster;
            let now = |state: &&State| (state.pid, state.start_ticks) == (postmaster.pid, postmaster.start_ticks);
            // Else what is left of before the server was restarted; one that runs is another's, as in containers.
            let runs = |state: &State| {
                let mut table = inventory.table.iter();
                table.any(|process| (process.pid, process.start_ticks) == (state.pid, state.start_ticks))
            };
            let before = |state: &&State| {
                (state.data_directory == instance.data_directory || state.pid == postmaster.pid) && !runs(state)
            };
            states.iter().find(now).or_else(|| states.iter().find(before))
        }
        Err(_) => states.iter().find(|state| name == state.pid.to_string()).or_else(|| {
            let mut there = states.iter().filter(|state| state.data_directory == Path::new(name));
            // Of several, one may be a server's that runs and is to keep its limits.
            there.next().filter(|_| there.next().is_none())
        }),
    };
    match (found, running) {
        (Some(state), _) => Ok(Some(state)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(instance)) => {
            notes.push(format!(
                "{} (pid {}) has no limits that pgcalm isolate set.",
                instance.data_directory.display(),
                instance.postmaster.pid
            ));
            Ok(None)
        }
    }
}

/// Everything that is to be done at this moment.
fn steps(root: &HostRoot, state: &State, others: &[State]) -> anyhow::Result<Vec<Step>> {
    if !root.path(&state.group).exists() {
        return Ok(Vec::new());
    }
    let mut steps = controllers(root, state, others);
    steps.extend(moves(root, state)?);
    steps.push(Step::RemoveGroup(state.group.clone()));
    Ok(steps)
}

/// Switched off first: while they are on, the former group takes no processes.
fn controllers(root: &HostRoot, state: &State, others: &[State]) -> Vec<Step> {
    // Another isolated instance beside this one needs them still, and takes them over.
    if has_heir(state, others) || in_need(root, state, others).is_some() {
        return Vec::new();
    }
    state
        .controllers
        .iter()
        .rev()
        .map(|controller| Step::Write {
            file: state.former.join("cgroup.subtree_control"),
            value: format!("-{controller}"),
        })
        .collect()
}

/// A group that somebody else has set limits on since, and that would lose them with the controller: one beside that of
/// `state`, below the root, which takes processes while controllers are on.
fn in_need(root: &HostRoot, state: &State, others: &[State]) -> Option<PathBuf> {
    if state.controllers.is_empty() || has_heir(state, others) || !is_root(root, &state.former) {
        return None;
    }
    let has_limits = |group: &PathBuf| root.read(group.join("io.max")).is_ok_and(|lines| !lines.trim().is_empty());
    let mut groups = root.list(&state.former).unwrap_or_default().into_iter().map(|name| state.former.join(name));
    groups.find(|group| *group != state.group && has_limits(group))
}

fn has_heir(state: &State, others: &[State]) -> bool {
    others.iter().any(|other| other.former == state.former)
}

/// All groups but the root have that file (Documentation/admin-guide/cgroup-v2.rst).
fn is_root(root: &HostRoot, group: &Path) -> bool {
    !root.path(group.join("cgroup.type")).exists()
}

fn moves(root: &HostRoot, state: &State) -> anyhow::Result<Vec<Step>> {
    let members = match cgroup::members(root, &state.group) {
        Ok(members) => members,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut steps = Vec::new();
    for pid in members {
        let process = match Process::read(root, pid) {
            Ok(process) => process,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        let noted = state.moved.iter().find(|moved| (moved.pid, moved.start_ticks) == (pid, process.start_ticks));
        // What was forked in the group goes where its server goes, and so does what came from a group that has gone.
        let to = noted.map(|moved| &moved.former).filter(|former| root.path(former).exists()).unwrap_or(&state.former);
        steps.push(Step::Move { pid, start_ticks: process.start_ticks, to: to.clone() });
    }
    Ok(steps)
}

/// Undoes an isolation and forgets it.
pub(crate) fn undo(root: &HostRoot, state: &State, others: &[State]) -> anyhow::Result<Vec<Step>> {
    let mut made = Vec::new();
    if root.path(&state.group).exists() {
        for step in controllers(root, state, others) {
            match step.apply(root) {
                Ok(()) => made.push(step),
                // Others may have come to need them for groups below theirs.
                Err(_) if is_root(root, &state.former) => {}
                Err(error) => return Err(error),
            }
        }
        for _ in 0..SCANS {
            let moves = moves(root, state)?;
            if moves.is_empty() {
                break;
            }
            for step in moves {
                step.apply(root)?;
                made.push(step);
            }
        }
        let remove = Step::RemoveGroup(state.group.clone());
        remove.apply(root).with_context(|| {
            format!("{} is noted still, and pgcalm isolate clear tries again", state.group.display())
        })?;
        made.push(remove);
    }
    let heir = others.iter().find(|other| other.former == state.former);
    if let Some(heir) = heir.filter(|_| !state.controllers.is_empty()) {
        let mut heir = heir.clone();
        heir.controllers = state.controllers.clone();
        heir.save(root)?;
    }
    state.forget(root)?;
    Ok(made)
}
