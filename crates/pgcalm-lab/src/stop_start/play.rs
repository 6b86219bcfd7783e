//! The rounds of a contestant.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;
use pgcalm_host::meminfo::MemInfo;
use pgcalm_postgres::estimate::{self, Pending};
use pgcalm_volume::limits::Allowance;
use serde_json::Value;

use crate::cap::InForce;
use crate::connection::connect;
use crate::contest::devices::{Devices, Scene};
use crate::contest::{self, epoch, with_last_words};
use crate::contestant::Contestant;
use crate::load::running::RunningLoad;
use crate::load::{Demand, Work};
use crate::server::Server;
use crate::stage::Stage;
use crate::stop_start::options::Options;
use crate::stop_start::report::{self, Accuracy, Estimate, Kind, Ready, Round};
use crate::template::Template;
use crate::transaction_log::Transactions;
use crate::{crash, memory, server, tool};

/// Between looks at a server that stops or starts: what is measured is seconds.
const LOOK: Duration = Duration::from_millis(20);

/// Between looks at the load.
const TICK: Duration = Duration::from_millis(100);

/// Load without an end.
const DAY: Duration = Duration::from_secs(86_400);

/// What `ready-to-stop` ends with: ready, and not.
const CODES: [i32; 2] = [0, 7];

/// What all contestants share.
pub(super) struct Arena<'a> {
    pub options: &'a Options,
    pub contest: &'a contest::Options,
    pub stage: &'a Stage<'a>,
    pub devices: &'a Devices<'a>,
    pub template: &'a Template,
}

/// A contestant at work.
struct Play<'a> {
    arena: &'a Arena<'a>,
    contestant: &'static Contestant,
    // Undone in this order.
    load: RunningLoad,
    limits: Vec<InForce>,
    scene: Scene,
    /// The number of dirty buffers, as an expression: without contrib nobody counts them.
    dirty: &'static str,
}

/// When a round had its load, and when `ready-to-stop` worked, in seconds of the epoch.
struct Times {
    load: (f64, f64),
    ready: Option<(f64, f64)>,
}

impl Arena<'_> {
    /// All rounds of a contestant, on new file systems.
    pub(super) fn play(&self, contestant: &'static Contestant) -> anyhow::Result<report::Contestant> {
        let Self { contest, stage, devices, .. } = *self;
        let _run_dir = stage.run_dir(Some(contestant.name))?;
        stage.progress.note(&format!("{}: restoring the table on new file systems", contestant.name));
        let scene = devices.serve(contest, self.template, &contest.server_settings(contestant))?;
        if contestant.module {
            stage.create_functions(&scene.server)?;
        }
        let dirty = match scene.server.sql("create extension pg_buffercache", stage.interrupt) {
            Ok(_) => "(select count(*) from pg_buffercache where isdirty)",
            Err(_) => "null::int8",
        };
        let directory = stage.dir.run();
        // Neither the copy nor the settings were synced, and a power cut would take them.
        for path in [scene.data.path(), scene.wal_path()] {
            rustix::fs::syncfs(File::open(path)?).with_context(|| format!("sync {}", path.display()))?;
        }
        let limits = devices.limit(contest, contestant)?;
        let work = Work {
            rows: contest.table_rows(),
            clients: contest.clients,
            seconds: DAY.as_secs() as u32,
            distribution: contest.distribution(),
            rate: contest.rate.0,
        };
        let load = RunningLoad::start(stage, &scene.server, &directory, &contest.load.choice, work)?;
        let mut play = Play { arena: self, contestant, load, limits, scene, dirty };
        let played = match play.rounds() {
            Ok(played) => played,
            Err(error) => return Err(with_last_words(error, &play.scene.server.log())),
        };
        let transactions = play.transactions()?;
        let Play { load, limits, scene, .. } = play;
        drop((load, limits));
        scene.discard()?;

        let of_load = played.iter().flat_map(|(_, times)| seconds(&transactions, times.load)).collect::<Vec<_>>();
        let rounds: Vec<Round> =
            played.into_iter().map(|(round, times)| with_tps(round, &times, &transactions)).collect();
        let server_settings = contest.settings_of(contestant);
        let target = |name| server_settings.get(name).and_then(|value| target_seconds(value));
        Ok(report::Contestant {
            row: String::new(),
            name: contestant.name.to_string(),
            description: contestant.description.to_string(),
            tps: crate::guard::report::mean(&of_load),
            stops: Accuracy::of(&rounds, Kind::Stop, Round::told, target("pg_calm.stop_target")),
            kills: Accuracy::of(&rounds, Kind::Kill, Round::told, target("pg_calm.recovery_target")),
            server_settings,
            rounds,
        })
    }
}

