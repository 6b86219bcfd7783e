use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::{HostRoot, process};
use rustix::process::{Pid, Signal};

use crate::trouble::Ground;
use crate::trouble::play::{Play, lasting};

const TIME: Duration = Duration::from_secs(30);

/// As the module's processes are called in the process table.
pub(crate) const WORKER: &str = "pg_calm writeback worker";
const CLEANER: &str = "pg_calm cleaner";

pub(crate) fn worker() -> Box<dyn Play> {
    Box::new(Stopped::new(WORKER))
}

pub(crate) fn cleaner() -> Box<dyn Play> {
    Box::new(Stopped::new(CLEANER))
}

#[derive(Debug)]
struct Stopped {
    name: &'static str,
    pid: Option<Pid>,
    until: Option<Instant>,
    seen: String,
}

impl Stopped {
    fn new(name: &'static str) -> Self {
        Self { name, pid: None, until: None, seen: String::new() }
    }

    fn go_on(&mut self) {
        if let Some(pid) = self.pid.take() {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
    }
}

impl Play for Stopped {
    fn begin(&mut self, ground: &Ground<'_>, left: Duration) -> anyhow::Result<()> {
        let pid = find(ground.stage.root(), ground.server.pid(), self.name)?
            .with_context(|| format!("the server has no process {}", self.name))?;
        rustix::process::kill_process(pid, Signal::STOP).with_context(|| format!("stop {}", self.name))?;
        self.pid = Some(pid);
        self.until = Some(Instant::now() + lasting(TIME, left));
        Ok(())
    }

    fn is_over(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        if let Some(pid) = self.pid {
            let pid = pid.as_raw_nonzero().get();
            let state = process::Process::read(ground.stage.root(), pid)?.state;
            self.seen = format!("process {pid} in state {state}");
        }
        Ok(self.until.is_none_or(|until| Instant::now() >= until))
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.go_on();
        Ok(())
    }

    fn done(&self) -> Option<String> {
        (!self.seen.is_empty()).then(|| self.seen.clone())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// The process of the server of `postmaster` with this name.
pub(crate) fn find(root: &HostRoot, postmaster: i32, name: &str) -> anyhow::Result<Option<Pid>> {
    for member in process::family(&process::table(root)?, postmaster) {
        // One that has ended meanwhile has no command line.
        let line = process::command_line(root, member.pid).unwrap_or_default();
        if line.starts_with("postgres:") && line.contains(name) {
            return Ok(Pid::from_raw(member.pid));
        }
    }
    Ok(None)
}
