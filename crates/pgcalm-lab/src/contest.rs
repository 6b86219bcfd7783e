//! Contestants under the same load on the same capped devices, in turn.

pub(crate) mod devices;
pub(crate) mod need;
mod options;
pub(crate) mod recycled_wal;
pub mod report;
mod steady;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::Value;

use crate::backlog::BacklogWatch;
use crate::contest::devices::Devices;
use crate::contest::report as model;
use crate::contest::report::metric::{Figure, TPS_MEAN};
use crate::contest::steady::SteadyWatch;
use crate::contestant::Contestant;
use crate::fsync_times::FsyncTrace;
use crate::interrupt::Interrupt;
use crate::load::overtime::Overtime;
use crate::load::running::RunningLoad;
use crate::load::{Demand, Work};
use crate::measure::Recording;
use crate::sampler::Sampler;
use crate::scenarios::Help;
use crate::server::Server;
use crate::server_log::CheckpointLog;
use crate::server_sampler::ServerSampler;
use crate::stage::{Needs, Stage};
use crate::template::Template;
use crate::trouble::{Before, Ground, Table, Troubles};
use crate::{folios, fsync_times, measure, server, server_log, sysctl};
use pgcalm_host::Failure;

pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "checkpoint",
    example: "Example: sudo pgcalm lab run checkpoint --contestants stock,pg_calm --json report.json",
    text: "\
        Upserts of random rows on an IOPS-capped data volume: do checkpoints and writeback stall them?\n\n\
        Each contestant gets new file systems on the same two loop devices (direct I/O), a copy of the same loaded \
        table, and the same load under the same caps. Caps hold from the start of the load to its end only. Sizes have \
        PostgreSQL's units: kB, MB and GB are powers of 1024.",
};

/// Runs it as scenario `checkpoint`.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    run_as(HELP.name, options, interrupt)
}

/// Runs the contest and returns its report. Whatever way it ends, the host is as before.
pub(crate) fn run_as(scenario: &str, options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let needs = Needs { module: options.contestants.iter().any(|c| c.module), troubles: true, ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    need::stack(stage, options)?;
    need::space(stage, options)?;
    let _run_dir = stage.run_dir(None)?;
    let template = Template::obtain(stage, &options.preparation()?)?;
    let mut options = options.clone();
    options.load.settle(template.table_bytes()?);
    let options = &options;
    let mut devices = Devices::create(stage, options)?;
    let _sysctls = sysctl::apply(&stage.journal, options.sysctl())?;
    let mut report = model::Report {
        scenario: scenario.to_string(),
        host: stage.host(devices.cap_mechanism(options))?,
        settings: options.named(),
        cap: devices.cap(options),
        contestants: options
            .contestants
            .iter()
            .map(|contestant| model::Contestant {
                name: contestant.name.to_string(),
                description: contestant.description.to_string(),
                server_settings: options.settings_of(contestant),
                held_up_runs: 0,
                runs: Vec::new(),
            })
            .collect(),
    };
    let mut operations = 1;
    for repetition in 1..=options.most_runs() {
        let mut means = report.contestants.iter().filter_map(|c| TPS_MEAN.of(c));
        if repetition > options.repeat && !means.any(|mean| spreads(&mean)) {
            break;
        }
        for (contestant, entry) in options.contestants.iter().zip(&mut report.contestants) {
            let label = match (options.repeat, options.most_runs()) {
                (_, 1) => contestant.name.to_string(),
                (runs, most) if runs == most => {
                    format!("{} (run {repetition} of {runs})", contestant.name)
                }
                (runs, most) => {
                    format!("{} (run {repetition} of {runs} to {most})", contestant.name)
                }
            };
            let options = &options.of(contestant)?;
            if contestant.operations != operations {
                // Those of one volume go before there are those of another.
                drop(devices);
                devices = Devices::create(stage, options)?;
                operations = contestant.operations;
            }
            let arena = Arena { options, stage, devices: &devices, template: &template };
            let mut run = arena.run(contestant, &label, repetition).with_context(|| label.clone())?;
            let mut tries = 1;
            while is_made_again(&run, tries) {
                let held_up = run.volume_held_up_s.unwrap_or_default();
                stage
                    .progress
                    .note(&format!("{label}: again, since the machine held up the volume for {held_up:.2} s"));
                tries += 1;
                entry.held_up_runs += 1;
                run = arena.run(contestant, &label, repetition).with_context(|| label.clone())?;
            }
            stage.progress.note(&format!(
                "{label}: {:.0} TPS, worst second {:.0}, {} s at zero, {}, {:.0} device writes/s{}",
                run.tps_mean,
                run.tps_min,
                run.seconds_zero,
                latency(&run),
                run.data_device.write_ops_per_s,
                steadiness(&run),
            ));
            entry.runs.push(run);
        }
    }
    Ok(report)
}

/// For so long the machine may hold up an emulated volume in a run, whose worst second would be the machine's with more.
const HELD_UP_S: f64 = 0.25;

/// So often a run that was held up is made: a machine that does so again is no place for a contest, which its report says.
const TRIES: u32 = 3;

/// Whether a run, of which so many were made, is none that counts. One in which the server died does, whatever the machine
/// did: another that lives would hide that.
fn is_made_again(run: &model::Run, tries: u32) -> bool {
    tries < TRIES && run.server_failure.is_none() && run.volume_held_up_s.is_some_and(|held_up| held_up > HELD_UP_S)
}

/// Share of the median of mean TPS by which the runs of a contestant may differ without another run of each.
const SPREAD: f64 = 0.1;

/// Whether the runs with these mean TPS differ so much that there is to be another one of each contestant.
fn spreads(mean: &Figure) -> bool {
    mean.range.is_some_and(|(low, high)| high - low > SPREAD * mean.median)
}

/// What the runs of a contest share.
struct Arena<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    devices: &'a Devices<'a>,
    template: &'a Template,
}

