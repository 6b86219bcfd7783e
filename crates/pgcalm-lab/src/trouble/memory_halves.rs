use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::anyhow;

use crate::trouble::Ground;
use crate::trouble::play::Play;
use crate::{Size, memory};

#[derive(Debug, Default)]
pub(crate) struct MemoryHalves {
    /// The kernel first finds the memory that is to go, which may have to be written.
    setting: Option<JoinHandle<anyhow::Result<()>>>,
    begun: bool,
}

impl MemoryHalves {
    fn join(&mut self) -> anyhow::Result<()> {
        self.setting
            .take()
            .map_or(Ok(()), |setting| setting.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
    }
}

impl Play for MemoryHalves {
    fn begin(&mut self, ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        if let Some((group, size)) = ground.devices.memory(ground.options) {
            let half = (size.bytes() / 2).to_string();
            self.begun = true;
            self.setting = Some(group.set_in_background(memory::limit_file(group), &half));
        }
        Ok(())
    }

    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        if self.setting.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join()?;
        }
        Ok(false)
    }

    fn end(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        // The group is the next contestant's, too. First what is under way, which would come after what is put back.
        let halved = self.join();
        if let Some((group, size)) = ground.devices.memory(ground.options)
            && std::mem::take(&mut self.begun)
        {
            put_back(group, size)?;
        }
        halved
    }
}

fn put_back(group: &crate::control_group::ControlGroup, size: Size) -> anyhow::Result<()> {
    group.set(memory::limit_file(group), &size.bytes().to_string())
}
