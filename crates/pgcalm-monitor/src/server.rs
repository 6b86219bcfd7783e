//! Asks a server for all that the model has of it.

mod activity;
mod archive;
mod checkpoint;
mod counters;
mod facts;
mod guard;
mod module;
mod replication;
mod session;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pgcalm_host::HostRoot;
use pgcalm_lag::History;
use pgcalm_postgres::{Address, ConnectError, is_timed_out, with_cause};
use postgres::Error;

use crate::model::{Counters, Instance, Module, Reachability, Stop, Subject, WaitCause};
use crate::rates;
use crate::server::activity::WaitTime;
use crate::server::archive::Queue;
use crate::server::checkpoint::{Control, Follower};
use crate::server::session::{Columns, Session};

pub(crate) use crate::server::counters::Gone;
pub(crate) use crate::server::facts::Facts;

/// Settings and the presence of the module are looked at again after this time.
const FACTS_INTERVAL: Duration = Duration::from_secs(10);

/// pg_buffercache looks at all buffers, some ten milliseconds of a processor for 16 GB of them.
const DIRTY_INTERVAL: Duration = Duration::from_secs(10);

/// What is remembered from sample to sample, over connections.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    follower: Follower,
    control: Control,
    queue: Queue,
    wait_time: WaitTime,
    gone: Gone,
    /// Of standbys; `None` until there was one.
    lag: Option<History>,
    before: Option<Before>,
    /// Dirty shared buffers, where pg_buffercache counts them, and when it did.
    dirty: Option<(Instant, Option<u64>)>,
    /// Sessions that were given up since the last sample.
    given_up: u32,
}

#[derive(Debug)]
struct Before {
    when: Instant,
    counters: Counters,
    module: Option<Module>,
}

/// A connection, and what changes rarely.
pub(crate) struct Server {
    session: Session,
    facts: Facts,
    facts_when: Instant,
}

/// Why a server can't be watched. Which one is said where this is shown.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Unwatched {
    pub reason: String,
    /// Whether it said nothing in time.
    pub timed_out: bool,
    /// Whether it takes no session of anybody.
    pub closed: bool,
    /// Whether it answers, and only does not let this role in.
    pub denied: bool,
}

impl From<ConnectError> for Unwatched {
    fn from(error: ConnectError) -> Self {
        let (timed_out, closed, denied) = match error {
            ConnectError::Refused { timed_out, closed, denied, .. } => (timed_out, closed, denied),
            _ => (false, false, false),
        };
        Self { reason: error.reason().to_string(), timed_out, closed, denied }
    }
}

impl From<Error> for Unwatched {
    fn from(error: Error) -> Self {
        Self { reason: with_cause(&error), timed_out: is_timed_out(&error), closed: false, denied: false }
    }
}

impl Server {
    /// Connects. `root` is this host, which may be the server's: then its kernel is asked for the walsenders' connections.
    pub(crate) fn open(address: &Address, root: &HostRoot, memory: &Memory) -> Result<Self, Unwatched> {
        let mut session = Session::open(address, root)?;
        session.wait_at_most(memory.patience());
        let facts = facts::ask(&mut session)?;
        Ok(Self { session, facts, facts_when: Instant::now() })
    }

    /// What is known of the server besides the samples.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Takes a sample: one transaction. Identity, volumes and reachability are left to whoever knows the host.
    pub(crate) fn sample(&mut self, memory: &mut Memory) -> Result<Instance, Unwatched> {
        let began = Instant::now();
        self.session.begin()?;
        if self.facts_when.elapsed() >= FACTS_INTERVAL {
            self.facts = facts::ask(&mut self.session)?;
            self.facts_when = began;
        }
        let mut instance = self.ask(memory)?;
        instance.missing = self.session.end()?;
        memory.given_up = 0;
        self.session.wait_at_most(memory.patience());
        instance.reachability = Reachability::Reachable;
        instance.sample_seconds = Some(began.elapsed().as_secs_f64());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        instance.sampled_ms = Some(now.as_millis() as u64);
        instance.uptime_seconds = Some((now.as_secs_f64() - self.facts.started).max(0.0));
        Ok(instance)
    }

