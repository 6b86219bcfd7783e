//! Limits that end with the command that set them: waiting for its end, and lifting them.

use std::thread;
use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_host::process::Process;

use crate::isolate::plan::Step;
use crate::isolate::report::Step as Described;
use crate::isolate::state::{Holder, State};
use crate::isolate::{clear, state};

/// How often it is looked whether there still is something to hold.
const POLL: Duration = Duration::from_millis(100);

/// Why limits are no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A signal asked for it.
    Interrupted,
    /// The instance has ended.
    InstanceEnded,
    /// Another command has lifted them.
    Cleared,
}

/// Waits until `interrupted` says so or there is nothing to hold any more, lifts the limits that this process holds, and
/// tells every change that this took.
pub fn until(root: &HostRoot, interrupted: &dyn Fn() -> bool) -> anyhow::Result<(End, Vec<Described>)> {
    let this = Holder::this(root)?;
    let end = loop {
        let Some(state) = held(root, this)? else { return Ok((End::Cleared, Vec::new())) };
        let runs = Process::read(root, state.pid)
            .is_ok_and(|process| process.start_ticks == state.start_ticks && !process.is_zombie());
        if interrupted() {
            break End::Interrupted;
        }
        if !runs {
            break End::InstanceEnded;
        }
        thread::sleep(POLL);
    };
    let _lock = state::lock(root, &|| false)?;
    let states = state::read_all(root)?;
    let Some(state) = states.iter().find(|state| state.holder == Some(this)) else {
        return Ok((End::Cleared, Vec::new()));
    };
    let others: Vec<State> = states.iter().filter(|s| *s != state).cloned().collect();
    let steps = clear::undo(root, state, &others)?;
    Ok((end, steps.iter().map(Step::described).collect()))
}

fn held(root: &HostRoot, holder: Holder) -> anyhow::Result<Option<State>> {
    let states = state::read_all(root)?;
    Ok(states.into_iter().find(|state| state.holder == Some(holder)))
}
