use std::time::{Duration, Instant};

use anyhow::bail;

use crate::load::Demand;
use crate::trouble::Ground;
use crate::trouble::play::Play;

/// How long the rest of a restart is waited for when the run is over.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, Default)]
pub(crate) struct Restart {
    state: State,
    begun: Option<Instant>,
    /// How long the server took to end.
    stopping: Duration,
    pids: Vec<i32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Up,
    Stops,
    Starts,
}

impl Play for Restart {
    fn begin(&mut self, ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        self.pids.push(ground.server.pid());
        ground.server.stop()?;
        self.begun = Some(Instant::now());
        self.state = State::Stops;
        Ok(())
    }

    fn is_over(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        let interrupt = ground.stage.interrupt;
        if self.state == State::Stops && ground.server.has_ended()? {
            self.stopping = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            ground.server.start_again()?;
            self.pids.push(ground.server.pid());
            ground.devices.admit(ground.server.pid())?;
            self.state = State::Starts;
        }
        if self.state == State::Starts {
            if ground.server.has_ended()? {
                bail!("the server did not start again");
            }
            if ground.server.is_ready(interrupt) {
                self.state = State::Up;
            }
        }
        Ok(self.state == State::Up)
    }

    fn end(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        // What comes after the load needs the server.
        let end = Instant::now() + PATIENCE;
        while !self.is_over(ground)? {
            if Instant::now() > end {
                bail!("the server is not back {} s after the run", PATIENCE.as_secs());
            }
            ground.stage.interrupt.sleep(Duration::from_millis(100))?;
        }
        Ok(())
    }

    fn demand(&self) -> Demand {
        if self.state == State::Up { Demand::Work } else { Demand::CutOff }
    }

    fn done(&self) -> Option<String> {
        match self.pids[..] {
            [first, second] => Some(format!(
                "postmaster {first} took {:.1} s to end, {second} came after it",
                self.stopping.as_secs_f64()
            )),
            _ => None,
        }
    }
}
