//! Carrying out a plan, and moving processes while the instance forks more of them.

use std::collections::BTreeSet;

use anyhow::bail;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, process};

use crate::isolate::plan::Step;
use crate::isolate::set::planning::Plan;
use crate::isolate::state::{Moved, State};
use crate::isolate::{clear, inventory, state};
use pgcalm_host::Failure;

/// Scans for processes that were forked by one that had not been moved yet. Each scan leaves only forks of the moment
/// between reading a parent and moving it, so a few suffice.
const SCANS: u32 = 100;

/// The processes of the instance that are neither in the group nor among those already moved, parents first.
pub(super) fn moves(
    root: &HostRoot,
    hierarchy: &Hierarchy,
    state: &State,
    done: &BTreeSet<(i32, u64)>,
) -> anyhow::Result<Vec<Step>> {
    let table = process::table(root)?;
    let mut steps = Vec::new();
    let mut family: Vec<Process> = process::family(&table, state.pid);
    // The postmaster first: what it forks from then on needs no moving.
    family.sort_by_key(|process| (process.pid != state.pid, process.start_ticks, process.pid));
    for process in family {
        if process.is_zombie() || done.contains(&(process.pid, process.start_ticks)) {
            continue;
        }
        let group = inventory::group_of(root, hierarchy, process.pid)?;
        let outside = group.is_some_and(|group| hierarchy.directory(&group) != state.group);
        if outside {
            steps.push(Step::Move { pid: process.pid, start_ticks: process.start_ticks, to: state.group.clone() });
        }
    }
    Ok(steps)
}

/// Does it, and undoes what was done if a step fails or `interrupted` says so.
pub(super) fn apply(
    root: &HostRoot,
    hierarchy: &Hierarchy,
    plan: &Plan,
    interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<Vec<Step>> {
    if plan.state.complete {
        plan.state.save(root)?;
        // A few writes to files of a group that is there: not to be left between the old limits and the new.
        for step in &plan.after {
            step.apply(root)?;
        }
        return Ok(plan.after.clone());
    }
    let mut state = plan.state.clone();
    state.save(root)?;
    let result = try_apply(root, hierarchy, plan, &mut state, interrupted);
    if let Err(error) = result {
        let others: Vec<State> =
            state::read_all(root)?.into_iter().filter(|other| other.group != state.group).collect();
        return match clear::undo(root, &state, &others) {
            Ok(_) => Err(error),
            // What went wrong first is the reason.
            Err(undoing) => Err(error.context(format!(
                "and not all of it could be undone ({undoing:#}): pgcalm isolate clear --instance {} tries again",
                state.pid
            ))),
        };
    }
    state.complete = true;
    state.save(root)?;
    result
}

fn try_apply(
    root: &HostRoot,
    hierarchy: &Hierarchy,
    plan: &Plan,
    state: &mut State,
    interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<Vec<Step>> {
    let mut made = Vec::new();
    let mut make = |step: &Step| -> anyhow::Result<()> {
        if interrupted() {
            return Err(Failure::Interrupted("all is as before").into());
        }
        step.apply(root)?;
        made.push(step.clone());
        Ok(())
    };
    plan.before.iter().try_for_each(&mut make)?;
    let mut done = BTreeSet::new();
    let mut stable = false;
    for _ in 0..SCANS {
        let moves = moves(root, hierarchy, state, &done)?;
        if moves.is_empty() {
            stable = true;
            break;
        }
        for step in &moves {
            let Step::Move { pid, start_ticks, .. } = step else { continue };
            let Some(group) = inventory::group_of(root, hierarchy, *pid)? else { continue };
            state.moved.push(Moved { pid: *pid, start_ticks: *start_ticks, former: hierarchy.directory(&group) });
            done.insert((*pid, *start_ticks));
        }
        state.save(root)?;
        moves.iter().try_for_each(&mut make)?;
    }
    if !stable {
        bail!("instance {} forks faster than its processes can be moved; all is as before", state.pid);
    }
    plan.after.iter().try_for_each(&mut make)?;
    Ok(made)
}
