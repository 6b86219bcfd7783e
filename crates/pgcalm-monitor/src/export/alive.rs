//! `GET /alive`: what a probe may ask before it kills a server that is only busy.
//!
//! A server is gone when its process has ended and nobody listens at its address. Whatever else is wrong with it, a restart makes
//! longer: one that stalls has to recover then, and one that recovers begins anew.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgcalm_host::HostRoot;
use pgcalm_host::process::Process;
use pgcalm_postgres::Ping;
use serde::{Deserialize, Serialize};

use crate::Monitor;
use crate::model::{Host, Instance, Reachability};
use crate::monitor::Way;

/// Less than the second that Kubernetes gives a probe.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tells what holds users of instances now; gets each sample once.
pub type Judge = dyn Fn(&Host) -> Vec<Stall> + Send + Sync;

/// A judge, for whoever shows what it says.
#[derive(Clone)]
pub struct StallSource(pub Arc<Judge>);

impl fmt::Debug for StallSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StallSource")
    }
}

/// What holds users of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Its name.
    pub server: String,
    /// Since when: milliseconds since 1970.
    pub started_ms: u64,
    /// The verdict's name.
    pub cause: String,
    /// That in a sentence.
    pub sentence: String,
}

/// Whether servers are alive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Alive {
    /// Whether any of them is, or may be, as while it is not known which there are; the status is 200 then, and 503 otherwise.
    pub alive: bool,
    /// Those of the exporter, or the one that `?server=NAME` asks for; empty if there is none.
    pub servers: Vec<Life>,
}

/// How it is with a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Life {
    /// Its name, as the label `server` of metrics has it.
    pub server: String,
    /// In a word.
    pub state: LifeState,
    /// How long it has been busy or rejecting; null if that is not known.
    pub since_seconds: Option<f64>,
    /// What holds its users, as incidents of `pgcalm record` name it; null if nothing does, or it can't be told.
    pub cause: Option<String>,
    /// Why it is as it is, in a sentence; null while it is up.
    pub reason: Option<String>,
    /// What recovery takes from now on, at least; null unless it goes on and the WAL for it was seen before.
    pub recovery_least_seconds: Option<f64>,
    /// What recovery takes from now on, at most; null likewise.
    pub recovery_most_seconds: Option<f64>,
}

/// Whether a server is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LifeState {
    /// It answers.
    Up,
    /// It is alive, and its users are held.
    Busy,
    /// It is alive, and starts, recovers or stops.
    Rejecting,
    /// It can't be reached, which says nothing of the server.
    Unknown,
    /// Its process has ended.
    Gone,
}

impl Alive {
    /// `blind`: it is not known which servers run. One that is gone may have been started anew then, and one that is not among them may
    /// run.
    fn of(mut servers: Vec<Life>, blind: bool) -> Self {
        for life in servers.iter_mut().filter(|life| blind && life.state == LifeState::Gone) {
            life.state = LifeState::Unknown;
        }
        Self { alive: blind || servers.iter().any(|life| life.state != LifeState::Gone), servers }
    }
}

impl fmt::Display for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.servers.is_empty() {
            let none = "no such server runs here\n";
            return f.write_str(if self.alive { "unknown: the look for servers takes long\n" } else { none });
        }
        self.servers.iter().try_for_each(|life| writeln!(f, "{life}"))
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            LifeState::Up => "alive",
            LifeState::Busy => "busy, alive",
            LifeState::Rejecting => "alive, takes no sessions yet",
            LifeState::Unknown => "unknown",
            LifeState::Gone => "gone",
        };
        write!(f, "{}: {state}", self.server)?;
        if let Some(seconds) = self.since_seconds {
            write!(f, ", since {seconds:.0} s")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, ", because: {}", reason.trim_end_matches('.'))?;
        }
        if let (Some(least), Some(most)) = (self.recovery_least_seconds, self.recovery_most_seconds) {
            write!(f, ", {least:.0} to {most:.0} s left")?;
        }
        Ok(())
    }
}

/// What is remembered of the samples.
#[derive(Debug)]
pub struct Lives {
    monitor: Arc<Monitor>,
    stalls: Option<StallSource>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    time_ms: u64,
    stalls: Vec<Stall>,
    answered: HashMap<String, Answered>,
}

