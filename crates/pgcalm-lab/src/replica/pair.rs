//! Primary and standby of one case.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use pgcalm_lag::Lsn;
use pgcalm_postgres::Client;
use postgres::types::PgLsn;

use crate::cap::InForce;
use crate::connection::connect;
use crate::filesystem::{FileSystem, Layout};
use crate::network::{End, Network};
use crate::options::FsType;
use crate::replica::case::{Capped, Case, Kept};
use crate::replica::heartbeat::Pulse;
use crate::replica::report::Case as Outcome;
use crate::replica::report::ReceiverError;
use crate::replica::side::Side;
use crate::replica::watch::{Watch, Watched};
use crate::replica::{STANDBY, Surroundings, flood, heartbeat, outcome, replication_log};
use crate::server::Server;
use crate::stage::Stage;
use crate::{server, shared_file};

/// How long the standby may take to connect and to be where the primary is, before the load.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often positions are looked at.
const POLL: Duration = Duration::from_millis(50);

/// How long a standby that was refused WAL, and has no archive, is watched without replaying anything: more
/// than one of its attempts, which are 5 s apart unless wal_retrieve_retry_interval says otherwise.
const HOPELESS: Duration = Duration::from_secs(7);

/// Part of a WAL device that must stay free, or the load is ended: a full one is a PANIC.
const LEAST_FREE: f64 = 0.1;

/// Two servers that run, with all that is around them. Dropped in this order.
pub(super) struct Pair<'a> {
    context: &'a Surroundings<'a>,
    case: &'static Case,
    settings: [BTreeMap<String, String>; 2],
    primary: Server,
    standby: Server,
    network: Network,
    primary_side: Side,
    standby_side: Side,
    archive: Option<FileSystem>,
}

impl<'a> Pair<'a> {
    /// Makes two clusters, starts them and waits until the standby is where the primary is.
    pub(super) fn start(context: &'a Surroundings<'a>, case: &'static Case) -> anyhow::Result<Self> {
        let stage = context.stage;
        let interrupt = stage.interrupt;
        let primary_side = context.primary.mount(stage, &context.base)?;
        let standby_side = context.standby.mount(stage, &context.base)?;
        let archive = match context.archive.as_ref().filter(|_| case.archive) {
            Some(device) => {
                let file_system = stage.file_system("archive", device, FsType::Ext4, Layout::default())?;
                stage.private_dir(&file_system.path().join("wal"))?;
                Some(file_system)
            }
            None => None,
        };
        let network = Network::create(&stage.journal, interrupt)?;
        let settings = [context.primary_settings(case), context.standby_settings(case)];
        let start = |end: End, side: &Side, settings: &BTreeMap<String, String>| {
            network.within(end, || stage.start(side.places.clone(), settings))
        };
        let primary = start(End::Primary, &primary_side, &settings[0])?;
        if case.kept == Kept::BySlot {
            let slot = format!("select pg_create_physical_replication_slot('{STANDBY}', true)");
            primary.sql(&slot, interrupt)?;
        }
        if case.needs_module() {
            stage.create_functions(&primary)?;
        }
        flood::prepare(&primary, interrupt)?;
        heartbeat::prepare(&primary, interrupt)?;
        let signal = standby_side.places.data.join("standby.signal");
        shared_file::write(&signal, "")
            .and_then(|()| shared_file::give(&signal, &stage.installation))
            .with_context(|| format!("write {}", signal.display()))?;
        let standby = start(End::Standby, &standby_side, &settings[1])?;
        let pair = Self { context, case, settings, primary, standby, network, primary_side, standby_side, archive };
        pair.wait_until_level()?;
        Ok(pair)
    }

    fn wait_until_level(&self) -> anyhow::Result<()> {
        let mut client = connect(&self.primary_side.places.socket)?;
        // All cases begin with a cycle of checkpoints.
        client.batch_execute("checkpoint")?;
        let end = Instant::now() + CONNECT_TIMEOUT;
        loop {
            let level: bool = client
                .query_one(
                    "select exists (select from pg_stat_replication where application_name = $1 \
                     and state = 'streaming' and replay_lsn >= pg_current_wal_flush_lsn())",
                    &[&STANDBY],
                )?
                .try_get(0)?;
            if level {
                return Ok(());
            }
            if Instant::now() > end {
                bail!(
                    "the standby is not connected after {} s: {}",
                    CONNECT_TIMEOUT.as_secs(),
                    server::complaint(&self.standby.log())
                );
            }
            self.context.stage.interrupt.sleep(POLL)?;
        }
    }