impl Play<'_> {
    fn rounds(&mut self) -> anyhow::Result<Vec<(Round, Times)>> {
        let Arena { options, stage, .. } = *self.arena;
        let mut random = Rng::with_seed(options.seed);
        let of = |kind, number| std::iter::repeat_n(kind, number as usize);
        let mut kinds: Vec<Kind> = of(Kind::Stop, options.stops).chain(of(Kind::Kill, options.kills)).collect();
        random.shuffle(&mut kinds);
        let mut rounds = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let (least, more) = (options.contest.warm_up.0, options.contest.seconds.0);
            let time = Duration::from_secs_f64(f64::from(least) + random.f64() * f64::from(more));
            let label = format!("{}: round {} of {}", self.contestant.name, index + 1, kinds.len());
            let (round, times) = self.round(*kind, time, &label).with_context(|| label.clone())?;
            let told = round
                .told
                .as_ref()
                .map_or("nothing".to_string(), |told| format!("{:.1} s ({})", told.seconds, told.basis));
            stage.progress.note(&format!("{label}: {} took {:.1} s, told {told}", kind.name(), round.took_s));
            rounds.push((round, times));
        }
        Ok(rounds)
    }

    /// Load, stop or crash, and start.
    fn round(&mut self, kind: Kind, time: Duration, label: &str) -> anyhow::Result<(Round, Times)> {
        let Stage { progress, interrupt, .. } = self.arena.stage;
        let (from, begun) = (epoch(), Instant::now());
        while begun.elapsed() < time {
            self.load.heed(Demand::Work, DAY)?;
            if self.load.has_ended()? {
                bail!("the load has ended by itself");
            }
            progress.status(&format!("{label}: {:.0} of {:.0} s", begun.elapsed().as_secs_f64(), time.as_secs_f64()));
            interrupt.sleep(time.saturating_sub(begun.elapsed()).min(TICK))?;
        }
        let ready_from = epoch();
        let ready = match kind == Kind::Stop && self.arena.options.ready_to_stop {
            true => Some(self.get_ready(label)?),
            false => None,
        };
        let until = epoch();
        let times = Times { load: (from, until), ready: ready.is_some().then_some((ready_from, until)) };
        let (told, without_module, target_met) = self.estimates(kind)?;

        let logged = self.scene.server.log().len();
        self.load.heed(Demand::CutOff, DAY)?;
        progress.status(&format!("{label}: {}", kind.name()));
        let stopping = Instant::now();
        match kind {
            Kind::Stop => self.scene.server.stop()?,
            Kind::Kill => drop(crash::kill_family(self.arena.stage.root(), self.scene.server.pid())?),
        }
        while !self.scene.server.has_ended()? {
            interrupt.sleep(LOOK)?;
        }
        let stopped_s = stopping.elapsed().as_secs_f64();
        match kind {
            Kind::Stop if !self.log_from(logged).contains("database system is shut down") => {
                bail!("it did not stop in order: {}", server::complaint(&self.log_from(logged)));
            }
            Kind::Stop => {}
            Kind::Kill => self.scene.lose_power()?,
        }
        let start_s = self.start()?;
        let log = self.log_from(logged);
        let (took_s, start_s) = match kind {
            Kind::Stop => (stopped_s, Some(start_s)),
            Kind::Kill => (start_s, None),
        };
        let redo_s = redo_seconds(&log);
        if kind == Kind::Kill {
            // The next round begins with a warm cache, as the first one did.
            self.limits.clear();
            self.arena.devices.warm(self.arena.contest, &self.scene.cluster)?;
            self.limits = self.arena.devices.limit(self.arena.contest, self.contestant)?;
        }
        let load_s = until - from;
        Ok((Round { kind, load_s, told, without_module, target_met, took_s, redo_s, start_s, ready }, times))
    }

    /// Starts the server and tells how long it took until it takes connections.
    fn start(&self) -> anyhow::Result<f64> {
        let Arena { stage, devices, .. } = *self.arena;
        let server = &self.scene.server;
        let starting = Instant::now();
        server.start_again()?;
        devices.admit(server.pid())?;
        while !server.is_ready(stage.interrupt) {
            if server.has_ended()? {
                bail!("the server did not start again: {}", server::complaint(&server.log()));
            }
            stage.progress.status(&format!("starting for {:.0} s", starting.elapsed().as_secs_f64()));
            stage.interrupt.sleep(LOOK)?;
        }
        Ok(starting.elapsed().as_secs_f64())
    }

    fn log_from(&self, length: usize) -> String {
        self.scene.server.log().get(length..).unwrap_or_default().to_string()
    }

    /// What pgcalm tells of this server, what it would tell without the module, and whether pg_calm sees its target met.
    fn estimates(&self, kind: Kind) -> anyhow::Result<(Option<Estimate>, Option<Estimate>, Option<bool>)> {
        let Arena { contest, stage, devices, .. } = *self.arena;
        let server: &Server = &self.scene.server;
        let mut client = connect(server.address().0)?;
        let (of_module, target_met): (Option<f64>, Option<bool>) = match self.contestant.module {
            true => {
                let what = if kind == Kind::Stop { "stop" } else { "recovery" };
                let sql = format!("select {what}_seconds, {what}_target_met from pg_calm_status");
                let row = client.query_one(&sql, &[])?;
                (row.get(0), row.get(1))
            }
            false => (None, None),
        };
        let told = of_module.map(|seconds| Estimate::new([seconds; 2], "measured"));
        let row = client.query_one(
            &format!(
                "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::int8, {}, setting::int8, \
                 current_setting('block_size')::int8 \
                 from pg_control_checkpoint(), pg_settings where name = 'shared_buffers'",
                self.dirty
            ),
            &[],
        )?;
        let unsigned = |value: i64| value.max(0) as u64;
        let unflushed_bytes = match devices.memory_group() {
            Some(group) => memory::dirty_bytes(group)?,
            None => MemInfo::read(stage.root()).map(|info| (info.dirty_kib + info.writeback_kib) << 10)?,
        };
        let (write_iops, write_bandwidth) = caps(contest, self.contestant);
        let pending = Pending {
            told_seconds: None,
            dirty_buffers: row.get::<_, Option<i64>>(1).map(unsigned),
            shared_buffers: unsigned(row.get(2)),
            block_bytes: unsigned(row.get(3)),
            unflushed_bytes,
            write_iops,
            write_bandwidth,
        };
        let without = match kind {
            Kind::Stop => pending.stop().map(|(seconds, basis)| Estimate::new([seconds; 2], basis.name())),
            Kind::Kill => {
                let rate = estimate::replay_rate(&server.log());
                let basis = if rate.is_some() { "last recovery" } else { "range" };
                Some(Estimate::new(pending.recovery(unsigned(row.get(0)), rate, false), basis))
            }
        };
        // Where the module does not know, doctor and top say what they find without it.
        Ok((told.or_else(|| without.clone()), without, target_met))
    }

    /// `pgcalm ready-to-stop`, as a hook before a stop runs it.
    fn get_ready(&self, label: &str) -> anyhow::Result<Ready> {
        let Arena { contest, stage, .. } = *self.arena;
        stage.progress.note(&format!("{label}: ready-to-stop"));
        let (directory, port) = self.scene.server.address();
        let program = tool::this_program()?;
        let mut command = tool::command(program);
        command.args(["ready-to-stop", "--within", "10s", "--timeout", "5min", "--json"]).arg("--connect");
        command.arg(format!("host={} port={port} user=postgres dbname=postgres", directory.display()));
        let (iops, bandwidth) = caps(contest, self.contestant);
        command.args(iops.map(|iops| format!("--iops={iops}")));
        command.args(bandwidth.map(|bytes| format!("--bandwidth={}kB", bytes >> 10)));
        let mut child = tool::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let status = tool::wait(&mut child, stage.interrupt)?;
        let document: Value =
            child.stdout.take().map(serde_json::from_reader).transpose().unwrap_or_default().unwrap_or_default();
        let number =
            |name: &str| document[name].as_f64().with_context(|| format!("read {name} of ready-to-stop ({status})"));
        if !status.code().is_some_and(|code| CODES.contains(&code)) {
            bail!("pgcalm ready-to-stop ended with {status}: run it by hand on a server of lab up");
        }
        Ok(Ready {
            ready: document["ready"].as_bool().unwrap_or(false),
            waited_s: number("waited_seconds")?,
            said_s: number("stop_seconds")?,
            tps_median: None,
            tps_worst: None,
        })
    }

    /// Of all rounds, once the load has ended.
    fn transactions(&mut self) -> anyhow::Result<Transactions> {
        let Stage { interrupt, dir, .. } = self.arena.stage;
        loop {
            // Nobody comes back.
            self.load.heed(Demand::Work, Duration::ZERO)?;
            if self.load.has_ended()? {
                return self.load.transactions(&dir.run());
            }
            interrupt.sleep(TICK)?;
        }
    }
}

