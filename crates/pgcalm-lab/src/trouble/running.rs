use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::contest::Options;
use crate::contestant::Contestant;
use crate::load::Demand;
use crate::trouble::play::Play;
use crate::trouble::{Before, Ground, Need, Scheduled};
use pgcalm_host::Failure;

/// The troubles of one run.
#[derive(Debug)]
pub(crate) struct Troubles {
    parts: Vec<Part>,
}

/// One of them.
#[derive(Debug)]
struct Part {
    name: &'static str,
    /// Second of the measured part; none: before the server starts.
    second: Option<u32>,
    play: Box<dyn Play>,
    state: State,
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Runs,
    Over,
}

/// What is to be told of a trouble; times are seconds of the epoch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) from: Option<f64>,
    pub(crate) until: Option<f64>,
    pub(crate) done: Option<String>,
    pub(crate) undisturbed: Option<String>,
    pub(crate) failure: Option<String>,
}

impl Troubles {
    /// Those of `options` that mean something to `contestant`; the others are only told.
    pub(crate) fn new(options: &Options, contestant: &Contestant) -> Self {
        let parts = options.troubles().map(|scheduled| Part::new(scheduled, options, contestant)).collect();
        Self { parts }
    }

    /// Those that come before the server.
    pub(crate) fn before_start(&mut self, before: &Before<'_>) -> anyhow::Result<()> {
        for part in self.waiting() {
            part.play.before_start(before).with_context(|| format!("--trouble {}", part.name))?;
        }
        Ok(())
    }

    /// Makes what they need, while there are neither limits nor load.
    pub(crate) fn prepare(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        let mut has_written = false;
        for part in self.waiting() {
            ground.stage.progress.status(&format!("preparing {}", part.name));
            has_written |= part.play.prepare(ground).with_context(|| format!("--trouble {}", part.name))?;
            if part.second.is_none() {
                part.told.done = part.play.done();
                part.state = State::Over;
            }
        }
        if has_written {
            ground.server.sql("checkpoint", ground.stage.interrupt)?;
        }
        Ok(())
    }

    /// Begins those whose second has come and looks after those that have begun. `measured` is what has passed of the
    /// measured part, `left` what is left of it. What fails is told, and the run goes on.
    pub(crate) fn poll(&mut self, ground: &Ground<'_>, measured: Duration, left: Duration) -> anyhow::Result<()> {
        for part in &mut self.parts {
            let step = match (part.state, part.second) {
                (State::Waits, Some(second)) if measured.as_secs() >= u64::from(second) => {
                    ground.stage.progress.note(&format!("trouble: {}", part.name));
                    part.told.from = Some(now());
                    part.state = State::Runs;
                    part.play.begin(ground, left).map(|()| false)
                }
                (State::Runs, _) => part.play.is_over(ground),
                _ => continue,
            };
            match step {
                Ok(false) => {}
                Ok(true) => {
                    part.told.until = Some(now());
                    part.end(ground, None)?;
                    ground.stage.progress.note(&format!("trouble is over: {}", part.name));
                }
                Err(error) => part.end(ground, Some(error))?,
            }
        }
        Ok(())
    }

    /// What becomes of the clients of the load.
    pub(crate) fn demand(&self) -> Demand {
        let demands = || self.parts.iter().map(|part| part.play.demand());
        [Demand::CutOff, Demand::Rest]
            .into_iter()
            .find(|demand| demands().any(|one| one == *demand))
            .unwrap_or_default()
    }

    /// The server has died: the second of the epoch from which on it is up again, where one of them sees to that. That it does not
    /// come is told.
    pub(crate) fn revive(&mut self, ground: &Ground<'_>) -> anyhow::Result<Option<f64>> {
        for part in self.parts.iter_mut().filter(|part| part.state == State::Runs) {
            match part.play.revive(ground) {
                Ok(false) => {}
                Ok(true) => return Ok(Some(now())),
                Err(error) => part.end(ground, Some(error))?,
            }
        }
        Ok(None)
    }

    /// Ends all of them: the run is over. Those that go on by their nature have no end of their own to be told.
    pub(crate) fn end(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        let mut first_error = None;
        for part in &mut self.parts {
            if part.state != State::Over
                && let Err(error) = part.end(ground, None)
            {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// What is to be told of them, once they have ended.
    pub(crate) fn told(&self) -> Vec<Told> {
        self.parts.iter().map(|part| part.told.clone()).collect()
    }

    fn waiting(&mut self) -> impl Iterator<Item = &mut Part> {
        self.parts.iter_mut().filter(|part| part.state == State::Waits)
    }
}

impl Part {
    fn new(scheduled: &Scheduled, options: &Options, contestant: &Contestant) -> Self {
        let trouble = scheduled.trouble;
        let undisturbed =
            (trouble.needs.contains(&Need::Module) && !contestant.module).then(|| "it has no module".to_string());
        Self {
            name: trouble.name,
            second: scheduled.second(options.seconds),
            play: (trouble.make)(),
            state: match undisturbed {
                Some(_) => State::Over,
                None => State::Waits,
            },
            told: Told { name: trouble.name.to_string(), undisturbed, ..Told::default() },
        }
    }

    /// An interrupt is none of its failures.
    fn end(&mut self, ground: &Ground<'_>, error: Option<anyhow::Error>) -> anyhow::Result<()> {
        let has_begun = self.state == State::Runs;
        self.state = State::Over;
        let ended = self.play.end(ground);
        let Some(error) = error.or(ended.err()) else {
            if has_begun {
                self.told.done = self.play.done();
            } else {
                self.told.failure = Some("the run was over before its second".to_string());
            }
            return Ok(());
        };
        if matches!(error.downcast_ref(), Some(Failure::Interrupted(_))) {
            return Err(error);
        }
        let failure = format!("{error:#}");
        ground.stage.progress.note(&format!("trouble: {} failed: {failure}", self.name));
        self.told.failure = Some(failure);
        Ok(())
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
