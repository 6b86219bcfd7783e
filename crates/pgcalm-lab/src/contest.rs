//! Contestants under the same load on the same capped devices, in turn.

pub(crate) mod devices;
pub(crate) mod need;
mod options;
pub(crate) mod recycled_wal;
pub mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::LabError;
use crate::backlog::BacklogWatch;
use crate::contest::devices::Devices;
use crate::contest::report as model;
use crate::contestant::Contestant;
use crate::folios;
use crate::fsync_times;
use crate::fsync_times::FsyncTrace;
use crate::interrupt::Interrupt;
use crate::load::Work;
use crate::load::overtime::Overtime;
use crate::load::running::RunningLoad;
use crate::measure;
use crate::measure::Recording;
use crate::sampler::Sampler;
use crate::server;
use crate::server::Server;
use crate::server_log;
use crate::server_sampler::ServerSampler;
use crate::stage::Needs;
use crate::stage::Stage;
use crate::sysctl;
use crate::template::Template;
use crate::trouble::Before;
use crate::trouble::Ground;
use crate::trouble::Table;
use crate::trouble::Troubles;

pub use options::Options;

/// Runs the contest and returns its report. Whatever way it ends, the host is as before.
pub fn run(
    scenario: &str,
    options: &Options,
    interrupt: &Interrupt,
) -> anyhow::Result<model::Report> {
    options.check()?;
    let needs = Needs {
        module: options.contestants.iter().any(|c| c.module),
        troubles: true,
        ..Needs::default()
    };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    need::stack(stage, options)?;
    need::space(stage, options)?;
    let _run_dir = stage.run_dir(None)?;
    let template = Template::obtain(stage, &options.preparation()?)?;
    let mut options = options.clone();
    options.load.settle(template.table_bytes()?);
    let options = &options;
    let devices = Devices::create(stage, options)?;
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
                runs: Vec::new(),
            })
            .collect(),
    };
    let arena = Arena {
        options,
        stage,
        devices: &devices,
        template: &template,
    };
    for repetition in 1..=options.repeat {
        for (contestant, entry) in options.contestants.iter().zip(&mut report.contestants) {
            let label = if options.repeat > 1 {
                format!(
                    "{} (run {repetition} of {})",
                    contestant.name, options.repeat
                )
            } else {
                contestant.name.to_string()
            };
            let run = arena
                .run(contestant, &label, repetition)
                .with_context(|| label.clone())?;
            stage.progress.note(&format!(
                "{label}: {:.0} TPS, worst second {:.0}, {} s at zero, {}, {:.0} device writes/s",
                run.tps_mean,
                run.tps_min,
                run.seconds_zero,
                latency(&run),
                run.data_device.write_ops_per_s
            ));
            entry.runs.push(run);
        }
    }
    Ok(report)
}

/// What the runs of a contest share.
struct Arena<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    devices: &'a Devices<'a>,
    template: &'a Template,
}

