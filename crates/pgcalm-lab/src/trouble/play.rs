use std::fmt::Debug;
use std::time::Duration;

use crate::load::Demand;
use crate::trouble::{Before, Ground};

/// One trouble in one run.
///
/// Its steps are taken by the loop that watches the run, and none may wait for what the trouble itself holds up: a volume that
/// hangs, a server that is stopped.
pub(crate) trait Play: Debug {
    /// The server is not there yet.
    fn before_start(&mut self, _before: &Before<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    /// The server is there, without limits and without load. Whether it has written to the server's tables.
    fn prepare(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        Ok(false)
    }

    /// Its second has come; `left` is what is left of the run.
    fn begin(&mut self, _ground: &Ground<'_>, _left: Duration) -> anyhow::Result<()> {
        Ok(())
    }

    /// Whether it has come to its end by itself, to be asked again and again.
    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        Ok(false)
    }

    /// Takes back what it has changed and ends what it has started. Called once, also if it has not begun.
    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    /// The server has died of it: makes room and starts it, unless it comes by itself. Whether it is up again; false if it knows no
    /// way.
    fn revive(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        Ok(false)
    }

    /// What becomes of the clients of the load meanwhile.
    fn demand(&self) -> Demand {
        Demand::Work
    }

    /// What it has done, in a few words for the report, once it is over or the run is.
    fn done(&self) -> Option<String> {
        None
    }
}

/// One that has not begun.
pub(crate) fn boxed<P: Play + Default + 'static>() -> Box<dyn Play> {
    Box::<P>::default()
}

/// How long one lasts that should last `nominal`: in a short run so long that as much comes after it.
pub(crate) fn lasting(nominal: Duration, left: Duration) -> Duration {
    nominal.min(left / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_short_run_as_much_comes_after_it() {
        let seconds = Duration::from_secs;
        assert_eq!(lasting(seconds(30), seconds(100)), seconds(30));
        assert_eq!(lasting(seconds(30), seconds(8)), seconds(4));
    }
}
