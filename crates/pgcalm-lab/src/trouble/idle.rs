use std::time::{Duration, Instant};

use crate::load::Demand;
use crate::trouble::Ground;
use crate::trouble::play::{Play, lasting};

/// An hour, compressed: the kernel's flusher has written all that is dirty by then.
const TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Idle {
    until: Option<Instant>,
    over: bool,
}

impl Play for Idle {
    fn begin(&mut self, _ground: &Ground<'_>, left: Duration) -> anyhow::Result<()> {
        self.until = Some(Instant::now() + lasting(TIME, left));
        Ok(())
    }

    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        self.over = self.until.is_none_or(|until| Instant::now() >= until);
        Ok(self.over)
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.over = true;
        Ok(())
    }

    fn demand(&self) -> Demand {
        if self.until.is_some() && !self.over { Demand::Rest } else { Demand::Work }
    }
}
