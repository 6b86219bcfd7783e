//! A server with its archive that loses power again and again.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::{Context, bail};
use fastrand::Rng;
use pgcalm_host::process;
use pgcalm_host::process::Process as HostProcess;
use pgcalm_postgres::Client;
use rustix::process::{Pid, Signal};

use crate::archive_crash::options::{Options, Sabotage};
use crate::archive_crash::part::{Part, Volume};
use crate::archive_crash::point::{Interference, Process, Target};
use crate::archive_crash::report::Cycle;
use crate::archive_crash::segments;
use crate::archive_crash::segments::{Segments, When};
use crate::connection::connect;
use crate::crash::SharedMemory;
use crate::options::FsType;
use crate::server::{Places, Server};
use crate::stage::Stage;
use crate::strace::Strace;
use crate::{server, shared_file, shell, tool};

/// Segments that wait for the archiver when it begins, and in each round after that.
const SEGMENTS: (u32, u32) = (4, 3);

/// Rounds of segments and a checkpoint in which the process may come to its point.
const ROUNDS: u32 = 6;

/// The latest call after which a process is stopped.
const LAST_CALL: u32 = 4;

/// How long the archiver may take for a round; checkpoints come whether it is done or not.
const ARCHIVING: Duration = Duration::from_secs(5);

/// How long a checkpoint may take.
const CHECKPOINT: Duration = Duration::from_secs(10);

/// How long processes of a started server may take to be there.
const START: Duration = Duration::from_secs(20);

/// How long archiving may take to catch up: a failed attempt is repeated after a minute, or with the next segment.
const CATCH_UP: Duration = Duration::from_secs(90);

/// How often waits look.
const POLL: Duration = Duration::from_millis(20);

/// A cluster with its archive between two power cuts: shut down, and whole on its devices.
#[derive(Debug)]
pub(super) struct Arena<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    fs_type: FsType,
    sabotage: Option<Sabotage>,
    segments: Segments,
    volumes: [Volume; 3],
}

impl<'a> Arena<'a> {
    /// Makes devices, file systems and a cluster that archives; room is for so many cycles.
    pub(super) fn create(
        options: &'a Options,
        stage: &'a Stage<'a>,
        fs_type: FsType,
        sabotage: Option<Sabotage>,
        cycles: u32,
    ) -> anyhow::Result<Self> {
        stage.progress.note(&format!("making a cluster on {}", fs_type.name()));
        let volume = |part| Volume::create(stage, part, fs_type, cycles);
        let mut arena = Self {
            options,
            stage,
            fs_type,
            sabotage,
            segments: Segments::default(),
            volumes: [volume(Part::Archive)?, volume(Part::Data)?, volume(Part::Status)?],
        };
        arena.init()?;
        Ok(arena)
    }

    fn init(&mut self) -> anyhow::Result<()> {
        let stage = self.stage;
        let [archive, data, status] = self.directories();
        for directory in [&archive, &status] {
            stage.private_dir(directory)?;
        }
        stage.new_cluster(&data, &["--wal-segsize=1"])?;
        let in_pg_wal = data.join("pg_wal/archive_status");
        fs::remove_dir(&in_pg_wal)
            .and_then(|()| symlink(&status, &in_pg_wal))
            .with_context(|| format!("put a link in the place of {}", in_pg_wal.display()))?;
        let mut settings = self.options.server_settings();
        settings.insert("pg_calm_archive.directory".into(), archive.display().to_string());
        if self.sabotage == Some(Sabotage::Cp) {
            let archive = shell::word(&archive);
            settings.remove("archive_library");
            settings.insert("archive_command".into(), format!("test ! -e {archive}/%f && cp %p {archive}/%f"));
        }
        let places = self.places();
        let server = stage.start(places.clone(), &settings)?;
        connect(&places.socket)?.batch_execute("create table filler (t text)")?;
        server.shut_down(stage.interrupt)?;
        self.volumes.iter().try_for_each(Volume::sync)
    }

