//! One archiver on new file systems: its drains, and the crash.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use pgcalm_host::HostRoot;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::archive::archiver::{Archiver, Way};
use crate::archive::backlog::Backlog;
use crate::archive::cost::{Counters, Detached, Devices};
use crate::archive::feed::Feed;
use crate::archive::options::Options;
use crate::archive::report::{Checkpoint, Crash, Drain, Loaded, Run, Series};
use crate::archive::tracer::Tracer;
use crate::archive::{archiver, backlog, cost, pgbackrest, survivors, tracer};
use crate::cap::{Capper, InForce};
use crate::device::Device;
use crate::filesystem::{FileSystem, Layout};
use crate::load::{LOG_PREFIX, Load, Work};
use crate::options::Distribution;
use crate::server::Server;
use crate::stage::Stage;
use crate::transaction_log::{Micros, Transactions, latency, quantile_ms};
use crate::{server, tool};

/// How often it is looked whether a drain has ended.
const POLL: Duration = Duration::from_millis(2);

/// How often it is looked for programs that have left their parent.
const LOOK: Duration = Duration::from_millis(100);

/// How long a drain may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(900);

/// How long pgbench runs before the drain.
const BEFORE: Duration = Duration::from_secs(4);

/// How long programs may take to end after SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// What all arenas of a run share.
pub(super) struct Surroundings<'a> {
    pub options: &'a Options,
    pub stage: &'a Stage<'a>,
    pub noop_module: Option<&'a PathBuf>,
    pub backlog: &'a Backlog,
    pub data: Device,
    pub wal: Device,
    pub archive: Device,
    pub capper: Capper,
}

impl Surroundings<'_> {
    fn file_system(&self, role: &str, device: &Device) -> anyhow::Result<FileSystem> {
        self.stage.file_system(role, device, self.options.fs, Layout::default())
    }

    fn cap(&self) -> anyhow::Result<Vec<InForce>> {
        let mut caps = self.capper.apply(&self.wal, self.options.wal_caps())?;
        caps.extend(self.capper.apply(&self.archive, self.options.archive_caps())?);
        Ok(caps)
    }

    /// What `dd conv=fsync` writes to the archive's device under its caps, in MiB per second.
    pub(super) fn dd_mib_per_s(&self) -> anyhow::Result<f64> {
        let file_system = self.file_system("archive", &self.archive)?;
        let mib = (u64::from(self.options.files) * self.options.segment_size.bytes()) >> 20;
        let file = file_system.path().join("dd");
        let caps = self.cap()?;
        let started = Instant::now();
        tool::run(
            self.capper
                .command("dd")
                .args(["if=/dev/zero", "bs=1M", "conv=fsync"])
                .arg(format!("count={mib}"))
                .arg(format!("of={}", file.display())),
            self.stage.interrupt,
        )?;
        let speed = mib as f64 / started.elapsed().as_secs_f64();
        drop(caps);
        file_system.discard_contents()?;
        Ok(speed)
    }

    /// Runs one archiver.
    pub(super) fn run(&self, archiver: &Archiver, label: &str, repetition: u32) -> anyhow::Result<Run> {
        let stage = self.stage;
        let run = stage.dir.run();
        let _run_dir = stage.run_dir(Some(&format!("archive-{}-{repetition}", archiver.name)))?;
        stage.progress.note(&format!("{label}: new file systems with the backlog"));
        let mut data = self.file_system("data", &self.data)?;
        let wal = self.file_system("wal", &self.wal)?;
        let archive = self.file_system("archive", &self.archive)?;
        let cluster = data.path().join("cluster");
        let pg_wal = wal.path().join("pg_wal");
        self.backlog.copy_to(&cluster, &pg_wal, &stage.installation, stage.interrupt)?;
        let directory = archive.path().join("wal");
        stage.private_dir(&directory)?;
        // All on disk, and the backlog in the page cache, as WAL is that was written not long ago.
        data.remount()?;
        for path in [wal.path(), archive.path()] {
            rustix::fs::syncfs(fs::File::open(path)?)?;
        }
        let configuration = run.join("pgbackrest.conf");
        pgbackrest::prepare(
            archiver.way,
            &configuration,
            &directory,
            &cluster,
            &run,
            &stage.installation,
            stage.interrupt,
        )?;
        let places = archiver::Places {
            archive: &directory,
            pgbackrest_configuration: &configuration,
            noop_module: self.noop_module,
        };
        let mut settings = self.options.server_settings();
        settings.extend(archiver.settings(&places));
        let server = stage.start(stage.places(cluster), &settings)?;
        self.capper.admit(server.pid())?;
        let arena = Arena {
            context: self,
            archiver,
            label,
            pg_wal,
            directory,
            mark: configuration.clone(),
            server,
            _detached: EndDetached { root: stage.root().clone(), mark: configuration },
            archive,
            detached: Detached::default(),
        };
        let done = arena.drain_all().map_err(|error| {
            let words = server::read_log(&run.join("server.log"));
            error.context(server::complaint(&words).to_string())
        })?;
        data.discard_contents()?;
        wal.discard_contents()?;
        Ok(done)
    }
}

