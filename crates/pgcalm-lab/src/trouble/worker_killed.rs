use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal};

use crate::trouble::Ground;
use crate::trouble::play::Play;
use crate::trouble::process_stopped::{WORKER, find};

/// Over when the server has started another one.
#[derive(Debug, Default)]
pub(crate) struct WorkerKilled {
    first: Option<Pid>,
    second: Option<Pid>,
}

impl Play for WorkerKilled {
    fn begin(&mut self, ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        let pid = find(ground.stage.root(), ground.server.pid(), WORKER)?
            .with_context(|| format!("the server has no process {WORKER}"))?;
        rustix::process::kill_process(pid, Signal::TERM).with_context(|| format!("end {WORKER}"))?;
        self.first = Some(pid);
        Ok(())
    }

    fn is_over(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        let pid = find(ground.stage.root(), ground.server.pid(), WORKER)?;
        self.second = pid.filter(|pid| Some(*pid) != self.first);
        Ok(self.second.is_some())
    }

    fn done(&self) -> Option<String> {
        let first = self.first?.as_raw_nonzero();
        Some(match self.second {
            Some(second) => format!("process {first} ended, {} came after it", second.as_raw_nonzero()),
            None => format!("process {first} was told to end, none came after it"),
        })
    }
}
