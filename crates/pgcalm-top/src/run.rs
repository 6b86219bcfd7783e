//! The loop around the pictures: samples and keys come in, pictures go out.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use chrono::{FixedOffset, Local, Offset, TimeZone};
use pgcalm_host::Failure;
use pgcalm_monitor::model::{Host, Instance, Reachability};
use pgcalm_monitor::{History, Monitor};
use ratatui::crossterm::event;
use ratatui::crossterm::event::Event;

use crate::palette::Palette;
use crate::scene::{Scene, names};
use crate::state::{Command, Moment, State, Then};
use crate::terminal::Screen;
use crate::track::Track;
use crate::{format, keys, once, screen, terminal, track};

/// How soon a signal or a new sample is noticed.
const LOOK: Duration = Duration::from_millis(100);

/// Without a key or a sample a new picture comes this often: it tells how old it is.
const REDRAW: Duration = Duration::from_secs(1);

/// How long one picture waits for all servers, besides two samples: a connection that does not come about takes 5 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is shown.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the monitor watches.
    pub monitor: pgcalm_monitor::Options,
    /// The instance that is chosen first: name in the list, port, process id or data directory.
    pub instance: Option<String>,
    /// A record to be looked at instead of what is going on.
    pub record: Option<Arc<Record>>,
}

/// Samples that were recorded.
#[derive(Debug)]
pub struct Record {
    /// All of them.
    pub samples: History,
    /// The moment that is shown first, in milliseconds since 1970; the last one if there is none.
    pub at_ms: Option<u64>,
    /// The time from one sample to the next where they are fewest.
    pub interval: Duration,
}

/// Where pictures come from.
enum Source {
    Live(Monitor),
    Recorded(Arc<Record>),
}

impl Source {
    fn latest(&self) -> Arc<Host> {
        match self {
            Self::Live(monitor) => monitor.latest(),
            Self::Recorded(record) => Arc::new(record.samples.at(u64::MAX).unwrap_or_default()),
        }
    }

    fn history(&self) -> &History {
        match self {
            Self::Live(monitor) => monitor.history(),
            Self::Recorded(record) => &record.samples,
        }
    }

    /// Waits for a sample that is not of this time.
    fn wait(&self, time: Duration, last_ms: u64) {
        match self {
            Self::Live(monitor) => drop(monitor.wait_for(time, |host| host.time_ms != last_ms)),
            Self::Recorded(_) => std::thread::sleep(time),
        }
    }
}

