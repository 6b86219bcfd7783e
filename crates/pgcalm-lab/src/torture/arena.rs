//! A cluster on a file system of its own that crashes again and again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;

use crate::cap::{Capper, Caps};
use crate::connection::{connect, connect_to_copy};
use crate::crash::SharedMemory;
use crate::device::Device;
use crate::filesystem::{FileSystem, Layout};
use crate::module::Module;
use crate::options::{FsType, MountOptions};
use crate::server::{Places, Server};
use crate::stage::Stage;
use crate::torture::ledger::Ledger;
use crate::torture::load::{Load, SPREAD_CHECKPOINT};
use crate::torture::options::{Crash, Options};
use crate::torture::report::{Cycle, Stale};
use crate::torture::sabotage::Sabotage;
use crate::torture::stale::Unsynced;
use crate::torture::{stale, verify};
use crate::{server, server_log, shared_file, template};

/// How long clients may take to notice that their server is gone.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Shortest time under load before a crash, in milliseconds.
const LOAD_MS: u64 = 1000;

/// Time from the start of an immediate checkpoint to a crash that is aimed at it, in milliseconds.
const AIM_MS: std::ops::Range<u64> = 0..200;

/// A checkpoint that is asked for so that the crash comes in it or soon after it.
#[derive(Debug)]
struct Aimed {
    sql: &'static str,
    /// From the start of the load.
    asked_after: Duration,
    /// From then to the crash, at least.
    least: Duration,
}

impl Aimed {
    /// For a crash after `time`: a third of all has none. A spread checkpoint takes a second or more, so it is asked for at any
    /// time before. In a control it would be drained to the device, which then loses nothing.
    fn any(time: Duration, is_control: bool, random: &mut Rng) -> Option<Self> {
        let immediate = Self { sql: "checkpoint", asked_after: time, least: Duration::from_millis(random.u64(AIM_MS)) };
        let spread = Self { sql: SPREAD_CHECKPOINT, asked_after: time.mul_f64(random.f64()), least: Duration::ZERO };
        match random.u32(..3) {
            0 => None,
            1 if !is_control => Some(spread),
            _ => Some(immediate),
        }
    }
}

/// What all arenas of a run share.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub options: &'a Options,
    pub stage: &'a Stage<'a>,
    /// Where devices can be capped without changing anything else of the host.
    pub capper: Option<&'a Capper>,
}

/// A cluster between two crashes: shut down, and whole on the device.
#[derive(Debug)]
pub(super) struct Arena<'a> {
    context: &'a Surroundings<'a>,
    fs_type: FsType,
    /// What is done so that it loses something; nothing but in a control.
    pub sabotage: Option<Sabotage>,
    ledger: Ledger,
    // Unmounted before the device goes.
    file_system: FileSystem,
    device: Device,
}

impl<'a> Arena<'a> {
    /// Makes device, file system and cluster, and loads the first rows.
    pub(super) fn create(
        context: &'a Surroundings<'a>,
        fs_type: FsType,
        settings: &BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let Surroundings { options, stage, .. } = *context;
        stage.progress.note(&format!("making a cluster on {}", fs_type.name()));
        let device = stage.device(fs_type.name(), options.size)?;
        let mount_options = options.mount_options.as_ref().map_or("", MountOptions::as_str);
        let layout = Layout { mount_options, ..Layout::default() };
        let file_system = stage.file_system(fs_type.name(), &device, fs_type, layout)?;
        let mut arena = Self {
            context,
            fs_type,
            sabotage: None,
            ledger: Ledger::new(options.clients, options.rows),
            file_system,
            device,
        };
        arena.init(settings)?;
        // All of it reaches the device, with fsync=off, too.
        arena.file_system.remount()?;
        Ok(arena)
    }

