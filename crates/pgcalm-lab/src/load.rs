pub(crate) mod choice;
mod command;
pub(crate) mod command_line;
pub(crate) mod overtime;
pub(crate) mod preparation;
pub(crate) mod running;
mod server_counts;
pub(crate) mod workload;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use crate::journal::Undo;
use crate::options::Distribution;
use crate::server::{Clients, Server};
use crate::stage::Stage;
use crate::{shared_file, tool};

/// Name before the first dot of pgbench's per-transaction logs.
pub(crate) const LOG_PREFIX: &str = "transactions";

/// What pgbench is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Rows of the table.
    pub rows: u64,
    /// Connections.
    pub clients: u32,
    /// Duration.
    pub seconds: u32,
    /// Which rows.
    pub distribution: Distribution,
    /// Transactions per second that are begun, at random intervals; as fast as they go if not given.
    pub rate: Option<u32>,
}

/// A running pgbench, or one after the other.
#[derive(Debug)]
pub(crate) struct Load {
    program: Pgbench,
    child: Child,
    /// It was ended, or lost its server, and another one will come.
    rests: bool,
    /// There was no time left for another one.
    is_over: bool,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
    undo: Option<Undo>,
}

/// How it is started.
#[derive(Debug)]
struct Pgbench {
    server: Clients,
    directory: PathBuf,
    arguments: Vec<OsString>,
    clients: u32,
}

/// What becomes of the clients of a load while there is trouble.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Demand {
    /// They are at work.
    #[default]
    Work,
    /// They end what they do, and come back when there is work again.
    Rest,
    /// They lose their connections, and come back likewise.
    CutOff,
}

/// What pgbench has said so far.
#[derive(Debug, Default)]
struct Seen {
    tps: Option<f64>,
    /// The last line that isn't progress.
    message: String,
}

impl Load {
    /// Starts pgbench; its logs go to `directory`.
    pub(crate) fn start(stage: &Stage<'_>, server: &Server, directory: &Path, work: Work) -> anyhow::Result<Self> {
        let script = directory.join("load.sql");
        shared_file::write(&script, work.distribution.script())
            .with_context(|| format!("write {}", script.display()))?;
        let mut arguments: Vec<OsString> = vec!["-D".into(), format!("rows={}", work.rows).into()];
        arguments.extend(work.rate.map(|rate| format!("--rate={rate}").into()));
        arguments.push("-f".into());
        arguments.push(script.into());
        let Work { clients, seconds, .. } = work;
        Self::start_with(stage, server, directory, &arguments, clients, seconds)
    }

    /// The same with transactions that `arguments` of pgbench name.
    pub(crate) fn start_with(
        stage: &Stage<'_>,
        server: &Server,
        directory: &Path,
        arguments: &[OsString],
        clients: u32,
        seconds: u32,
    ) -> anyhow::Result<Self> {
        let undo = stage.journal.note(stage.installation.processes_in(directory))?;
        let program = Pgbench {
            server: server.clients().clone(),
            directory: directory.to_path_buf(),
            arguments: arguments.to_vec(),
            clients,
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (child, reader) = program.start(seconds, &seen)?;
        Ok(Self { program, child, rests: false, is_over: false, seen, reader, undo: Some(undo) })
    }

    /// Does as trouble demands; `left` is what clients who come back work for.
    pub(crate) fn heed(&mut self, demand: Demand, left: Duration) -> anyhow::Result<()> {
        let ended = self.child.try_wait()?.is_some();
        match demand {
            Demand::Work if self.rests && ended => {
                let seconds = left.as_secs_f64().ceil() as u32;
                if seconds > 0 {
                    (self.child, self.reader) = self.program.start(seconds, &self.seen)?;
                    self.rests = false;
                } else {
                    self.is_over = true;
                }
            }
            Demand::Rest if !self.rests && !ended => {
                self.end()?;
                self.rests = true;
            }
            Demand::CutOff => self.rests = true,
            Demand::Work | Demand::Rest => {}
        }
        Ok(())
    }

    /// Transactions per second of the last second that pgbench has reported.
    pub(crate) fn tps(&self) -> Option<f64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).tps
    }

    /// Lets it end now, as if its time were over: that is what its own alarm says (handle_sig_alarm, pgbench.c). Each client
    /// ends its transaction, and all of them are logged.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        // Pids fit: the kernel's own type is i32. That of one that has ended may be somebody else's.
        match Pid::from_raw(self.child.id() as i32) {
            _ if self.rests => Ok(()),
            Some(pid) => rustix::process::kill_process(pid, Signal::ALARM).context("signal pgbench"),
            None => Ok(()),
        }
    }

    /// Whether it has ended and will not come back; an error if it failed.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        if self.rests {
            return Ok(self.is_over);
        }
        let Some(status) = self.child.try_wait()? else { return Ok(false) };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.check(status)?;
        Ok(true)
    }

    fn check(&self, status: ExitStatus) -> anyhow::Result<()> {
        if !status.success() {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            bail!("pgbench failed ({status}): {}", seen.message);
        }
        Ok(())
    }
}

impl Pgbench {
    /// Starts it for so many seconds, with a reader of what it says.
    fn start(&self, seconds: u32, seen: &Arc<Mutex<Seen>>) -> anyhow::Result<(Child, Option<JoinHandle<()>>)> {
        // More threads than CPUs of a small host take from the server what they are to measure.
        let threads = self.clients.min(2);
        let mut command = self.server.command("pgbench");
        // So much work may be asked for in place of so much time.
        if !self.arguments.iter().any(|argument| argument == "-t") {
            command.args(["-T", &seconds.to_string()]);
        }
        let mut child = tool::spawn(
            command
                .current_dir(&self.directory)
                .args(["-n", "-M", "prepared", "-P", "1", "-l"])
                .arg(format!("--log-prefix={LOG_PREFIX}"))
                .args(["-c", &self.clients.to_string()])
                .args(["-j", &threads.to_string()])
                .args(&self.arguments)
                .arg("postgres")
                .stdout(Stdio::null())
                .stderr(Stdio::piped()),
        )?;
        let reader = child.stderr.take().map(|stderr| {
            let seen = Arc::clone(seen);
            std::thread::spawn(move || {
                for line in tool::lines(stderr) {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    match parse_progress(&line) {
                        Some(tps) => seen.tps = Some(tps),
                        None if line.trim().is_empty() => {}
                        None => seen.message = line,
                    }
                }
            })
        });
        Ok((child, reader))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.undo.take());
        let _ = self.child.try_wait();
    }
}

fn parse_progress(line: &str) -> Option<f64> {
    // progress: 5.0 s, 3670.2 tps, lat 1.089 ms stddev 0.512, 0 failed
    let (_, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
    let (tps, _) = rest.split_once(" tps")?;
    tps.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_are_told_from_messages() {
        assert_eq!(parse_progress("progress: 5.0 s, 3670.2 tps, lat 1.089 ms stddev 0.512, 0 failed"), Some(3670.2));
        assert_eq!(parse_progress("progress: 6.0 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed"), Some(0.0));
        assert_eq!(parse_progress("pgbench: error: client 1 aborted in command 1"), None);
    }
}