/// Shows pictures until the user quits.
///
/// # Errors
///
/// [`Failure::Usage`] if there is no terminal, [`Failure`] if not that instance, [`Failure::Interrupted`] when `stop` says that a
/// signal has come.
pub fn live(options: Options, stop: &dyn Fn() -> bool) -> anyhow::Result<()> {
    if !terminal::is_there() {
        anyhow::bail!(Failure::Usage(
            "top: standard input and output are not a terminal; --once prints one picture as text".to_string(),
        ));
    }
    let mut session = Session::start(options)?;
    let mut screen = Screen::enter()?;
    // After a key there may be another that was read with it: then nothing is there to wait for.
    let mut wait = LOOK;
    loop {
        session.look();
        let now = Instant::now();
        screen.draw(|frame| session.show(|scene| screen::draw(frame, scene)))?;
        // Until there is something new to show.
        loop {
            if stop() {
                return Err(Failure::Interrupted("the terminal is as it was").into());
            }
            if terminal::is_gone_after(std::mem::replace(&mut wait, LOOK))? {
                return Err(Failure::Interrupted("the terminal is as it was").into());
            }
            if event::poll(Duration::ZERO).context("read keys")? {
                wait = Duration::ZERO;
                match event::read().context("read keys")? {
                    Event::Key(key) => {
                        let Some(command) = keys::command(key) else { continue };
                        match session.apply(command) {
                            Then::Draw => {}
                            Then::Redraw => screen.clear()?,
                            Then::Suspend => screen.suspend()?,
                            Then::Quit => return Ok(()),
                        }
                        break;
                    }
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
            if session.has_news() || now.elapsed() >= REDRAW {
                break;
            }
        }
    }
}

/// One picture as text.
pub struct Once {
    /// The picture.
    pub text: String,
    /// Why there is less in it than was asked for: no server, or one that was named and does not answer.
    pub unanswered: Option<Failure>,
}

/// One picture as text, `width` columns wide, of the first moment at which there are rates, or why there can't be any.
///
/// # Errors
///
/// As [`live`], except that no terminal is needed.
pub fn once(options: Options, width: usize, stop: &dyn Fn() -> bool) -> anyhow::Result<Once> {
    let option = if options.monitor.connect.is_empty() { "--instance" } else { "--connect" };
    let end = Instant::now() + PATIENCE + 2 * options.monitor.interval;
    let mut session = Session::start(options)?;
    session.look();
    while session.is_live() && !is_complete(&session.latest) && Instant::now() < end {
        if stop() {
            return Err(Failure::Interrupted("the terminal is as it was").into());
        }
        let last = session.latest.time_ms;
        session.source.wait(LOOK, last);
        session.look();
    }
    if let (false, Some(name)) = (session.is_live(), &session.state.instance)
        && !names(session.host()).contains(name)
    {
        let shown = format::date_and_time(track::seconds(session.host()), session.offset());
        anyhow::bail!(Failure::Unreachable(format!("--instance {name}: was not there at {shown}")));
    }
    let mut text = String::new();
    session.show(|scene| text = once::text(scene, width));
    let unanswered =
        session.is_live().then(|| unanswered(&session.latest, option, session.state.instance.as_deref())).flatten();
    Ok(Once { text, unanswered })
}

/// All servers that were named are meant by `--connect`, the one of this name by `--instance`.
fn unanswered(host: &Host, option: &str, chosen: Option<&str>) -> Option<Failure> {
    if host.instances.is_empty() {
        return Some(Failure::Unreachable(
            "no server was found on this host; --connect names one elsewhere".to_string(),
        ));
    }
    let silent: Vec<&str> = host
        .instances
        .iter()
        .filter(|instance| instance.reachability != Reachability::Reachable)
        .map(|instance| instance.identity.name.as_str())
        .filter(|name| option == "--connect" || chosen == Some(*name))
        .collect();
    (!silent.is_empty())
        .then(|| Failure::Unreachable(format!("{option}: no answer from {}; the picture says why", silent.join(", "))))
}

/// Whether each server has answered twice, so that there are rates, or is known not to answer.
fn is_complete(host: &Host) -> bool {
    let servers = host.instances.iter().all(|instance| match instance.reachability {
        Reachability::Reachable => instance.rates.is_some(),
        Reachability::Connecting => false,
        Reachability::Unreachable { .. } | Reachability::Hung { .. } => true,
    });
    servers && host.devices.iter().all(|device| device.rates.is_some())
}

/// What has been seen so far, and what the user has chosen.
struct Session {
    source: Source,
    interval: f64,
    track: Track,
    latest: Arc<Host>,
    /// The sample of the moment that was travelled to.
    past: Option<(f64, Host)>,
    state: State,
    palette: Palette,
}

impl Session {
    fn start(options: Options) -> anyhow::Result<Self> {
        let mut interval = options.monitor.interval.as_secs_f64();
        let mut track = Track::default();
        let mut moment = Moment::default();
        let source = match options.record {
            Some(record) => {
                interval = interval.max(record.interval.as_secs_f64());
                record.samples.each(|host| track.push(host));
                // Nothing of a record is live, its end neither: no key makes it so.
                let shown = record.at_ms.map(|at| at as f64 / 1000.0).or(track.moments().last().copied());
                moment = shown.map_or(Moment::Live, Moment::At);
                Source::Recorded(record)
            }
            None => Source::Live(Monitor::start(options.monitor)?),
        };
        let latest = source.latest();
        let mut session = Self {
            source,
            interval,
            track,
            latest,
            past: None,
            state: State { moment, ..State::default() },
            palette: Palette::from_environment(),
        };
        if let Some(wanted) = options.instance {
            session.look();
            session.state.instance = Some(session.find(&wanted)?);
        }
        Ok(session)
    }

    /// The name of the instance that is meant: in a record it may have been there at other moments only.
    fn find(&self, wanted: &str) -> Result<String, Failure> {
        let shown = find(self.host(), wanted);
        match &self.source {
            Source::Recorded(record) if shown.is_err() => {
                let mut found = None;
                record.samples.each(|host| found = find(host, wanted).ok().or(found.take()));
                found.map_or(shown, Ok)
            }
            _ => shown,
        }
    }

    fn is_live(&self) -> bool {
        matches!(self.source, Source::Live(_))
    }

    /// Whether there is a sample that was not looked at yet.
    fn has_news(&self) -> bool {
        self.is_live() && self.source.latest().time_ms != self.latest.time_ms
    }

    /// Takes the latest sample, and that of the moment that is shown.
    fn look(&mut self) {
        if self.is_live() {
            self.latest = self.source.latest();
            self.track.push(&self.latest);
        }
        let Moment::At(_) = self.state.moment else {
            self.past = None;
            return;
        };
        let moments = self.moments();
        let Some(moment) = self.state.shown(&moments).map(|at| moments[at]) else { return };
        if self.past.as_ref().is_none_or(|(at, _)| *at != moment) {
            let time_ms = (moment * 1000.0).round() as u64;
            self.past = self.source.history().at(time_ms).map(|host| (moment, host));
        }
    }

    fn apply(&mut self, command: Command) -> Then {
        let instances = names(self.host());
        let moments = self.moments();
        let then = self.state.apply(command, &instances, &moments);
        if let (false, Moment::Live, Some(last)) = (self.is_live(), self.state.moment, moments.last()) {
            self.state.moment = Moment::At(*last);
        }
        then
    }

    fn show(&self, draw: impl FnOnce(&Scene)) {
        draw(&Scene {
            host: Some(self.host()),
            track: &self.track,
            state: &self.state,
            palette: self.palette,
            offset: self.offset(),
            interval: self.interval,
            now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
        });
    }

    /// Those that can be travelled to.
    fn moments(&self) -> Vec<f64> {
        with_samples(self.track.moments(), self.source.history())
    }

    /// Of the time zone: now, not at the moment shown, as nothing would tell apart the hours in which the clocks change. A record
    /// was asked for by its own time of day.
    fn offset(&self) -> FixedOffset {
        let then = Local.timestamp_millis_opt(self.host().time_ms as i64).single();
        then.filter(|_| !self.is_live()).unwrap_or_else(Local::now).offset().fix()
    }

    fn host(&self) -> &Host {
        match &self.past {
            Some((_, host)) => host,
            None => &self.latest,
        }
    }
}

/// Those that history still has samples of: it forgets them by their memory, curves go on.
fn with_samples(mut moments: Vec<f64>, history: &History) -> Vec<f64> {
    if let Some((first, _)) = history.range() {
        moments.retain(|moment| *moment >= first as f64 / 1000.0);
    }
    moments
}

/// The name of the instance that is meant.
fn find(host: &Host, wanted: &str) -> Result<String, Failure> {
    let is_meant = |instance: &&Instance| {
        let identity = &instance.identity;
        identity.name == wanted
            || identity.port.is_some_and(|port| port.to_string() == wanted)
            || identity.pid.is_some_and(|pid| pid.to_string() == wanted)
            || identity.data_directory.as_deref().is_some_and(|directory| directory == wanted.trim_end_matches('/'))
    };
    match host.instances.iter().find(is_meant) {
        Some(instance) => Ok(instance.identity.name.clone()),
        None if host.hidden_processes > 0 => Err(Failure::Host(format!(
            "--instance {wanted}: no such server among those that this user may look at: run it as root"
        ))),
        None => Err(Failure::Unreachable(format!(
            "--instance {wanted}: no such server; there is {}",
            match names(host) {
                names if names.is_empty() => "no instance on this host".to_string(),
                names => names.join(", "),
            }
        ))),
    }
}

#[cfg(test)]
mod tests;