    /// Archiving, a power cut, a look, recovery, another look, a clean stop. What is found is in the result; if the server
    /// did not recover, the arena must not be used again.
    pub(super) fn cycle(&mut self, number: u32, interference: Interference, random: &mut Rng) -> anyhow::Result<Cycle> {
        let mut cycle = Cycle { number, fs: self.fs_type.name().to_string(), ..Cycle::default() };
        let synced = match interference {
            Interference::Stop(point) => {
                cycle.point = Some(point.name());
                cycle.call = random.u32(1..=LAST_CALL);
                Part::ALL.into_iter().filter(|_| random.bool()).collect()
            }
            Interference::Sabotage(sabotage) => sabotage.synced(),
        };
        cycle.synced = synced.iter().map(|part| part.name().to_string()).collect();
        self.archive_until_power_cut(interference, &synced, &mut cycle)?;
        self.keep_log(&cycle, "crash")?;
        cycle.segments = self.segments.len();
        cycle.violations = self.verify(When::AfterPowerCut);
        if !cycle.is_sound() {
            self.keep_all(&cycle)?;
            // A control has shown what it had to.
            if self.sabotage.is_some() {
                return Ok(cycle);
            }
        }
        self.recover(&mut cycle)?;
        self.keep_log(&cycle, "recovery")?;
        Ok(cycle)
    }

    fn archive_until_power_cut(
        &mut self,
        interference: Interference,
        synced: &[Part],
        cycle: &mut Cycle,
    ) -> anyhow::Result<()> {
        let places = self.places();
        let server = self.start()?;
        let mut client = connect(&places.socket)?;
        let archiver = self.pids_of(&server, Process::Archiver)?;
        self.pids_of(&server, Process::Checkpointer)?;
        // Announcements that are durable before they are acknowledged: only then can they come back.
        signal(&archiver, Signal::STOP)?;
        for _ in 0..SEGMENTS.0 {
            self.finish_segment(&mut client)?;
        }
        self.volume(Part::Status).sync()?;
        let (victims, tracer) = self.interfere(&server, interference, cycle.call)?;
        signal(&archiver, Signal::CONT)?;
        cycle.stopped = self.archive(&victims, &mut client)?;
        self.cut_power(server, synced)?;
        drop(tracer);
        Ok(())
    }

    /// Lets strace do what belongs to the cycle; returns the processes of which one is to be stopped.
    fn interfere(
        &self,
        server: &Server,
        interference: Interference,
        call: u32,
    ) -> anyhow::Result<(Vec<i32>, Option<Strace>)> {
        let (process, call, how, target) = match interference {
            Interference::Stop(point) => (point.process, point.call, format!("signal=STOP:when={call}"), point.target),
            Interference::Sabotage(sabotage) => match sabotage.swallowed_fsync() {
                Some((process, target)) => (process, "fsync", "retval=0".to_string(), target),
                None => return Ok((Vec::new(), None)),
            },
        };
        let mut pids = self.pids_of(server, process)?;
        let path = self.path(target);
        let strace = Strace::tamper(&pids, call, &how, path.as_deref().as_slice())?;
        if let Interference::Sabotage(_) = interference {
            pids.clear();
        }
        Ok((pids, Some(strace)))
    }