    fn init(&mut self, settings: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let stage = self.context.stage;
        let places = self.places();
        stage.new_cluster(&places.data, &["--data-checksums"])?;
        let server = stage.start(places.clone(), settings)?;
        stage.create_functions(&server)?;
        let mut client = connect(&places.socket)?;
        client
            .batch_execute("create table ledger (id int primary key, version bigint not null, info text not null)")?;
        client
            .batch_execute("create extension amcheck")
            .context("create extension amcheck (it comes with the server's contrib modules)")?;
        let mut loader = connect_to_copy(&places.socket)?;
        let mut copy = loader.copy_in("copy ledger from stdin")?;
        for row in self.ledger.first_rows() {
            writeln!(copy, "{}\t{}\t{}", row.key, row.version, row.info)?;
        }
        copy.finish()?;
        drop((client, loader));
        server.shut_down(stage.interrupt)
    }

    /// Load, crash, recovery, comparison, clean stop. What is found is in the result; a cluster in which something was
    /// found must not be used again.
    pub(super) fn cycle(&mut self, number: u32, crash: Crash, random: &mut Rng) -> anyhow::Result<Cycle> {
        let mut cycle =
            Cycle { number, fs: self.fs_type.name().to_string(), crash: crash.name().to_string(), ..Cycle::default() };
        if self.looks_for_stale_blocks(crash) {
            let Stage { progress, interrupt, .. } = self.context.stage;
            progress.status(&format!("cycle {number}: filling free space"));
            stale::fill(self.file_system.path(), interrupt)?;
        }
        let memory = self.load_and_crash(crash, random, &mut cycle)?;
        if crash == Crash::Shutdown {
            // It would not survive a crash of the machine, either.
            drop(memory);
            self.file_system.remount()?;
            // What can't be read now is no loss that the server is to blame for.
            let settings = self.places().data.join("postgresql.conf");
            shared_file::read(&settings).with_context(|| format!("read {}", settings.display()))?;
            self.remove_empty_lock_file()?;
            if self.looks_for_stale_blocks(crash) {
                cycle.stale = Some(self.stale_after_crash()?);
            }
            self.recover(&mut cycle)?;
            if let Some(stale) = &mut cycle.stale {
                (stale.after_recovery, stale.files) = stale::in_tree(&self.places().data)?;
            }
        } else {
            self.recover(&mut cycle)?;
            drop(memory);
        }
        Ok(cycle)
    }