impl Arena<'_> {
    fn run(&self, contestant: &Contestant, label: &str, repetition: u32) -> anyhow::Result<model::Run> {
        // Server and client files of this run only.
        let _run_dir = self.stage.run_dir(Some(&format!("{}-{repetition}", contestant.name)))?;
        self.stage.progress.note(&format!("{label}: restoring the table on new file systems"));
        let started = Instant::now();
        let mut troubles = Troubles::new(self.options, contestant);
        let scene = self.devices.serve_after(
            self.options,
            self.template,
            &self.options.server_settings(contestant),
            |cluster| troubles.before_start(&Before { stage: self.stage, devices: self.devices, cluster }),
        )?;
        let server = &scene.server;
        if contestant.module {
            self.stage.create_functions(server)?;
        }
        self.stage.progress.note(&format!(
            "{label}: set up in {:.0} s: {:.0} copying the table and making WAL segments, {:.0} filling the page cache",
            started.elapsed().as_secs_f64(),
            scene.copying.as_secs_f64(),
            scene.reading.as_secs_f64(),
        ));
        let directory = self.stage.dir.run();
        let ground = Ground {
            stage: self.stage,
            devices: self.devices,
            options: self.options,
            contestant,
            server,
            volume: scene.data.path(),
            cluster: &scene.cluster,
            directory: &directory,
            table: Table::largest(self.stage, server)?,
        };
        let recording = self.measure(&ground, &mut troubles, label, scene.wal_path());
        // However it has ended, and before the server does.
        let ended = troubles.end(&ground);
        let recording = recording.map_err(|error| with_last_words(error, &server.log()))?;
        ended?;
        scene.discard()?;
        Ok(measure::figures(recording))
    }

    /// Loads the server under caps and records what happens.
    fn measure(
        &self,
        ground: &Ground<'_>,
        troubles: &mut Troubles,
        label: &str,
        wal: &Path,
    ) -> anyhow::Result<Recording> {
        let Ground { contestant, server, directory, .. } = *ground;
        troubles.prepare(ground)?;
        // A kernel that does not tell is no reason not to measure.
        let cached_at_start = folios::cached(ground.cluster).ok();
        let warm_up = self.options.warm_up.0;
        let seconds = self.options.seconds.0;
        self.stage.progress.note(&match (self.options.steady, warm_up) {
            (true, _) => format!("{label}: load until it is steady, {} at most", self.options.at_most),
            (false, 0) => format!("{label}: measuring {seconds} s"),
            (false, _) => format!("{label}: measuring {seconds} s after {warm_up} s of load"),
        });
        let (data, wal_device) = self.devices.names();
        let lead = Duration::from_secs(warm_up.into());
        let window = Duration::from_secs(seconds.into());
        let backlog = BacklogWatch::prepare(
            server,
            self.stage.root(),
            &self.devices.data.name,
            self.devices.memory_group(),
            window,
            self.stage.interrupt,
        )?;
        let mut caps = Some(self.devices.limit(self.options, contestant)?);
        let sampler =
            Sampler::start(self.stage.root().clone(), data, wal_device, self.devices.volume_readers(), server.pid());
        let server_sampler = ServerSampler::start(directory)?;
        let fsync = FsyncTrace::start(server.pid());
        let started = Instant::now();
        let mut watch = if self.options.steady {
            Watch::Steady(SteadyWatch::new(backlog, epoch(), lead, window, contestant.module))
        } else {
            Watch::Last(backlog)
        };
        let mut load = RunningLoad::start(
            self.stage,
            server,
            directory,
            &self.options.load.choice,
            Work {
                rows: self.options.table_rows(),
                clients: self.options.clients,
                seconds: self.options.load_seconds(),
                distribution: self.options.distribution(),
                rate: self.options.rate.0,
            },
        )?;
        let mut load_end = started + Duration::from_secs(self.options.load_seconds().into());
        let drain = self.options.drain.0.map(|bound| Duration::from_secs(bound.0.into()));
        // Clients that are held by what is drained wait for it under the caps.
        let mut overtime = Overtime::after(load_end + drain.unwrap_or_default());
        let mut caps_lifted = false;
        let mut module_status = None;
        let mut server_failure = None;
        let mut wal_free = u64::MAX;
        loop {
            wal_free = wal_free.min(free_space(wal)?);
            match load.has_ended() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    // Not a failure of the lab: where a checkpoint does not end, that is how a server ends.
                    let log = server.log();
                    let Some((time, words, _)) = server_log::wal_disk_full(&log) else { return Err(error) };
                    self.stage.progress.note(&format!("{label}: the server gave up: {words}"));
                    let up_again_s = troubles.revive(ground)?.map(|up| up - time);
                    server_failure = Some((time, words.to_string(), up_again_s));
                    break;
                }
            }
            let begin = match &watch {
                Watch::Last(_) => Some(started + lead),
                Watch::Steady(watch) => watch.ended().map(|_| started + Duration::from_secs_f64(watch.warmed_up())),
            };
            if let Some(measured) = begin.and_then(|at| Instant::now().checked_duration_since(at)) {
                let left = load_end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    troubles.end(ground)?;
                } else {
                    troubles.poll(ground, measured, left)?;
                }
                load.heed(troubles.demand(), left)?;
            }
            if overtime.has_come() && load.can_be_late() {
                if contestant.module && caps.is_some() {
                    module_status = self.module_status(server).ok();
                }
                caps_lifted |= overtime.check(label, &mut caps, &self.stage.progress)? && self.options.has_caps();
            }
            let checkpoints = server_log::checkpoints(&server.log());
            match &mut watch {
                Watch::Last(backlog) => backlog.poll(started.elapsed().saturating_sub(lead))?,
                Watch::Steady(watch) => {
                    let may_end = watch.look(&checkpoints, epoch())?;
                    // Clients who rest are to come back before.
                    let at_work = troubles.demand() == Demand::Work;
                    if may_end && at_work && Instant::now() < load_end {
                        troubles.end(ground)?;
                        load.end()?;
                        load_end = Instant::now();
                        overtime = Overtime::after(load_end + drain.unwrap_or_default());
                    }
                }
            }
            self.show(label, started, &watch, &load, &sampler, checkpoints);
            self.stage.interrupt.sleep(Duration::from_millis(250))?;
        }
        troubles.end(ground)?;
        if contestant.module && module_status.is_none() && server_failure.is_none() {
            module_status = Some(self.module_status(server)?);
        }
        let (samples, blocked) = sampler.finish();
        let server_samples = server_sampler.finish();
        let module = contestant.module.then_some(server);
        let fsync = fsync_times::finish(fsync, module, self.stage.interrupt, &self.stage.progress);
        let load_end = load_end.min(Instant::now());
        let (backlog, steadiness) = match watch {
            Watch::Last(_) if server_failure.is_some() => (None, None),
            Watch::Last(backlog) => {
                self.stage.progress.status(&format!("{label}: draining"));
                (backlog.finish(load_end, drain, caps.is_some())?, None)
            }
            Watch::Steady(watch) => (None, Some(watch.finish(server_failure.is_some()))),
        };
        let cached_at_end = folios::cached(ground.cluster).ok();
        drop(caps);
        self.stage.progress.status("reading the logs");
        let log = server.log();
        let log = server_log::wal_disk_full(&log)
            .filter(|_| server_failure.is_some())
            .map_or(log.as_str(), |(_time, _words, before)| before);
        let transactions = load.transactions(directory)?;
        let (warm_up, seconds) = match &steadiness {
            None => (warm_up, seconds),
            Some(steadiness) => {
                // In full seconds of what was between the first and the last checkpoint's end.
                let load = (load_end - started).as_secs_f64();
                let warm_up = steadiness.warm_up_s.ceil().min(load);
                (warm_up as u32, (load - warm_up).floor().max(1.0) as u32)
            }
        };
        Ok(Recording {
            transactions: transactions.after(warm_up)?,
            seconds,
            samples,
            server: server_samples,
            blocked,
            checkpoints: server_log::checkpoints(log),
            server_failure,
            wal_free_min_mib: Some(wal_free as f64 / f64::from(1 << 20)),
            module_status: module_status.unwrap_or_default(),
            backlog,
            steadiness,
            fsync,
            caps_lifted,
            cached: [cached_at_start, cached_at_end],
            troubles: troubles.told(),
        })
    }

    fn show(
        &self,
        label: &str,
        started: Instant,
        watch: &Watch,
        load: &RunningLoad,
        sampler: &Sampler,
        log: CheckpointLog,
    ) {
        let mut text = format!("{label}: {:>3}", started.elapsed().as_secs());
        text.push_str(&match watch {
            Watch::Last(_) => format!(" of {} s", self.options.load_seconds()),
            Watch::Steady(watch) => match watch.ended() {
                None => " s, warming up".to_string(),
                Some(ended) => format!(" s, {ended} checkpoints"),
            },
        });
        if let Some(tps) = load.tps() {
            text.push_str(&format!(", {tps:.0} TPS"));
        }
        if let Some(sample) = sampler.latest() {
            text.push_str(&format!(
                ", Dirty {} MiB, Writeback {} MiB",
                sample.memory.dirty_kib >> 10,
                sample.memory.writeback_kib >> 10
            ));
        }
        if let Some((_, reason)) = log.running {
            text.push_str(&format!(", checkpoint under way ({reason})"));
        } else if let Some(last) = log.complete.last() {
            text.push_str(&format!(", last checkpoint {:.1} s (sync {:.1} s)", last.total_s, last.sync_s));
        }
        self.stage.progress.status(&text);
    }

    fn module_status(&self, server: &Server) -> anyhow::Result<BTreeMap<String, Value>> {
        server.row("pg_calm_status", self.stage.interrupt)
    }
}

