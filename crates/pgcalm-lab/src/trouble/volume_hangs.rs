use std::time::{Duration, Instant};

use crate::cap::InForce;
use crate::trouble::Ground;
use crate::trouble::play::{Play, lasting};

/// What cloud volumes and networks have had.
const TIME: Duration = Duration::from_secs(5);

/// The volume of the data alone: one of two that has a volume of its own is not held.
#[derive(Debug, Default)]
pub(crate) struct VolumeHangs {
    until: Option<Instant>,
    hang: Vec<InForce>,
}

impl Play for VolumeHangs {
    fn begin(&mut self, ground: &Ground<'_>, left: Duration) -> anyhow::Result<()> {
        let time = lasting(TIME, left);
        self.hang = ground.devices.hang(ground.options, ground.contestant, time)?;
        self.until = Some(Instant::now() + time);
        Ok(())
    }

    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        Ok(self.until.is_none_or(|until| Instant::now() >= until))
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.hang.clear();
        Ok(())
    }
}