/// The last answer of a server.
#[derive(Debug, Clone, Copy)]
struct Answered {
    time_ms: u64,
    /// What recovery would have taken then.
    recovery: Option<[f64; 2]>,
}

impl Lives {
    /// Of what the monitor sees.
    pub fn new(monitor: Arc<Monitor>, stalls: Option<StallSource>) -> Self {
        Self { monitor, stalls, seen: Mutex::default() }
    }

    /// The monitor.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Takes the latest sample, if it is new. To be called more often than samples come.
    pub fn look(&self) {
        let host = self.monitor.latest();
        let mut seen = self.lock();
        if seen.time_ms == host.time_ms {
            return;
        }
        seen.time_ms = host.time_ms;
        for instance in &host.instances {
            let Some(time_ms) = instance.sampled_ms else { continue };
            let stop = instance.stop.as_ref();
            let recovery = stop.and_then(|stop| Some([stop.recovery_least_seconds?, stop.recovery_most_seconds?]));
            seen.answered.insert(instance.identity.name.clone(), Answered { time_ms, recovery });
        }
        if let Some(StallSource(judge)) = &self.stalls {
            seen.stalls = judge(&host);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Each change is an assignment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all servers, or that of this name, side by side.
    pub async fn ask(self: &Arc<Self>, server: Option<&str>) -> Alive {
        let (host, ways, blind) = self.monitor.latest_with_ways();
        let mut asked = Vec::new();
        for instance in &host.instances {
            if server.is_some_and(|name| name != instance.identity.name) {
                continue;
            }
            let way = ways.iter().find(|way| way.name == instance.identity.name).cloned();
            let (ours, instance) = (Arc::clone(self), instance.clone());
            asked.push(tokio::spawn(async move { ours.life(&instance, way).await }));
        }
        let mut servers = Vec::new();
        for life in asked {
            servers.extend(life.await);
        }
        Alive::of(servers, blind)
    }

    async fn life(&self, instance: &Instance, way: Option<Way>) -> Life {
        let process = way.as_ref().and_then(|way| way.postmaster).map(|(pid, start_ticks)| {
            let process = Process::read(&HostRoot::default(), pid);
            process.is_ok_and(|process| process.start_ticks == start_ticks && !process.is_zombie())
        });
        if process == Some(true) && instance.reachability.is_reachable() {
            return self.up(instance);
        }
        let ping = match way.and_then(|way| way.address) {
            Some(address) => address.ping(PATIENCE).await,
            None => Ping::Nobody("it listens nowhere".to_string()),
        };
        let of = |state, reason: String| Life { state, reason: Some(reason), ..self.up(instance) };
        match (ping, process) {
            (Ping::Answers, _) | (Ping::Unknown(_), Some(true)) => self.up(instance),
            (Ping::Silent, _) => match self.up(instance) {
                Life { state: LifeState::Up, .. } => of(LifeState::Busy, "it does not answer".to_string()),
                busy => busy,
            },
            (Ping::Rejects(words), _) => self.rejecting(instance, words),
            (Ping::Nobody(_), Some(true)) => self.rejecting(instance, "it does not listen".to_string()),
            (Ping::Nobody(why) | Ping::Unknown(why), Some(false)) | (Ping::Nobody(why), None) => {
                Life { since_seconds: None, cause: None, ..of(LifeState::Gone, why) }
            }
            (Ping::Unknown(why), None) => of(LifeState::Unknown, why),
        }
    }

    /// One that is there: up, unless its users are held.
    fn up(&self, instance: &Instance) -> Life {
        let name = &instance.identity.name;
        let mut life = Life {
            server: name.clone(),
            state: LifeState::Up,
            since_seconds: None,
            cause: None,
            reason: None,
            recovery_least_seconds: None,
            recovery_most_seconds: None,
        };
        if let Some(stall) = self.lock().stalls.iter().find(|stall| stall.server == *name) {
            life.state = LifeState::Busy;
            life.since_seconds = Some(since(stall.started_ms));
            life.cause = Some(stall.cause.clone());
            life.reason = Some(stall.sentence.clone());
        } else if let Reachability::Hung { seconds } = instance.reachability {
            life.state = LifeState::Busy;
            life.since_seconds = Some(seconds);
            life.reason = Some("it does not answer".to_string());
        }
        life
    }

    fn rejecting(&self, instance: &Instance, words: String) -> Life {
        let name = instance.identity.name.clone();
        let answered = self.lock().answered.get(&name).copied();
        let seconds = answered.map(|answered| since(answered.time_ms));
        // A stop is no recovery, as far as this server's language tells.
        let recovery = answered.and_then(|answered| answered.recovery).filter(|_| !words.contains("shutting down"));
        let left = |index: usize| Some((recovery?[index] - seconds?).max(0.0));
        Life {
            server: name,
            state: LifeState::Rejecting,
            since_seconds: seconds,
            cause: None,
            reason: Some(words),
            recovery_least_seconds: left(0),
            recovery_most_seconds: left(1),
        }
    }
}

fn since(time_ms: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs_f64() - time_ms as f64 / 1000.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use pgcalm_host::fake::FakeHost;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::Options;

    #[test]
    fn no_server_is_told_to_be_gone_while_the_first_look_hangs() {
        let root = FakeHost::default();
        root.make("proc/70");
        // Opening it waits for a writer, as a file on a volume that hangs would.
        let stat = root.path("proc/70/stat");
        mknodat(CWD, &stat, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let options = Options { root: (*root).clone(), history: None, ..Options::default() };
        let lives = Arc::new(Lives::new(Arc::new(Monitor::start(options).unwrap()), None));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for server in [None, Some("5432")] {
            let alive = runtime.block_on(lives.ask(server));
            assert!(alive.alive && alive.servers.is_empty(), "{alive}");
        }
        std::fs::write(stat, "").unwrap();
    }

    #[test]
    fn the_line_says_since_when_and_why() {
        let life = Life {
            server: "5432".to_string(),
            state: LifeState::Busy,
            since_seconds: Some(12.3),
            cause: Some("volume_hung".to_string()),
            reason: Some("The volume did nothing.".to_string()),
            recovery_least_seconds: None,
            recovery_most_seconds: None,
        };
        let recovers = Life {
            state: LifeState::Rejecting,
            reason: Some("the database system is starting up".to_string()),
            recovery_least_seconds: Some(2.0),
            recovery_most_seconds: Some(40.0),
            ..life.clone()
        };
        let alive = Alive { alive: true, servers: vec![life, recovers] };
        assert_eq!(
            alive.to_string(),
            "5432: busy, alive, since 12 s, because: The volume did nothing\n\
             5432: alive, takes no sessions yet, since 12 s, because: the database system is starting up, 2 to 40 s left\n"
        );
        assert_eq!(Alive { alive: false, servers: Vec::new() }.to_string(), "no such server runs here\n");
    }

    /// A probe must not kill a server because nobody can tell how it is.
    #[test]
    fn all_but_what_has_ended_is_alive() {
        let alive = |states: &[LifeState]| {
            let life = |state: &LifeState| Life {
                server: "5432".to_string(),
                state: *state,
                since_seconds: None,
                cause: None,
                reason: None,
                recovery_least_seconds: None,
                recovery_most_seconds: None,
            };
            let of = |blind| Alive::of(states.iter().map(life).collect(), blind);
            let seen = of(true);
            assert!(seen.alive && seen.servers.iter().all(|life| life.state != LifeState::Gone), "{seen:?}");
            assert!(!seen.to_string().contains("no such server"), "{seen}");
            of(false).alive
        };
        for state in [LifeState::Up, LifeState::Busy, LifeState::Rejecting, LifeState::Unknown] {
            assert!(alive(&[state]), "{state:?}");
        }
        assert!(!alive(&[LifeState::Gone]));
        assert!(alive(&[LifeState::Gone, LifeState::Unknown]));
        assert!(!alive(&[]));
    }

    #[test]
    fn schema_file_matches_the_model_and_describes_every_field() {
        let documents: [pgcalm_testkit::schema::Document; 1] = [("alive", schemars::schema_for!(Alive).to_value())];
        pgcalm_testkit::schema::files_match(env!("CARGO_PKG_NAME"), &documents);
        pgcalm_testkit::schema::every_field_is_described(&documents);
    }
}
