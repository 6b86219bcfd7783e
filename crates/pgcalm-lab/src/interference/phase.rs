//! Some seconds of the victim's life, with the neighbour idle or noisy.

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use crate::cap::{Caps, InForce};
use crate::device::Device;
use crate::interference::device_rates::Counters;
use crate::interference::hang::{HangSampler, Watched};
use crate::interference::login::Cold;
use crate::interference::neighbour::Noise;
use crate::interference::probe::Probe;
use crate::interference::report::{Hang, Phase};
use crate::interference::{Surroundings, login};
use crate::load::overtime::Overtime;
use crate::load::{LOG_PREFIX, Load};
use crate::server::Server;
use crate::stage::Stage;
use crate::transaction_log;
use crate::transaction_log::Transactions;

/// Files that the probe leaves lying before it removes them.
const FILES: u64 = 100;

/// The two instances of a layout.
pub(super) struct Pair<'a> {
    pub context: &'a Surroundings<'a>,
    pub label: &'a str,
    pub victim: &'a Server,
    pub victim_socket: PathBuf,
    pub victim_data: PathBuf,
    pub neighbour: &'a Server,
    pub neighbour_socket: PathBuf,
    /// Where the victim's file system is mounted.
    pub directory: PathBuf,
    /// All that are there, with their names in the report.
    pub devices: Vec<(&'static str, &'a Device)>,
    /// The device on which the neighbour is capped.
    pub capped: &'a Device,
    pub caps: Caps,
}

/// What goes on in a phase. Dropped in this order: all that follows waits for what the cap holds up.
struct Running {
    caps: Option<Vec<InForce>>,
    load: Load,
    connects: Probe,
    cold_connects: Cold,
    files: Probe,
    hangs: HangSampler,
    noise: Option<Noise>,
}

