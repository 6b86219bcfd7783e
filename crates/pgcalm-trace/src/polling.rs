//! Waiting without eBPF: between two readings of the server's views.

use std::thread;
use std::time::{Duration, Instant};

use pgcalm_host::process::Process;

use crate::report::{EndReason, Missing};
use crate::stop::Stop;
use crate::target::Target;

/// How often signals and the server are looked at.
const POLL: Duration = Duration::from_millis(50);

/// Whether the postmaster is still that process.
pub fn is_running(target: &Target) -> bool {
    Process::read(&target.root, target.pid())
        .is_ok_and(|process| process.start_ticks == target.postmaster.process.start_ticks && !process.is_zombie())
}

/// Whether the postmaster is stopped, by SIGSTOP or a debugger: then it answers nobody, and waiting for it has no end.
pub fn is_stopped(target: &Target) -> bool {
    Process::read(&target.root, target.pid()).is_ok_and(|process| matches!(process.state, 'T' | 't'))
}

/// What to do about that.
pub fn stopped_reason(target: &Target) -> String {
    let pid = target.pid();
    format!("its first process is stopped, by SIGSTOP or a debugger; kill -CONT {pid} lets it go on")
}

/// Notes that the server is stopped, if it is: it is traced on, and just does nothing, which a report has to say.
pub fn note_if_stopped(target: &Target, missing: &mut Vec<Missing>) {
    if !is_stopped(target) {
        return;
    }
    let stopped = Missing {
        answer: "what the server would have done while it was stopped".to_string(),
        reason: stopped_reason(target),
    };
    if !missing.contains(&stopped) {
        missing.push(stopped);
    }
}

/// Waits for the next reading, or for the end.
pub fn wait(target: &Target, stop: &Stop, interval: Duration, deadline: Option<Instant>) -> Option<EndReason> {
    let next = Instant::now() + interval;
    loop {
        if stop.is_set() {
            return Some(EndReason::Interrupted);
        }
        if !is_running(target) {
            return Some(EndReason::ServerEnded);
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Some(EndReason::Duration);
        }
        if now >= next {
            return None;
        }
        thread::sleep(POLL.min(next - now));
    }
}