    /// Makes segments and checkpoints until one of `victims` is stopped; says whether one was.
    fn archive(&mut self, victims: &[i32], client: &mut Client) -> anyhow::Result<bool> {
        let socket = self.places().socket;
        let status = self.volume(Part::Status).directory();
        for _ in 0..ROUNDS {
            for _ in 0..SEGMENTS.1 {
                self.finish_segment(client)?;
            }
            // The archiver needs time for what makes segments go.
            self.wait(ARCHIVING, || Ok(self.is_stopped(victims) || segments::all_are_archived(&status)?))?;
            let checkpoint = checkpoint_aside(connect(&socket)?);
            self.wait(CHECKPOINT, || Ok(self.is_stopped(victims) || checkpoint.is_finished()))?;
            if self.is_stopped(victims) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All power at once; the parts in `synced` were synced just before.
    fn cut_power(&mut self, server: Server, synced: &[Part]) -> anyhow::Result<()> {
        let root = self.stage.root();
        for volume in &self.volumes {
            if synced.contains(&volume.part) {
                volume.sync()?;
            }
        }
        // The server may give up by itself as soon as its files fail, and is not there to be asked then.
        let before = SharedMemory::of_server(root, server.pid())?;
        self.volumes.iter().try_for_each(Volume::cut_power)?;
        let after = server.kill(root)?;
        // It would not survive a power cut, either.
        drop((before, after));
        self.volumes.iter_mut().try_for_each(Volume::mount_again)?;
        self.remove_lock_files()
    }

    /// A number in them may by then be that of another process.
    fn remove_lock_files(&self) -> anyhow::Result<()> {
        let places = self.places();
        let socket = format!(".s.PGSQL.{}", server::PORT);
        for file in [
            places.data.join("postmaster.pid"),
            places.socket.join(format!("{socket}.lock")),
            places.socket.join(socket),
        ] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("remove {}", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn recover(&mut self, cycle: &mut Cycle) -> anyhow::Result<()> {
        let interrupt = self.stage.interrupt;
        let started = Instant::now();
        let server = match self.start() {
            Ok(server) => server,
            Err(error) => {
                interrupt.check()?;
                cycle.problems.push(format!("{error:#}"));
                return Ok(());
            }
        };
        cycle.recovery_s = Some(started.elapsed().as_secs_f64());
        let caught_up = self.catch_up()?;
        if !caught_up {
            let words = server::complaint(&server.log()).to_string();
            cycle.problems.push(format!("archiving does not go on; the server's log: {words}"));
        }
        cycle.segments = self.segments.len();
        let found = self.verify(When::recovered(caught_up, self.sabotage.is_some()));
        if !found.is_empty() {
            cycle.violations.extend(found);
            self.keep_all(cycle)?;
        }
        server.shut_down(interrupt)
    }

    /// Lets everything be archived; says whether it was.
    fn catch_up(&mut self) -> anyhow::Result<bool> {
        let mut client = connect(&self.places().socket)?;
        // It announces again what has lost its announcement.
        client.batch_execute("checkpoint")?;
        self.finish_segment(&mut client)?;
        let status = self.volume(Part::Status).directory();
        self.wait(CATCH_UP, || Ok(segments::all_are_archived(&status)?))
    }

    fn verify(&mut self, when: When) -> Vec<String> {
        let [archive, data, status] = self.directories();
        let places = segments::Places { pg_wal: &data.join("pg_wal"), archive: &archive, status: &status };
        self.segments.verify(places, when)
    }

    /// Makes and notes one finished segment.
    fn finish_segment(&mut self, client: &mut Client) -> anyhow::Result<()> {
        client.batch_execute("insert into filler select md5(random()::text) from generate_series(1, 20)")?;
        let row = client.query_one("select pg_walfile_name(pg_switch_wal())", &[])?;
        let pg_wal = self.volume(Part::Data).directory().join("pg_wal");
        self.segments.note(&pg_wal, row.try_get(0)?)
    }

    fn start(&self) -> anyhow::Result<Server> {
        let Stage { journal, installation, interrupt, .. } = self.stage;
        Server::restart(journal, installation, self.places(), interrupt)
    }

    /// The processes of a running server. By their title: a worker has no session, and so is not in pg_stat_activity.
    fn pids_of(&self, server: &Server, process: Process) -> anyhow::Result<Vec<i32>> {
        let root = self.stage.root();
        let title = format!("postgres: {}", process.title());
        let mut pids = Vec::new();
        let are_there = self.wait(START, || {
            let family = process::family(&process::table(root)?, server.pid());
            pids = family.iter().map(|member| member.pid).collect();
            pids.retain(|pid| {
                // It may have ended meanwhile.
                process::command_line(root, *pid).is_ok_and(|line| line.starts_with(&title))
            });
            Ok(!pids.is_empty())
        })?;
        if !are_there {
            bail!("the server has no {}", process.title());
        }
        Ok(pids)
    }

    /// Whether one of them was stopped by a signal, and not only looked at by strace on its way through a call.
    fn is_stopped(&self, pids: &[i32]) -> bool {
        pids.iter().any(|pid| {
            (0..4).all(|_| {
                let process = HostProcess::read(self.stage.root(), *pid);
                let is_stopped = process.is_ok_and(|now| matches!(now.state, 't' | 'T'));
                if is_stopped {
                    thread::sleep(POLL / 2);
                }
                is_stopped
            })
        })
    }

    /// Waits until `is_met` says so; whether it did in time.
    fn wait(&self, time: Duration, mut is_met: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
        let end = Instant::now() + time;
        while !is_met()? {
            if Instant::now() > end {
                return Ok(false);
            }
            self.stage.interrupt.sleep(POLL)?;
        }
        Ok(true)
    }

    fn volume(&self, part: Part) -> &Volume {
        let [archive, data, status] = &self.volumes;
        match part {
            Part::Archive => archive,
            Part::Data => data,
            Part::Status => status,
        }
    }

    /// Archive, data directory, status files.
    fn directories(&self) -> [PathBuf; 3] {
        self.volumes.each_ref().map(Volume::directory)
    }

    fn path(&self, target: Target) -> Option<PathBuf> {
        let [archive, data, _] = self.directories();
        match target {
            Target::Any => None,
            Target::Archive => Some(archive),
            Target::PgWal => Some(data.join("pg_wal")),
        }
    }

    fn places(&self) -> Places {
        self.stage.places(self.volume(Part::Data).directory())
    }

    /// Where the evidence of a cycle goes with `--keep`.
    fn kept(&self, cycle: &Cycle) -> anyhow::Result<Option<PathBuf>> {
        if !self.options.common.keep {
            return Ok(None);
        }
        let control = self.sabotage.map_or(String::new(), |it| format!("control-{}-", it.name()));
        let name = format!("archive-crash-{control}{}-{}", cycle.fs, cycle.number);
        let directory = self.stage.dir.kept().join(name);
        fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        Ok(Some(directory))
    }

    fn keep_log(&self, cycle: &Cycle, name: &str) -> anyhow::Result<()> {
        if let Some(directory) = self.kept(cycle)? {
            let target = directory.join(name).with_extension("log");
            shared_file::read(&self.places().log)
                .and_then(|log| fs::write(target, log))
                .context("keep the server's log")?;
        }
        Ok(())
    }

    /// Keeps cluster, archive and status files of a cycle that failed, as they are.
    fn keep_all(&self, cycle: &Cycle) -> anyhow::Result<()> {
        let Some(directory) = self.kept(cycle)? else { return Ok(()) };
        let Stage { interrupt, progress, .. } = self.stage;
        for volume in &self.volumes {
            let target = directory.join(volume.part.name());
            if !target.exists() {
                tool::run(tool::command("cp").arg("-a").arg(volume.directory()).arg(&target), interrupt)
                    .with_context(|| format!("keep {} of a failed cycle", volume.part.name()))?;
            }
        }
        progress.note(&format!("its files are kept in {}", directory.display()));
        Ok(())
    }
}

/// Asks for a checkpoint, which may never come to its end.
fn checkpoint_aside(mut client: Client) -> JoinHandle<()> {
    thread::spawn(move || {
        // Its end, most likely, is that of the server.
        let _ = client.batch_execute("checkpoint");
    })
}

fn signal(pids: &[i32], signal: Signal) -> anyhow::Result<()> {
    for pid in pids {
        let pid = Pid::from_raw(*pid).context("no process")?;
        rustix::process::kill_process(pid, signal).context("signal a process of the server")?;
    }
    Ok(())
}