/// An archiver with its server.
struct Arena<'a> {
    context: &'a Surroundings<'a>,
    archiver: &'a Archiver,
    label: &'a str,
    pg_wal: PathBuf,
    /// The archive.
    directory: PathBuf,
    /// What the command line of pgBackRest's programs holds.
    mark: PathBuf,
    // These end before their file systems go.
    server: Server,
    _detached: EndDetached,
    archive: FileSystem,
    detached: Detached,
}

/// From the archiver's waking to the last acknowledgement.
struct Window {
    drain: Drain,
    /// Seconds of the epoch.
    started: f64,
    ended: f64,
    /// Files not yet acknowledged, by second of the epoch.
    queue: BTreeMap<i64, f64>,
}

impl<'a> Arena<'a> {
    fn drain_all(mut self) -> anyhow::Result<Run> {
        let options = self.context.options;
        let backlog = self.context.backlog;
        let (alone, rest) = backlog.files.split_at(options.files as usize);
        let (loaded, rest) = rest.split_at(options.loaded_files() as usize);
        let crash = &rest[..options.crash_files() as usize];
        if self.archiver.needs_module() {
            self.context.stage.create_functions(&self.server)?;
        }
        let mut feed = self.feed()?;

        self.note(&format!("draining {} files", alone.len()));
        feed.prepare(alone)?;
        let caps = self.context.cap()?;
        let window = self.drain(&mut feed, alone, None)?;
        let checkpoint = if options.empty { Some(self.checkpoint(window.drain.files)?) } else { None };
        drop(caps);
        self.note(&format!("{} files in {:.2} s", window.drain.files, window.drain.duration_s));
        let loaded = match options.seconds.0 {
            Some(seconds) if !loaded.is_empty() => Some(self.drain_loaded(&mut feed, loaded, seconds.0)?),
            _ => None,
        };
        let module_status = self.module_status()?;
        let acknowledged = &backlog.files[..alone.len() + options.loaded_files() as usize + crash.len()];
        let crash = if self.archiver.copies() {
            Some(self.crash(feed, crash, acknowledged)?)
        } else {
            drop(feed);
            self.server.discard()?;
            self.archive.discard_contents()?;
            None
        };
        Ok(Run { alone: window.drain, checkpoint, loaded, crash, module_status })
    }