impl Pair<'_> {
    /// Measures one phase; where processes hung is told with it.
    pub(super) fn measure(&self, noisy: bool) -> anyhow::Result<(Phase, Vec<Hang>)> {
        let Surroundings { options, capper, .. } = self.context;
        let name = if noisy { "noisy" } else { "alone" };
        // Made now: later it might wait for the journal itself.
        let files = self.directory.join(format!("pgcalm-{name}"));
        fs::DirBuilder::new().mode(0o700).create(&files).with_context(|| format!("create {}", files.display()))?;
        // In this order: the noise needs its connections before it is capped.
        let noise = noisy.then(|| Noise::start(&self.neighbour_socket, options.sessions)).transpose()?;
        // The neighbour's quota; the limits of a volume are everybody's.
        let mut caps = capper.apply_to(&self.capped.number, self.caps)?;
        caps.extend(self.capped.limit()?.map(InForce::Volume));
        self.under_load(Around { caps, noise }, name, &files)
    }

    fn under_load(&self, around: Around, name: &str, files_directory: &Path) -> anyhow::Result<(Phase, Vec<Hang>)> {
        let Surroundings { options, stage, .. } = self.context;
        let Stage { journal, progress, interrupt, dir, .. } = stage;
        let window = Duration::from_secs(options.seconds.0.into());
        let seconds = options.lead.0 + options.seconds.0;
        progress.note(&format!("{}: {name}, measuring the last {} of {seconds} s", self.label, options.seconds.0));
        let directory = dir.run().join(name);
        stage.private_dir(&directory)?;
        let started = Instant::now();
        let load = Load::start_with(stage, self.victim, &directory, &[], options.clients, seconds)?;
        let leading = Leading { around, load };
        interrupt.sleep(Duration::from_secs(options.lead.0.into()))?;
        let measured_from = SystemTime::now();
        let counters = Counters::read(journal.root(), self.devices.iter().copied())?;
        let mut devices = None;
        let hangs = HangSampler::start(
            journal.root().clone(),
            Watched {
                victim: self.victim.pid(),
                neighbour: self.neighbour.pid(),
                device: self.context.shared.name.clone(),
            },
        );
        let cold_connects = Cold::start(&self.victim_socket, &self.victim_data)?;
        let mut running = Running {
            caps: Some(leading.around.caps),
            load: leading.load,
            connects: login::warm(&self.victim_socket),
            cold_connects,
            files: files(files_directory),
            hangs,
            noise: leading.around.noise,
        };
        let mut cap_lifted = false;
        let overtime = Overtime::after(started + Duration::from_secs(seconds.into()));
        while !running.load.has_ended()? {
            if devices.is_none() && started.elapsed().as_secs() >= seconds.into() {
                devices = Some(counters.rates()?);
            }
            cap_lifted |= overtime.check(self.label, &mut running.caps, progress)?;
            if let Some(tps) = running.load.tps() {
                progress.status(&format!(
                    "{}: {name}, {:>3} of {seconds} s, {tps:.0} TPS",
                    self.label,
                    started.elapsed().as_secs()
                ));
            }
            interrupt.sleep(Duration::from_millis(100))?;
        }
        let devices = devices.map_or_else(|| counters.rates(), Ok)?;
        let Running { caps, load, connects, cold_connects, files, hangs, noise } = running;
        let hangs = hangs.finish();
        drop(caps);
        drop(load);
        let (connects, files) = (connects.finish(window)?, files.finish(window)?);
        let cold_connects = cold_connects.finish(window)?;
        if noise.as_ref().is_some_and(|noise| !noise.is_alive()) {
            bail!(
                "the neighbour's sessions have ended before their time ({}): use a larger --size",
                crate::server::complaint(&self.neighbour.log())
            );
        }
        let databases = noise.as_ref().map_or(0, Noise::made);
        drop(noise);
        let transactions = Transactions::read(&directory, LOG_PREFIX)?;
        let first = seconds_of(measured_from).ceil() as i64;
        let tps = per_second(&transactions, first, options.seconds.0);
        let phase = Phase {
            tps_mean: tps.iter().sum::<f64>() / tps.len() as f64,
            tps_min: tps.iter().copied().fold(f64::INFINITY, f64::min),
            seconds_zero: tps.iter().filter(|tps| **tps == 0.0).count() as u32,
            latency_ms: transaction_log::latency(&transactions.ended_from(first)?),
            connects_per_s: connects.per_s,
            connect_max_ms: connects.max_ms,
            cold_connects_per_s: cold_connects.per_s,
            cold_connect_max_ms: cold_connects.max_ms,
            files_per_s: files.per_s,
            file_max_ms: files.max_ms,
            databases,
            cap_lifted,
            devices,
            tps,
        };
        Ok((phase, hangs))
    }
}

/// What goes on around the load. Dropped in this order, if it comes to that.
struct Around {
    caps: Vec<InForce>,
    noise: Option<Noise>,
}

/// What goes on until measuring begins, likewise.
struct Leading {
    around: Around,
    load: Load,
}

/// Makes files in `directory`: what whoever needs the journal waits for.
fn files(directory: &Path) -> Probe {
    let directory = directory.to_path_buf();
    let block = [1; 8192];
    Probe::start(Duration::ZERO, move |number| {
        let path = |number: u64| directory.join(number.to_string());
        let mut file = fs::File::create(path(number))?;
        file.write_all(&block)?;
        file.sync_all()?;
        if number % FILES == FILES - 1 {
            for old in number + 1 - FILES..=number {
                fs::remove_file(path(old))?;
            }
        }
        Ok(())
    })
}

fn seconds_of(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Transactions ended in each full second of the window, which has one less than it lasts.
fn per_second(transactions: &Transactions, first: i64, seconds: u32) -> Vec<f64> {
    (first..first + i64::from(seconds) - 1)
        .map(|second| {
            let ended = transactions.by_second.get(&second);
            ended.map_or(0.0, |histogram| histogram.len() as f64)
        })
        .collect()
}
