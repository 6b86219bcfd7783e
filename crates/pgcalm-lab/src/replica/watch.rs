//! One sample a second of both servers, the link and the WAL devices, in a thread of its own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::stop::Stop;
use pgcalm_host::{HostRoot, network};
use pgcalm_lag::model as lag;
use pgcalm_lag::{History, Host, Lsn};
use pgcalm_postgres::Client;
use postgres::types::PgLsn;

use crate::background::{Background, sleep_until};
use crate::connection::connect;
use crate::network::INTERFACE;
use crate::replica::report::{Lag, Sample};
use crate::replica::{STANDBY, replication_log};

const INTERVAL: Duration = Duration::from_secs(1);

/// What is watched.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub root: HostRoot,
    /// The primary's network namespace: only from within it the kernel tells of its connections.
    pub namespace: PathBuf,
    /// Process id of the primary's postmaster.
    pub primary_pid: i32,
    /// Directory of its socket.
    pub primary_socket: PathBuf,
    pub standby_socket: PathBuf,
    pub standby_log: PathBuf,
    pub primary_wal: String,
    pub standby_wal: String,
}

/// A running watch.
#[derive(Debug)]
pub(super) struct Watch {
    load_is_over: Stop,
    thread: Background<anyhow::Result<Vec<Sample>>>,
}

impl Watch {
    /// Starts it; samples are timed from now on, and the load is taken to be at work.
    pub(super) fn start(watched: Watched) -> Self {
        let load_is_over = Stop::default();
        let over = load_is_over.clone();
        let thread = Background::start(move |stop| {
            crate::network::enter(&watched.namespace)?;
            Watcher::new(watched)?.run(stop, &over)
        });
        Self { load_is_over, thread }
    }

    /// From the next sample on the load is over.
    pub(super) fn load_has_ended(&self) {
        self.load_is_over.set();
    }

    /// Ends it after one more sample.
    pub(super) fn finish(self) -> anyhow::Result<Vec<Sample>> {
        self.thread.finish().context("the thread that watched the servers panicked")?.context("watch the servers")
    }
}

/// Counters, of which samples show the rates.
#[derive(Debug, Clone, Copy)]
struct Counters {
    at: Instant,
    link_bytes: Option<u64>,
    primary_wal: DeviceStat,
    standby_wal: DeviceStat,
}

struct Watcher {
    watched: Watched,
    primary: Client,
    standby: Client,
    history: History,
    host: Host,
    /// Times and flush positions of the primary, by which WAL has an age.
    flushed: Vec<(f64, Lsn)>,
    restored: u32,
    before: Option<Counters>,
}

impl Watcher {
    fn new(watched: Watched) -> anyhow::Result<Self> {
        Ok(Self {
            primary: connect(&watched.primary_socket)?,
            standby: connect(&watched.standby_socket)?,
            host: Host::new(watched.root.clone()),
            history: History::default(),
            flushed: Vec::new(),
            restored: 0,
            before: None,
            watched,
        })
    }

    fn run(mut self, stop: &Stop, load_is_over: &Stop) -> anyhow::Result<Vec<Sample>> {
        let started = Instant::now();
        let mut samples = Vec::new();
        for number in 0.. {
            let last = sleep_until(started + INTERVAL * number, stop);
            samples.push(self.sample(started, !load_is_over.is_set())?);
            if last {
                break;
            }
        }
        Ok(samples)
    }