    fn load_and_crash(
        &mut self,
        crash: Crash,
        random: &mut Rng,
        cycle: &mut Cycle,
    ) -> anyhow::Result<[SharedMemory; 2]> {
        let Surroundings { options, stage, .. } = *self.context;
        let Stage { journal, installation, progress, interrupt, .. } = stage;
        let places = self.places();
        let mut server = Server::restart(journal, installation, places.clone(), interrupt)?;
        // Lifted before the server is ended, if it comes to that.
        let caps = match self.context.capper {
            Some(capper) => {
                let caps = Caps { write_iops: options.iops.0, ..Caps::default() };
                capper.apply(&self.device, caps)?
            }
            None => Vec::new(),
        };
        let mut monitor = connect(&places.socket)?;
        let tracer = match self.sabotage {
            Some(Sabotage::UnsyncedFiles) => {
                Some(Sabotage::deceive_checkpointer(journal.root(), &server, &places, &mut monitor, interrupt)?)
            }
            _ => None,
        };
        let ledger = std::mem::replace(&mut self.ledger, Ledger::new(options.clients, options.rows));
        let load = Load::start(&places.socket, ledger, random)?;
        let unsynced =
            self.looks_for_stale_blocks(crash).then(|| Unsynced::start(self.file_system.path())).transpose()?;

        let started = Instant::now();
        let time = Duration::from_millis(random.u64(LOAD_MS..u64::from(options.seconds.0) * 1000));
        let mut aimed = Aimed::any(time, self.sabotage.is_some(), random);
        let mut end = started + time;
        loop {
            if let Some(error) = died(&mut server, &load)? {
                let words = server::complaint(&server.log()).to_string();
                cycle.problems.push(format!("before the crash: {error}; the server's log: {words}"));
                break;
            }
            match Module::status(&mut monitor).and_then(|status| Ok((status, drained_checkpoints(&mut monitor)?))) {
                Ok((status, drained)) => (cycle.module_status, cycle.drained_checkpoints) = (status, drained),
                // The next look will tell why.
                Err(error) => {
                    interrupt.sleep(Duration::from_millis(100))?;
                    if died(&mut server, &load)?.is_none() {
                        return Err(error);
                    }
                    continue;
                }
            }
            progress.status(&format!("cycle {}: load, crash at {:.1} s", cycle.number, time.as_secs_f64()));
            if let Some(Aimed { sql, least, .. }) = aimed.take_if(|aimed| started.elapsed() >= aimed.asked_after) {
                end = end.max(Instant::now() + least);
                self.ask_aside(&places, sql)?;
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && aimed.is_none() {
                break;
            }
            interrupt.sleep(left.min(Duration::from_millis(100)))?;
        }
        cycle.load_s = started.elapsed().as_secs_f64();
        // The server may give up by itself as soon as its files fail, and is not there to be asked then.
        let before = SharedMemory::of_server(journal.root(), server.pid())?;
        if crash == Crash::Shutdown {
            self.file_system.shut_down()?;
        }
        let memory = [before, server.kill(journal.root())?];
        drop(tracer);
        drop(caps);
        drop(unsynced);
        drop(monitor);

        let end = Instant::now() + LOAD_TIMEOUT;
        while !load.has_ended() {
            if Instant::now() > end {
                bail!("clients do not notice within {} s that their server is gone", LOAD_TIMEOUT.as_secs());
            }
            interrupt.sleep(Duration::from_millis(5))?;
        }
        let done = load.finish()?;
        self.ledger = done.ledger;
        cycle.commits = done.commits;
        cycle.rows_written = done.rows;
        let counter = |name: &str| cycle.module_status.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let errors = counter("errors");
        (cycle.bridged_pages, cycle.flushed_pages, cycle.unflushed_pages) =
            (counter("bridged_pages"), counter("flushed_pages"), counter("unflushed_pages"));
        if errors > 0 {
            cycle.problems.push(format!("pg_calm saw {errors} writeback errors before the crash"));
        }
        let log = server_log::checkpoints(&server::read_log(&places.log));
        cycle.checkpoint = log.running.map(|(_, reason)| reason);
        cycle.checkpoints = log.complete.len() as u32;
        self.keep_log(cycle, "crash")?;
        Ok(memory)
    }

    /// Only where the page cache is lost they show.
    fn looks_for_stale_blocks(&self, crash: Crash) -> bool {
        self.context.options.stale_blocks && crash == Crash::Shutdown
    }

    /// Blocks of deleted files that show up.
    fn stale_after_crash(&self) -> anyhow::Result<Stale> {
        let (before_recovery, _) = stale::in_tree(&self.places().data)?;
        Ok(Stale {
            in_unsynced_files: stale::in_unsynced_files(self.file_system.path())?,
            before_recovery,
            ..Stale::default()
        })
    }

    /// Asks for a checkpoint without waiting for it.
    fn ask_aside(&self, places: &Places, checkpoint: &'static str) -> anyhow::Result<()> {
        let mut client = connect(&places.socket)?;
        std::thread::spawn(move || {
            // Its end, most likely, is that of the server.
            let _ = client.batch_execute(checkpoint);
        });
        Ok(())
    }

    fn recover(&mut self, cycle: &mut Cycle) -> anyhow::Result<()> {
        let Stage { journal, installation, progress, interrupt, .. } = self.context.stage;
        progress.status(&format!("cycle {}: recovery", cycle.number));
        let places = self.places();
        let started = Instant::now();
        let server = match Server::restart(journal, installation, places.clone(), interrupt) {
            Ok(server) => server,
            Err(error) => {
                interrupt.check()?;
                cycle.problems.push(format!("{error:#}"));
                return self.keep_log(cycle, "recovery");
            }
        };
        cycle.recovery_s = Some(started.elapsed().as_secs_f64());
        progress.status(&format!("cycle {}: looking at the data", cycle.number));
        let mut client = connect(&places.socket)?;
        if let Some(rows) = verify::read(&mut client, &mut cycle.problems) {
            let comparison = self.ledger.compare(&rows);
            cycle.rows_compared = comparison.compared;
            cycle.rows_lost = comparison.lost;
            cycle.rows_corrupt = comparison.corrupt;
            cycle.rows_torn = comparison.torn;
        }
        drop(client);
        verify::amcheck(&server, interrupt, &mut cycle.problems)?;
        let stopped = server.shut_down(interrupt);
        interrupt.check()?;
        if let Err(error) = stopped {
            cycle.problems.push(format!("{error:#}"));
        } else {
            verify::checksums(
                installation.command("pg_checksums", &places.data).args(["--check", "-D"]).arg(&places.data),
                interrupt,
                &mut cycle.problems,
            )?;
        }
        verify::log(&server::read_log(&places.log), &mut cycle.problems);
        self.keep_log(cycle, "recovery")
    }

    /// Without fsync the server's lock file may be empty after a crash. Whoever has that removes it and starts the server;
    /// only then it shows what has become of the data.
    fn remove_empty_lock_file(&self) -> anyhow::Result<()> {
        let file = self.places().data.join("postmaster.pid");
        if self.sabotage.is_some() && fs::metadata(&file).is_ok_and(|metadata| metadata.len() == 0) {
            fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
        Ok(())
    }

    /// Where the evidence of a cycle goes with `--keep`.
    fn kept(&self, cycle: &Cycle) -> anyhow::Result<Option<PathBuf>> {
        if !self.context.options.common.keep {
            return Ok(None);
        }
        let control = match self.sabotage {
            Some(Sabotage::FsyncOff) => "control-fsync-",
            Some(Sabotage::UnsyncedFiles) => "control-files-",
            None => "",
        };
        let directory = self.context.stage.dir.kept().join(format!("{control}{}-{}", cycle.fs, cycle.number));
        fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        Ok(Some(directory))
    }

    fn keep_log(&self, cycle: &Cycle, name: &str) -> anyhow::Result<()> {
        if let Some(directory) = self.kept(cycle)? {
            shared_file::read(&self.places().log)
                .and_then(|log| fs::write(directory.join(name).with_extension("log"), log))
                .context("keep the server's log")?;
        }
        Ok(())
    }

    /// Keeps the cluster of a cycle that failed, if that is wanted.
    pub(super) fn keep_cluster(&self, cycle: &Cycle) -> anyhow::Result<()> {
        let Some(directory) = self.kept(cycle)? else { return Ok(()) };
        let target = directory.join("cluster");
        template::copy_tree(
            &self.places().data,
            &target,
            None,
            &self.context.stage.installation,
            self.context.stage.interrupt,
        )
        .with_context(|| format!("keep the cluster in {}", target.display()))?;
        self.context.stage.progress.note(&format!("the cluster is kept in {}", target.display()));
        Ok(())
    }

    fn places(&self) -> Places {
        self.context.stage.places(self.file_system.path().join("cluster"))
    }
}

/// Those of the server that were drained and are complete.
fn drained_checkpoints(client: &mut pgcalm_postgres::Client) -> anyhow::Result<u64> {
    let drained = "select count(*) from pg_calm_checkpoints where drain_time is not null and status = 'complete'";
    let count: i64 = client.query_one(drained, &[])?.try_get(0)?;
    Ok(count as u64)
}

/// Why the load can't go on, although nothing was crashed yet.
fn died(server: &mut Server, load: &Load) -> anyhow::Result<Option<String>> {
    if server.has_ended()? {
        return Ok(Some("the server has ended".to_string()));
    }
    Ok(load.error())
}
