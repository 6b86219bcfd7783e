//! Letting an archiver drain a part of the backlog.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context, bail};
use pgcalm_host::{HostRoot, process};
use rustix::process::{Pid, Signal};

use crate::archive::backlog::SLOT;
use crate::cap::Capper;
use crate::installation::Installation;
use crate::server::Server;
use crate::{shared_file, tool};

/// Who takes the files of a part, and how it is told to.
#[derive(Debug)]
pub(super) enum Feed<'a> {
    /// The server's archiver. It is stopped while files are marked as ready, so that it finds all of them at once.
    Archiver {
        /// Its process.
        pid: i32,
        /// pg_wal/archive_status.
        status: PathBuf,
        /// Owner of the marks.
        installation: &'a Installation,
    },
    /// pg_receivewal, started for each part and told where to end.
    Receiver {
        /// The archive.
        archive: PathBuf,
        /// Where its messages go.
        log: PathBuf,
        /// Size of a WAL file.
        segment_size: u64,
        /// The one that is running.
        child: Option<Child>,
    },
}

impl Feed<'_> {
    /// Prepares a part; the archiver does nothing yet.
    pub(super) fn prepare(&mut self, part: &[String]) -> anyhow::Result<()> {
        let Self::Archiver { pid, status, installation } = self else { return Ok(()) };
        signal(*pid, Signal::STOP)?;
        for name in part {
            let path = status.join(format!("{name}.ready"));
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .with_context(|| format!("create {}", path.display()))?;
            shared_file::give(&path, installation)?;
        }
        // Its writes are no part of the drain's.
        let directory = File::open(&*status)?;
        rustix::fs::syncfs(&directory).context("sync the file system of pg_wal")
    }

    /// Starts the drain. `tracer` is what a program is to be started under, if it is to be traced; that is done without caps.
    pub(super) fn start(
        &mut self,
        part: &[String],
        server: &Server,
        capper: &Capper,
        tracer: Option<Command>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Archiver { pid, .. } => {
                // Sets the latch that it waits for, as the end of a WAL file does.
                signal(*pid, Signal::USR1)?;
                signal(*pid, Signal::CONT)
            }
            Self::Receiver { archive, log, segment_size, child } => {
                let last = part.last().context("nothing to receive")?;
                let end = pgcalm_archive::SegmentName::parse(last)
                    .and_then(|name| name.start(*segment_size))
                    .with_context(|| format!("{last} is no WAL file"))?
                    + *segment_size;
                let mut command = server.client("pg_receivewal");
                command
                    .arg("--directory")
                    .arg(&*archive)
                    .args(["--slot", SLOT, "--no-loop", "--status-interval=1"])
                    .arg(format!("--endpos={:X}/{:X}", end >> 32, end as u32));
                let is_capped = tracer.is_none() && capper.group_of_v2().is_some();
                let mut command = match tracer {
                    Some(tracer) => under(tracer, &command, server),
                    None => command,
                };
                let log = shared_file::create(log)?;
                let child = child.insert(tool::spawn(command.stdout(log.try_clone()?).stderr(log))?);
                if is_capped {
                    // Its user may not put it there. It writes nothing before it has connected, which takes longer than this.
                    let pid = child.id() as i32;
                    signal(pid, Signal::STOP)?;
                    capper.admit(pid)?;
                    signal(pid, Signal::CONT)?;
                }
                Ok(())
            }
        }
    }

    /// How many files of a part are acknowledged. Files are taken in order.
    pub(super) fn acknowledged(&self, part: &[String]) -> usize {
        match self {
            Self::Archiver { status, .. } => part.partition_point(|name| status.join(format!("{name}.done")).exists()),
            Self::Receiver { archive, .. } => part.partition_point(|name| archive.join(name).exists()),
        }
    }

    /// Whether the last file of a part is acknowledged.
    pub(super) fn is_done(&mut self, part: &[String]) -> anyhow::Result<bool> {
        let Some(last) = part.last() else { return Ok(true) };
        match self {
            Self::Archiver { status, .. } => Ok(status.join(format!("{last}.done")).exists()),
            Self::Receiver { archive, log, child, .. } => {
                // Its end tells the server how far it has synced.
                let Some(running) = child else { return Ok(true) };
                let Some(status) = running.try_wait()? else { return Ok(false) };
                *child = None;
                if !status.success() || !archive.join(last).exists() {
                    let words = crate::server::read_log(log);
                    bail!("pg_receivewal ended ({status}): {}", tool::last_line(&words));
                }
                Ok(true)
            }
        }
    }

    /// Processes to trace, of those that run: by their titles, since a worker without a database is in no view.
    pub(super) fn traced(&self, root: &HostRoot, server: &Server) -> anyhow::Result<Vec<i32>> {
        let Self::Archiver { .. } = self else { return Ok(Vec::new()) };
        let family = process::family(&process::table(root)?, server.pid());
        Ok(family
            .iter()
            .filter(|process| {
                process::command_line(root, process.pid).is_ok_and(|title| {
                    title.starts_with("postgres: archiver") || title.starts_with("postgres: pg_calm archive")
                })
            })
            .map(|process| process.pid)
            .collect())
    }
}

impl Drop for Feed<'_> {
    fn drop(&mut self) {
        match self {
            // A stopped process would not end with its server.
            Self::Archiver { pid, .. } => {
                let _ = signal(*pid, Signal::CONT);
            }
            Self::Receiver { child: Some(child), .. } => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Self::Receiver { child: None, .. } => {}
        }
    }
}

/// `command` as the last arguments of `tracer`, as the same user.
fn under(mut tracer: Command, command: &Command, server: &Server) -> Command {
    tracer.arg(command.get_program()).args(command.get_args());
    server.as_client(&mut tracer);
    tracer
}

fn signal(pid: i32, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid).context("no process")?;
    rustix::process::kill_process(pid, signal).context("signal what archives")
}