    fn feed(&self) -> anyhow::Result<Feed<'a>> {
        let slot = backlog::SLOT;
        let interrupt = self.context.stage.interrupt;
        if self.archiver.way == Way::PgReceivewal {
            return Ok(Feed::Receiver {
                archive: self.directory.clone(),
                log: self.context.stage.dir.run().join("pg_receivewal.log"),
                segment_size: self.context.options.segment_size.bytes(),
                child: None,
            });
        }
        if !self.context.options.empty {
            self.server.sql(&format!("select pg_drop_replication_slot('{slot}')"), interrupt)?;
        }
        let pid = self.server.sql("select pid from pg_stat_activity where backend_type = 'archiver'", interrupt)?;
        Ok(Feed::Archiver {
            pid: pid.trim().parse().context("the server has no archiver")?,
            status: self.pg_wal.join("archive_status"),
            installation: &self.context.stage.installation,
        })
    }

    fn drain(
        &mut self,
        feed: &mut Feed<'_>,
        part: &[String],
        tracer: Option<std::process::Command>,
    ) -> anyhow::Result<Window> {
        let root = self.context.stage.root().clone();
        let devices = Devices { wal: &self.context.wal.name, archive: &self.context.archive.name };
        let asynchronous = matches!(self.archiver.way, Way::PgBackRest { asynchronous: Some(_), .. });
        let mut queue = BTreeMap::new();
        let before = Counters::read(&root, devices, self.server.pid(), &self.detached)?;
        let started = Instant::now();
        let started_at = now();
        feed.start(part, &self.server, &self.context.capper, tracer)?;
        let mut looked = started;
        while !feed.is_done(part)? {
            self.context.stage.interrupt.check()?;
            if self.server.has_ended()? {
                bail!("the server has ended");
            }
            if started.elapsed() > DRAIN_TIMEOUT {
                bail!(
                    "only {} of {} files are acknowledged after {} s",
                    feed.acknowledged(part),
                    part.len(),
                    DRAIN_TIMEOUT.as_secs()
                );
            }
            if let std::collections::btree_map::Entry::Vacant(second) = queue.entry(now() as i64 + 1) {
                let left = part.len() - feed.acknowledged(part);
                second.insert(left as f64);
                self.context.stage.progress.status(&format!("{}: {left} of {} files left", self.label, part.len()));
            }
            if asynchronous && looked.elapsed() > LOOK {
                self.detached.look(&root, &self.mark)?;
                looked = Instant::now();
            }
            std::thread::sleep(POLL);
        }
        let duration = started.elapsed();
        let ended = now();
        if asynchronous {
            self.detached.look(&root, &self.mark)?;
        }
        let after = Counters::read(&root, devices, self.server.pid(), &self.detached)?;
        let mib = if self.context.options.empty {
            0.0
        } else {
            part.len() as f64 * (self.context.options.segment_size.bytes() as f64 / 1048576.0)
        };
        Ok(Window {
            drain: after.since(&before, part.len() as u64, mib, duration.as_secs_f64()),
            started: started_at,
            ended,
            queue,
        })
    }

    /// What acknowledging has left to do.
    fn checkpoint(&self, files: u64) -> anyhow::Result<Checkpoint> {
        let root = self.context.stage.root();
        let devices = Devices { wal: &self.context.wal.name, archive: &self.context.archive.name };
        let before = Counters::read(root, devices, self.server.pid(), &self.detached)?;
        let started = Instant::now();
        self.server.sql("checkpoint", self.context.stage.interrupt)?;
        let duration_s = started.elapsed().as_secs_f64();
        let after = Counters::read(root, devices, self.server.pid(), &self.detached)?;
        Ok(Checkpoint { duration_s, wal_writes_per_file: after.wal_writes_per_file(&before, files) })
    }

    fn drain_loaded(&mut self, feed: &mut Feed<'_>, part: &[String], seconds: u32) -> anyhow::Result<Loaded> {
        self.note(&format!("draining {} files beside pgbench", part.len()));
        feed.prepare(part)?;
        let directory = self.context.stage.dir.run();
        let caps = self.context.cap()?;
        let mut load = Load::start(
            self.context.stage,
            &self.server,
            &directory,
            Work {
                rows: backlog::ROWS,
                clients: self.context.options.clients,
                seconds: seconds + BEFORE.as_secs() as u32,
                distribution: Distribution::Uniform,
                rate: None,
            },
        )?;
        self.context.stage.interrupt.sleep(BEFORE)?;
        let window = self.drain(feed, part, None)?;
        while !load.has_ended()? {
            self.context.stage.progress.status(&format!("{}: waiting for pgbench to end", self.label));
            self.context.stage.interrupt.sleep(Duration::from_millis(100))?;
        }
        drop(caps);
        let transactions = Transactions::read(&directory, LOG_PREFIX)?;
        loaded(&transactions, window)
    }

    fn module_status(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        if !self.archiver.needs_module() {
            return Ok(BTreeMap::new());
        }
        self.server.row("pg_calm_archive", self.context.stage.interrupt)
    }

    /// The last drain, under strace, and the power cut at its end.
    fn crash(mut self, mut feed: Feed<'_>, part: &[String], acknowledged: &[String]) -> anyhow::Result<Crash> {
        self.note(&format!("draining {} files up to a power cut", part.len()));
        let output = self.context.stage.dir.run().join("syncs");
        feed.prepare(part)?;
        let root = self.context.stage.root().clone();
        let running = feed.traced(&root, &self.server)?;
        let tracer = if running.is_empty() { None } else { Some(Tracer::attach(&running, &output)?) };
        let window = {
            let command = tracer.is_none().then(|| tracer::command(&output));
            self.drain(&mut feed, part, command)?
        };
        // Before anything else: what reaches the disk from now on does not count.
        self.archive.shut_down()?;
        drop(feed);
        drop(self.server.kill(&root)?);
        end_detached(&root, &self.mark)?;
        let calls = match tracer {
            Some(tracer) => tracer.finish()?,
            None => tracer::count(&output)?,
        };
        self.archive.remount()?;
        let survivors =
            survivors::compare(&self.directory, self.context.backlog, acknowledged, self.context.stage.interrupt)?;
        self.archive.discard_contents()?;
        Ok(Crash {
            syncs_per_file: calls as f64 / window.drain.files as f64,
            acknowledged: acknowledged.len() as u64,
            missing: survivors.missing,
            different: survivors.different,
            first_loss: survivors.first_loss,
        })
    }

    fn note(&self, text: &str) {
        self.context.stage.progress.note(&format!("{}: {text}", self.label));
    }
}

