//! Waiting without eBPF: between two readings of the server's views.

use std::thread;
use std::time::Duration;
use std::time::Instant;

use pgcalm_host::process::Process;
use pgcalm_report::trace::EndReason;

use crate::stop::Stop;
use crate::target::Target;

/// How often signals and the server are looked at.
const POLL: Duration = Duration::from_millis(50);

/// Whether the postmaster is still that process.
pub fn is_running(target: &Target) -> bool {
    Process::read(&target.root, target.pid()).is_ok_and(|process| {
        process.start_ticks == target.postmaster.process.start_ticks && !process.is_zombie()
    })
}

/// Waits for the next reading, or for the end.
pub fn wait(
    target: &Target,
    stop: &Stop,
    interval: Duration,
    deadline: Option<Instant>,
) -> Option<EndReason> {
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