impl Arena<'_> {
    fn run(
        &self,
        contestant: &Contestant,
        label: &str,
        repetition: u32,
    ) -> anyhow::Result<model::Run> {
        // Server and client files of this run only.
        let _run_dir = self
            .stage
            .run_dir(Some(&format!("{}-{repetition}", contestant.name)))?;
        self.stage
            .progress
            .note(&format!("{label}: restoring the table on new file systems"));
        let started = Instant::now();
        let mut troubles = Troubles::new(self.options, contestant);
        let scene = self.devices.serve_after(
            self.options,
            self.template,
            &self.options.server_settings(contestant),
            |cluster| {
                troubles.before_start(&Before {
                    stage: self.stage,
                    devices: self.devices,
                    cluster,
                })
            },
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
        let Ground {
            contestant,
            server,
            directory,
            ..
        } = *ground;
        troubles.prepare(ground)?;
        // A kernel that does not tell is no reason not to measure.
        let cached_at_start = folios::cached(ground.cluster).ok();
        let warm_up = self.options.warm_up.0;
        let seconds = self.options.seconds.0;
        self.stage.progress.note(&if warm_up == 0 {
            format!("{label}: measuring {seconds} s")
        } else {
            format!("{label}: measuring {seconds} s after {warm_up} s of load")
        });
        let (data, wal_device) = self.devices.names();
        let lead = Duration::from_secs(warm_up.into());
        let window = Duration::from_secs(seconds.into());
        let mut backlog = BacklogWatch::prepare(
            server,
            self.stage.root(),
            &self.devices.data.name,
            window,
            self.stage.interrupt,
        )?;
        let mut caps = Some(self.devices.limit(self.options, contestant)?);
        let sampler = Sampler::start(self.stage.root().clone(), data, wal_device, server.pid());
        let server_sampler = ServerSampler::start(directory)?;
        let fsync = FsyncTrace::start(server.pid());
        let started = Instant::now();
        let mut load = RunningLoad::start(
            self.stage,
            server,
            directory,
            &self.options.load.choice,
            Work {
                rows: self.options.table_rows(),
                clients: self.options.clients,
                seconds: warm_up + seconds,
                distribution: self.options.distribution(),
                rate: self.options.rate.0,
            },
        )?;
        let load_end = started + lead + window;
        let drain = self
            .options
            .drain
            .0
            .map(|bound| Duration::from_secs(bound.0.into()));
        // Clients that are held by what is drained wait for it under the caps.
        let overtime = Overtime::after(load_end + drain.unwrap_or_default());
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
                    let Some((time, words, _)) = server_log::wal_disk_full(&log) else {
                        return Err(error);
                    };
                    self.stage
                        .progress
                        .note(&format!("{label}: the server gave up: {words}"));
                    server_failure = Some((time, words.to_string()));
                    break;
                }
            }
            if let Some(measured) = started.elapsed().checked_sub(lead) {
                let left = window.saturating_sub(measured);
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
                overtime.check(label, &mut caps, &self.stage.progress)?;
            }
            backlog.poll(started.elapsed().saturating_sub(lead))?;
            self.show(label, started, &load, &sampler, server);
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
        let backlog = if server_failure.is_none() {
            self.stage.progress.status(&format!("{label}: draining"));
            backlog.finish(load_end.min(Instant::now()), drain, caps.is_some())?
        } else {
            None
        };
        let cached_at_end = folios::cached(ground.cluster).ok();
        drop(caps);
        self.stage.progress.status("reading the logs");
        let log = server.log();
        let log = server_log::wal_disk_full(&log)
            .filter(|_| server_failure.is_some())
            .map_or(log.as_str(), |(_time, _words, before)| before);
        Ok(Recording {
            transactions: load.transactions(directory)?.after(warm_up)?,
            seconds,
            samples,
            server: server_samples,
            blocked,
            checkpoints: server_log::checkpoints(log),
            server_failure,
            wal_free_min_mib: Some(wal_free as f64 / f64::from(1 << 20)),
            module_status: module_status.unwrap_or_default(),
            backlog,
            fsync,
            cached: [cached_at_start, cached_at_end],
            troubles: troubles.told(),
        })
    }

    fn show(
        &self,
        label: &str,
        started: Instant,
        load: &RunningLoad,
        sampler: &Sampler,
        server: &Server,
    ) {
        let mut text = format!(
            "{label}: {:>3} of {} s",
            started.elapsed().as_secs(),
            self.options.warm_up.0 + self.options.seconds.0
        );
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
        let log = server_log::checkpoints(&server.log());
        if let Some((_, reason)) = log.running {
            text.push_str(&format!(", checkpoint under way ({reason})"));
        } else if let Some(last) = log.complete.last() {
            text.push_str(&format!(
                ", last checkpoint {:.1} s (sync {:.1} s)",
                last.total_s, last.sync_s
            ));
        }
        self.stage.progress.status(&text);
    }

    fn module_status(&self, server: &Server) -> anyhow::Result<BTreeMap<String, Value>> {
        server.row("pg_calm_status", self.stage.interrupt)
    }
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

/// The server's last words say more than what its client then says, if the server is what failed.
pub(crate) fn with_last_words(error: anyhow::Error, log: &str) -> anyhow::Error {
    let words = server::complaint(log);
    let interrupted = matches!(error.downcast_ref(), Some(LabError::Interrupted));
    // A client that has ended for another reason leaves this line behind.
    if interrupted || words.contains("connection to client lost") {
        return error;
    }
    if words.contains("PANIC:") || words.contains("FATAL:") {
        error.context(words.to_string())
    } else {
        error
    }
}
