use std::time::Duration;

use crate::cap::InForce;
use crate::trouble::Ground;
use crate::trouble::play::Play;

#[derive(Debug, Default)]
pub(crate) struct CapsHalve {
    half: Vec<InForce>,
}

impl Play for CapsHalve {
    fn begin(&mut self, ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        self.half = ground.devices.halve(ground.options, ground.contestant)?;
        Ok(())
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.half.clear();
        Ok(())
    }
}