/// What is dirty at the end, or when checkpoints end.
#[derive(Debug)]
enum Watch<'a> {
    Last(BacklogWatch<'a>),
    Steady(SteadyWatch<'a>),
}

/// Seconds of the epoch.
pub(crate) fn epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Bytes that a server can still have of a file system.
fn free_space(path: &Path) -> anyhow::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail * space.f_frsize)
}

fn latency(run: &model::Run) -> String {
    match (&run.latency_ms, &run.latency_server_ms) {
        (Some(latency), _) => format!("p99 {:.1} ms", latency.p99),
        (None, Some(latency)) => format!("mean latency {:.1} ms", latency.mean),
        (None, None) => "latency unknown".to_string(),
    }
}

/// What is to be said of whether it was.
fn steadiness(run: &model::Run) -> String {
    match run.steadiness.as_ref().map(|s| s.objection.as_deref()) {
        None => String::new(),
        Some(None) => format!(", steady over {} checkpoints", run.checkpoints.len()),
        Some(Some(objection)) => format!(", not steady: {objection}"),
    }
}

/// The server's last words say more than what its client then says, if the server is what failed.
pub(crate) fn with_last_words(error: anyhow::Error, log: &str) -> anyhow::Error {
    let words = server::complaint(log);
    let interrupted = matches!(error.downcast_ref(), Some(Failure::Interrupted(_)));
    // A client that has ended for another reason leaves this line behind.
    if interrupted || words.contains("connection to client lost") {
        return error;
    }
    if words.contains("PANIC:") || words.contains("FATAL:") { error.context(words.to_string()) } else { error }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_held_up_run_is_made_again_but_for_one_in_which_the_server_died() {
        let run = |held_up: f64, failure: Value| -> model::Run {
            serde_json::from_value(json!({
                "tps_mean": 0.0, "tps_median": 0.0, "tps_min": 0.0, "tps_p5": 0.0,
                "seconds_below_half_median": 0, "seconds_zero": 0, "checkpoints": [],
                "volume_held_up_s": held_up, "server_failure": failure, "series": model::Series::default(),
            }))
            .unwrap()
        };
        let lived = run(2.0 * HELD_UP_S, Value::Null);
        assert!(is_made_again(&lived, 1));
        assert!(!is_made_again(&lived, TRIES));
        assert!(!is_made_again(&run(HELD_UP_S, Value::Null), 1));
        assert!(!is_made_again(&run(2.0 * HELD_UP_S, json!({"at_s": 9.0, "message": "No space left on device"})), 1));
    }

    #[test]
    fn there_is_another_run_where_runs_spread_by_more_than_a_tenth() {
        let spreads = |low, high| spreads(&Figure { median: 1000.0, range: Some((low, high)) });
        assert!(!spreads(950.0, 1050.0));
        assert!(spreads(949.0, 1050.0));
        assert!(spreads(1000.0, 1101.0));
        // Of one run no spread is known.
        assert!(!super::spreads(&Figure { median: 1000.0, range: None }));
    }
}