/// Write operations and bytes per second that the device of the data takes while nobody reads.
fn caps(contest: &contest::Options, contestant: &Contestant) -> (Option<u64>, Option<u64>) {
    let Some(volume) = &contest.common.volume else {
        let caps = contest.data_caps(contestant);
        return (caps.write_iops.map(u64::from), caps.write_bps);
    };
    let of_writes =
        |allowance: Allowance| [allowance.shared, allowance.write].iter().flatten().map(|rate| rate.sustained).min();
    let limits = volume.limits();
    (of_writes(limits.operations), of_writes(limits.bytes))
}

/// Transactions that ended in each full second of these times.
fn seconds(transactions: &Transactions, (from, until): (f64, f64)) -> Vec<f64> {
    let of = |second| transactions.by_second.get(&second).map_or(0.0, |one| one.len() as f64);
    (from.ceil() as i64..until.floor() as i64).map(of).collect()
}

/// Fills in how even the load was while `ready-to-stop` worked.
fn with_tps(mut round: Round, times: &Times, transactions: &Transactions) -> Round {
    if let (Some(ready), Some(times)) = (&mut round.ready, times.ready) {
        let mut tps = seconds(transactions, times);
        tps.sort_by(f64::total_cmp);
        (ready.tps_worst, ready.tps_median) = (tps.first().copied(), tps.get(tps.len() / 2).copied());
    }
    round
}