    /// The load for `seconds`, under the caps and with the link's limit, and the time until the standby has caught up.
    pub(super) fn measure(&mut self, seconds: u32, link: Option<u64>) -> anyhow::Result<Outcome> {
        let Surroundings { options, capper, .. } = self.context;
        let Stage { interrupt, progress, dir, .. } = self.context.stage;
        let name = self.case.name;
        for server in [&self.primary, &self.standby] {
            capper.admit(server.pid())?;
        }
        if let Some(rate) = link {
            self.network.limit(rate, interrupt)?;
        }
        let mut applied = self.apply_caps()?;

        let mut primary = connect(&self.primary_side.places.socket)?;
        let mut standby = connect(&self.standby_side.places.socket)?;
        let directory = dir.run().join("load");
        self.context.stage.private_dir(&directory)?;
        progress.note(&format!("{name}: {seconds} s of load"));
        let before = insert_position(&mut primary)?;
        let epoch = epoch_s();
        let started = Instant::now();
        let watch = Watch::start(self.watched());
        let mut pulse = Pulse::start(started, &self.primary_side.places.socket, &self.standby_side.places.socket)?;
        let mut load = flood::start(self.context.stage, &self.primary, &directory, options, seconds)?;
        let longest = Duration::from_secs(seconds.into());
        let half = started + longest / 2;
        let lift_at = (self.case.capped == Capped::FirstHalf).then_some(half);
        let mut lifted_s = None;
        let cut_short = self.wait_for_load(&mut load, |now| {
            if lift_at.is_some_and(|at| now >= at) && lifted_s.is_none() {
                applied.clear();
                lifted_s = Some(started.elapsed().as_secs_f64());
            }
            let loads = options.loads.filter(|_| now > started + longest)?;
            Some(format!("{loads} loads take longer than --seconds {seconds}"))
        })?;
        drop(load);
        let load_s = started.elapsed().as_secs_f64();
        let after = insert_position(&mut primary)?;
        let received = standby_position(&mut standby, "greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())")?;
        watch.load_has_ended();

        progress.note(&format!("{name}: waiting for the standby to catch up"));
        let (catch_up_s, watched_s) = self.wait_for_standby(&mut standby, after)?;
        pulse.stop();
        let samples = watch.finish()?;
        drop(applied);
        let (primary_log, standby_log) = (&self.primary_side.places.log, &self.standby_side.places.log);
        let log = replication_log::read(standby_log);
        let heartbeat = pulse.finish(
            Duration::from_secs(options.patience.0.into()),
            &samples,
            replication_log::timeouts(primary_log, standby_log),
        )?;
        Ok(Outcome {
            name: name.to_string(),
            description: self.case.description.to_string(),
            link_limited: self.case.link_limited,
            primary_settings: self.settings[0].clone(),
            standby_settings: self.settings[1].clone(),
            load_s,
            cut_short,
            wal_bytes: after.bytes_since(before),
            // A running-transactions record may have come in between.
            received_bytes: received.min(after).bytes_since(before),
            catch_up_s,
            watched_s,
            receiver_error: log.first.map(|first| ReceiverError {
                time_s: first.time - epoch,
                message: first.message,
                count: log.failures,
            }),
            segments_restored: log.restored,
            caps_lifted_s: lifted_s,
            level_s: lifted_s.and_then(|lifted| outcome::level(lifted, &samples)),
            heartbeat: Some(heartbeat),
            guard: self.case.governed.then(|| outcome::guard(options.max_lag.bytes(), &samples)),
            samples,
        })
    }

    fn watched(&self) -> Watched {
        Watched {
            root: self.context.stage.root().clone(),
            namespace: self.network.path(End::Primary),
            primary_pid: self.primary.pid(),
            primary_socket: self.primary_side.places.socket.clone(),
            standby_socket: self.standby_side.places.socket.clone(),
            standby_log: self.standby_side.places.log.clone(),
            primary_wal: self.context.primary.wal.name.clone(),
            standby_wal: self.context.standby.wal.name.clone(),
        }
    }