    fn sample(&mut self, started: Instant, under_load: bool) -> anyhow::Result<Sample> {
        let primary = pgcalm_lag::sample(&mut self.primary, &mut self.history, Some(&self.host))?;
        let time_s = started.elapsed().as_secs_f64();
        let counters = self.counters()?;
        let row = self
            .standby
            .query_one("select pg_last_wal_replay_lsn(), (select status from pg_stat_wal_receiver)", &[])?;
        let replayed: Option<PgLsn> = row.try_get(0)?;
        let status: Option<String> = row.try_get(1)?;
        let restored = replication_log::read(&self.watched.standby_log).restored;
        self.flushed.push((primary.time, primary.wal.flush_lsn));

        let mut sample = Sample {
            time_s,
            under_load,
            wal_bytes_per_s: primary.wal.generation_bytes_per_s,
            unflushed_bytes: Some(primary.wal.unflushed_bytes),
            walwriter_disk_bytes_per_s: primary.wal.walwriter_disk_bytes_per_s,
            receiver: match status {
                Some(status) => status,
                None if restored > self.restored => "restoring".to_string(),
                None => "none".to_string(),
            },
            ..Sample::default()
        };
        self.restored = restored;
        let standby = primary.standbys.iter().find(|standby| standby.application_name == STANDBY);
        if let Some(standby) = standby {
            sample.bottleneck = name_of(standby.bottleneck.place);
            if standby.pid.is_some() {
                connected(&mut sample, standby);
            }
        }
        if standby.is_none_or(|standby| standby.pid.is_none()) {
            // The primary does not know how far it is, but it may come on from an archive.
            sample.replay = replayed.map_or_else(Lag::default, |lsn| self.behind(lsn.into(), &primary));
        }
        if let Some(before) = self.before.replace(counters) {
            rates(&mut sample, &before, &counters);
        }
        Ok(sample)
    }

    fn counters(&self) -> anyhow::Result<Counters> {
        let Watched { root, primary_pid, .. } = &self.watched;
        Ok(Counters {
            at: Instant::now(),
            link_bytes: network::sent_bytes(root, *primary_pid, INTERFACE)?,
            primary_wal: DeviceStat::read(root, &self.watched.primary_wal)?,
            standby_wal: DeviceStat::read(root, &self.watched.standby_wal)?,
        })
    }

    /// How far `position` is behind the primary: the age is that of the first WAL beyond it.
    fn behind(&self, position: Lsn, primary: &lag::Sample) -> Lag {
        let beyond = self.flushed.iter().find(|(_, flushed)| *flushed > position);
        Lag {
            bytes: Some(primary.wal.flush_lsn.bytes_since(position)),
            s: Some(beyond.map_or(0.0, |(time, _)| (primary.time - time).max(0.0))),
        }
    }
}

/// What the primary knows of a standby that is connected.
fn connected(sample: &mut Sample, standby: &lag::Standby) {
    let lag = |position: &lag::Position| Lag { bytes: position.lag_bytes, s: position.lag_s };
    sample.sent = lag(&standby.sent);
    sample.write = lag(&standby.write);
    sample.flush = lag(&standby.flush);
    sample.replay = lag(&standby.replay);
    sample.received_bytes_per_s = standby.flush.bytes_per_s;
    sample.walsender_disk_bytes_per_s = standby.walsender_disk_bytes_per_s;
    sample.walsender_network_bytes_per_s =
        standby.connection.as_ref().and_then(|connection| connection.acknowledged_bytes_per_s);
}

fn rates(sample: &mut Sample, before: &Counters, now: &Counters) {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let rate = |now: u64, before: u64| Some(now.saturating_sub(before) as f64 / seconds);
    sample.link_bytes_per_s = now.link_bytes.zip(before.link_bytes).and_then(|(now, before)| rate(now, before));
    let (primary, standby) = (&now.primary_wal, &now.standby_wal);
    sample.primary_wal_device_bytes_per_s = rate(primary.write_bytes, before.primary_wal.write_bytes);
    sample.primary_wal_device_writes_per_s = rate(primary.write_ops, before.primary_wal.write_ops);
    sample.standby_wal_device_bytes_per_s = rate(standby.write_bytes, before.standby_wal.write_bytes);
    sample.standby_wal_device_writes_per_s = rate(standby.write_ops, before.standby_wal.write_ops);
}

/// As the documents of `pgcalm lag` name it.
fn name_of(place: lag::Place) -> Option<String> {
    match serde_json::to_value(place) {
        Ok(serde_json::Value::String(name)) => Some(name),
        _ => None,
    }
}