    fn ask(&mut self, memory: &mut Memory) -> Result<Instance, Error> {
        let Self { session, facts, .. } = self;
        let mut instance = Instance::default();
        let Some(mut core) =
            session.part("counters", Subject::Activity, |session| counters::ask(session, facts.version))?
        else {
            return Ok(instance);
        };
        let now = Instant::now();
        instance.role = Some(core.role);
        let counters = instance.counters.insert(core.counters);
        memory.gone.add_to(counters);

        let look = session.part("sessions", Subject::Activity, |session| activity::ask(session, facts))?;
        if !facts.sees_all_sessions {
            session.lacks(
                Subject::Activity,
                "states and waits of other users' sessions are hidden from this user".to_string(),
                Some("connect as a member of pg_monitor"),
            );
        }
        let checkpointer = look.as_ref().and_then(|look| look.checkpointer.as_ref());
        memory.control.add_to(&mut core, session, checkpointer)?;

        match module::schema(facts) {
            Ok(schema) => {
                if let Some(Some(status)) = session
                    .part("pg_calm_status", Subject::Module, |session| module::ask_status(session, schema, facts))?
                {
                    instance.module = Some(status.module);
                    instance.unflushed = Some(status.unflushed);
                    memory.dirty = Some((now, Some(status.dirty_buffers)));
                }
                instance.checkpoint = session.part("pg_calm_checkpoints", Subject::Checkpoint, |session| {
                    let follower = &mut memory.follower;
                    checkpoint::ask_module(session, schema, facts, &core, checkpointer, follower)
                })?;
            }
            Err((reason, remedy)) => {
                session.lacks(Subject::Module, reason.to_string(), Some(remedy));
            }
        }
        if instance.checkpoint.is_none() {
            instance.checkpoint = memory.follower.look(facts, &core, checkpointer);
        }
        if instance.checkpoint.is_none() {
            session.lacks(
                Subject::Checkpoint,
                "the checkpointer's wait event is hidden from this user".to_string(),
                Some("connect as a member of pg_monitor"),
            );
        }
        if let Some(schema) = &facts.buffercache_schema
            && memory.dirty.is_none_or(|(when, _)| when.elapsed() >= DIRTY_INTERVAL)
        {
            let sql = format!("SELECT buffers_dirty::int8 AS dirty FROM {schema}.pg_buffercache_summary()");
            let row = session.part("pg_buffercache", Subject::Activity, |session| session.row(&sql))?;
            memory.dirty = Some((now, row.flatten().map(|row| row.count("dirty")).transpose()?.flatten()));
        }
        instance.stop = Some(Stop {
            dirty_buffers: memory.dirty.and_then(|(_, dirty)| dirty),
            shared_buffers: facts.shared_buffers,
            page_bytes: facts.block_bytes,
            ..Stop::default()
        });
        if let Some(schema) = &facts.guard_schema {
            instance.guard = session.part("pg_calm_guard", Subject::Module, |session| guard::ask(session, schema))?;
            if let Some(guard) = &mut instance.guard {
                guard.mode = facts.guard_mode.clone();
            }
        }
        if let Some(schema) = &facts.share_schema {
            instance.share = session
                .part("pg_calm_share", Subject::Module, |session| module::ask_share(session, schema))?
                .unwrap_or_default();
        }
        if let Some(schema) = &facts.archive_schema {
            instance.archive = session.part("pg_calm_archive", Subject::ArchiveQueue, |session| {
                archive::ask_module(session, schema, facts, core.role)
            })?;
        }
        if instance.archive.is_none() {
            instance.archive = session
                .part("archiver", Subject::ArchiveQueue, |session| memory.queue.ask(session, facts, core.role))?;
        }
        if let (Some(archive), Some(guard)) = (&mut instance.archive, &instance.guard) {
            archive.time_to_full_seconds = guard.seconds_to_full;
        }
        instance.replication = session.part("replication", Subject::Replication, |session| {
            let history = &mut memory.lag;
            replication::ask(session, facts, core.role, history, !checkpoint::holds_control_file(checkpointer))
        })?;

        let elapsed = memory.before.as_ref().map(|before| now.duration_since(before.when));
        if let Some(mut look) = look {
            let holds = instance.guard.as_ref().map_or(0, |guard| guard.holds.len() as u64);
            activity::name_holds(&mut look.activity, holds);
            memory.wait_time.add(&mut look.activity, elapsed.unwrap_or_default());
            instance.activity = Some(look.activity);
        }
        if let Some(activity) = &mut instance.activity
            && activity.sessions_by_cause().get(&WaitCause::Lock).is_some_and(|sessions| *sessions >= 2)
        {
            activity.blocked = session.part("blocked", Subject::Activity, activity::ask_blocked)?.unwrap_or_default();
        }
        instance.maintenance =
            session.part("maintenance", Subject::Activity, activity::ask_maintenance)?.unwrap_or_default();
        if let (Some(before), Some(elapsed)) = (&memory.before, elapsed) {
            instance.rates = rates::of_server(&before.counters, &core.counters, elapsed);
            if let (Some(old), Some(new)) = (&before.module, &mut instance.module) {
                new.rates = rates::of_module(old, new, elapsed);
            }
        }
        memory.before = Some(Before { when: now, counters: core.counters, module: instance.module.clone() });
        Ok(instance)
    }
}

impl Memory {
    /// Of a server that was watched before it was restarted.
    pub(crate) fn after(gone: Gone) -> Self {
        Self { gone, ..Self::default() }
    }

    /// What whoever watches it next is to know.
    pub(crate) fn gone(&self) -> Gone {
        self.gone
    }

    /// Forgets what is no longer the moment before, as after a time in which the server did not answer.
    /// `given_up`: it said nothing in time.
    pub(crate) fn interrupt(&mut self, given_up: bool) {
        self.before = None;
        self.dirty = None;
        self.follower = Follower::default();
        self.given_up += u32::from(given_up);
    }

    /// How long a session may take to answer. What hangs in the kernel or waits for a lock within the server stays there after it was
    /// given up, and takes the place of one of its users: each waits twice as long as that before. Its answer comes no later for that.
    pub(crate) fn patience(&self) -> Duration {
        pgcalm_postgres::Session::WATCH.patience() * (1u32 << self.given_up.min(8))
    }
}