/// The figures of a drain beside pgbench.
fn loaded(transactions: &Transactions, window: Window) -> anyhow::Result<Loaded> {
    let first = transactions.started.ceil() as i64;
    let last = *transactions.by_second.keys().next_back().context("no transaction")?;
    // Whole seconds, of which the first with the drain is the drain's.
    let drain_first = window.started.floor() as i64;
    let drain_last = (window.ended.floor() as i64).min(last - 1).max(drain_first);
    let before = transactions.within(first..=drain_first - 1)?;
    let during = transactions.within(drain_first..=drain_last)?;
    let rate = |histogram: &Micros, seconds: i64| histogram.len() as f64 / seconds.max(1) as f64;
    let mut series = Series::default();
    for second in first..last {
        let histogram = transactions.by_second.get(&second);
        series.tps.push(histogram.map_or(0.0, |histogram| histogram.len() as f64));
        series.latency_p99_ms.push(histogram.map(|histogram| quantile_ms(histogram, 0.99)));
        let queue = if second <= drain_first {
            window.drain.files as f64
        } else {
            window.queue.get(&second).copied().unwrap_or(0.0)
        };
        series.queue_files.push(queue);
    }
    Ok(Loaded {
        tps_before: rate(&before, drain_first - first),
        latency_before_ms: latency(&before),
        tps: rate(&during, drain_last - drain_first + 1),
        latency_ms: latency(&during),
        drain: window.drain,
        series,
    })
}

/// Ends what has left the archiver, in whatever way a run ends: it would keep the archive mounted.
struct EndDetached {
    root: HostRoot,
    mark: PathBuf,
}

impl Drop for EndDetached {
    fn drop(&mut self) {
        // Unmounting says what is wrong if this fails.
        let _ = end_detached(&self.root, &self.mark);
    }
}

/// Ends programs that have left the archiver that started them, by their ids.
fn end_detached(root: &HostRoot, mark: &Path) -> anyhow::Result<()> {
    let end = Instant::now() + END_TIMEOUT;
    loop {
        let found = cost::find(root, mark)?;
        if found.iter().all(pgcalm_host::process::Process::is_zombie) {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("pgbackrest does not end after SIGKILL");
        }
        for process in found {
            if let Some(pid) = Pid::from_raw(process.pid) {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Seconds of the epoch.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