    /// The caps of the case. Volumes have their limits in any: those of FirstHalf are lifted with the caps.
    fn apply_caps(&self) -> anyhow::Result<Vec<InForce>> {
        let Surroundings { options, capper, .. } = self.context;
        let mut applied = Vec::new();
        for devices in [&self.context.primary, &self.context.standby] {
            for (device, caps) in [(&devices.wal, options.wal_caps()), (&devices.data, options.data_caps())] {
                if self.case.capped != Capped::No {
                    applied.extend(capper.apply_to(&device.number, caps)?);
                }
                applied.extend(device.limit()?.map(InForce::Volume));
            }
        }
        Ok(applied)
    }

    /// Calls `turn` all the while, which may say why the load is to end; returns why it was ended before its time.
    fn wait_for_load(
        &mut self,
        load: &mut crate::load::Load,
        mut turn: impl FnMut(Instant) -> Option<String>,
    ) -> anyhow::Result<Option<String>> {
        while !load.has_ended()? {
            if let Some(why) = turn(Instant::now()) {
                return Ok(Some(why));
            }
            self.check_servers()?;
            for (end, side) in [(End::Primary, &self.primary_side), (End::Standby, &self.standby_side)] {
                if side.wal_free()? < LEAST_FREE {
                    return Ok(Some(format!(
                        "the {}'s WAL device was nearly full; a larger --wal-size lets it go on",
                        end.name()
                    )));
                }
            }
            self.context.stage.interrupt.sleep(POLL)?;
        }
        Ok(None)
    }

    /// Returns when the standby had replayed up to `end`, if it did, and how long was waited, both in seconds.
    fn wait_for_standby(&mut self, standby: &mut Client, end: Lsn) -> anyhow::Result<(Option<f64>, f64)> {
        let patience = Duration::from_secs(self.context.options.catch_up.0.into());
        let started = Instant::now();
        let mut progressed = started;
        let mut last = Lsn::default();
        loop {
            let replayed = standby_position(standby, "pg_last_wal_replay_lsn()")?;
            let elapsed = started.elapsed().as_secs_f64();
            if replayed >= end {
                return Ok((Some(elapsed), elapsed));
            }
            if replayed > last {
                last = replayed;
                progressed = Instant::now();
            }
            let hopeless = progressed.elapsed() > HOPELESS
                && self.archive.is_none()
                && replication_log::read(&self.standby_side.places.log).removed;
            if hopeless || started.elapsed() > patience {
                return Ok((None, elapsed));
            }
            self.context.stage.progress.status(&format!(
                "{}: {} MiB behind",
                self.case.name,
                end.bytes_since(replayed) >> 20
            ));
            self.check_servers()?;
            self.context.stage.interrupt.sleep(POLL)?;
        }
    }

    fn check_servers(&mut self) -> anyhow::Result<()> {
        for (end, server) in [(End::Primary, &mut self.primary), (End::Standby, &mut self.standby)] {
            if server.has_ended()? {
                let log = server.log();
                bail!("the {} has ended: {}", end.name(), server::complaint(&log));
            }
        }
        Ok(())
    }

    /// Ends both servers and removes what they wrote.
    pub(super) fn discard(self) -> anyhow::Result<()> {
        self.standby.discard()?;
        self.primary.discard()?;
        self.primary_side.discard_contents()?;
        self.standby_side.discard_contents()?;
        match &self.archive {
            Some(archive) => archive.discard_contents(),
            None => Ok(()),
        }
    }
}

fn insert_position(primary: &mut Client) -> anyhow::Result<Lsn> {
    let row = primary.query_one("select pg_current_wal_insert_lsn()", &[])?;
    Ok(row.try_get::<_, PgLsn>(0)?.into())
}

fn standby_position(standby: &mut Client, position: &str) -> anyhow::Result<Lsn> {
    let row = standby.query_one(&format!("select {position}"), &[])?;
    Ok(row.try_get::<_, PgLsn>(0)?.into())
}

/// Seconds of the epoch.
fn epoch_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
