use std::time::Duration;

use crate::control_group::{ControlGroup, Controller};
use crate::cpu;
use crate::trouble::play::Play;
use crate::trouble::{Before, Ground};

/// Of a processor.
const SHARE: f64 = 0.5;

#[derive(Debug, Default)]
pub(crate) struct CpuQuota {
    /// Made before the server, so that a lab that was killed is cleaned up in the right order.
    group: Option<ControlGroup>,
    /// The postmaster that is in it: another one after a restart.
    member: Option<i32>,
}

impl CpuQuota {
    fn admit(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        let pid = ground.server.pid();
        if let Some(group) = self.group.as_ref().filter(|_| self.member != Some(pid)) {
            group.admit(pid)?;
            self.member = Some(pid);
        }
        Ok(())
    }
}

impl Play for CpuQuota {
    fn before_start(&mut self, before: &Before<'_>) -> anyhow::Result<()> {
        self.group = Some(ControlGroup::create(
            &before.stage.journal,
            Controller::Cpu,
            "trouble cpu-quota",
            "-trouble",
            before.devices.group_of_v2(),
        )?);
        Ok(())
    }

    fn begin(&mut self, ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        if let Some(group) = &self.group {
            cpu::limit(group, Some(SHARE))?;
        }
        self.admit(ground)
    }

    fn is_over(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        self.admit(ground)?;
        Ok(false)
    }

    fn end(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        if self.member.take().is_some() {
            cpu::limit(&group, None)?;
            // Twice, for what was started meanwhile.
            group.release(ground.server.pid())?;
            group.release(ground.server.pid())?;
        }
        Ok(())
    }
}