/// Of `10`, `10s` or `2min`; none where it is off.
fn target_seconds(value: &str) -> Option<f64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &value[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "min" => 60.0,
        _ => return None,
    };
    digits.parse().ok().map(|number: f64| number * unit).filter(|seconds| *seconds > 0.0)
}

/// "redo done at … elapsed: 1.50 s".
fn redo_seconds(log: &str) -> Option<f64> {
    let (_, done) = log.split_once("redo done at ")?;
    done.lines().next()?.split_once("elapsed: ")?.1.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction_log::Source;

    #[test]
    fn targets_have_units_and_logs_the_time_of_redo() {
        let cases =
            [("10", Some(10.0)), ("2min", Some(120.0)), ("500ms", Some(0.5)), ("0", None), ("-1", None), ("x", None)];
        for (value, seconds) in cases {
            assert_eq!(target_seconds(value), seconds, "{value}");
        }
        let log = "LOG:  redo done at 0/2 system usage: CPU: user: 0.10 s, system: 0.05 s, elapsed: 1.50 s\nLOG:  x\n";
        assert_eq!(redo_seconds(log), Some(1.5));
        assert_eq!(redo_seconds("LOG:  redo is not required\n"), None);
    }

    #[test]
    fn only_full_seconds_count_and_one_without_transactions_too() {
        let counts = [(9, 90), (10, 100), (12, 50), (13, 70)];
        let transactions = Transactions::counted(counts, 9.5, Source::Pgbench).unwrap();
        assert_eq!(seconds(&transactions, (9.5, 13.9)), [100.0, 0.0, 50.0]);
        assert!(seconds(&transactions, (9.5, 9.9)).is_empty());
    }
}
