use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::journal::{Change, Undo};
use crate::load::command_line::{CommandLine, Told};
use crate::load::server_counts::ServerCounts;
use crate::stage::Stage;
use crate::transaction_log::Transactions;
use crate::{shared_file, tool};
use pgcalm_host::Failure;

/// A program that was told a duration may count it from a moment before its first transaction.
const EARLY: Duration = Duration::from_secs(1);

/// Sessions report the rest of their statistics when they end, which they do when they see that their client has gone.
const SETTLE: Duration = Duration::from_millis(300);

/// Where the command's output goes, in its working directory.
const OUTPUT: &str = "load.out";

/// Its error output.
const ERRORS: &str = "load.err";

/// A running load command.
#[derive(Debug)]
pub(crate) struct CommandLoad {
    program: String,
    child: Child,
    started: Instant,
    seconds: u32,
    directory: PathBuf,
    counts: ServerCounts,
    undo: Option<Undo>,
}

impl CommandLoad {
    /// Starts it, and the counting of transactions in the server.
    pub(crate) fn start(stage: &Stage<'_>, line: &CommandLine, told: &Told) -> anyhow::Result<Self> {
        let undo = stage.journal.note(Change::Command { run: told.directory.to_path_buf() })?;
        let file = |name: &str| {
            let path = told.directory.join(name);
            shared_file::create(&path).with_context(|| format!("create {}", path.display()))
        };
        let counts = ServerCounts::start(told.directory)?;
        let child = line
            .command(&stage.installation, told)
            .stdout(file(OUTPUT)?)
            .stderr(file(ERRORS)?)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| {
                Failure::Host(format!("--load: can't start {} as the servers' user: {error}", line.program()))
            })?;
        Ok(Self {
            program: line.program().to_string(),
            child,
            started: Instant::now(),
            seconds: told.seconds,
            directory: told.directory.to_path_buf(),
            counts,
            undo: Some(undo),
        })
    }

    /// Writing transactions of the last full second.
    pub(crate) fn tps(&self) -> Option<f64> {
        self.counts.tps()
    }

    /// Makes what it has worked its time.
    pub(crate) fn end(&mut self) {
        let worked = self.counts.since_first().unwrap_or_default();
        self.seconds = self.seconds.min(worked.as_secs() as u32);
    }

    /// Whether it has ended, or its time has, counted from its first transaction: then it is stopped. An error if it
    /// failed, ended before, or did nothing.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        let time = Duration::from_secs(self.seconds.into());
        let worked = self.counts.since_first();
        if let Some(status) = self.child.try_wait()? {
            if !status.success() {
                bail!("{} failed ({status}): {}", self.program, self.last_words());
            }
            match worked {
                Some(worked) if worked + EARLY < time => bail!(
                    "{} ended after {} of {} s: {}",
                    self.program,
                    worked.as_secs(),
                    self.seconds,
                    self.last_words()
                ),
                Some(_) => {}
                None => self.fail_idle()?,
            }
        } else {
            match worked {
                Some(worked) if worked >= time => {}
                None if self.started.elapsed() >= time => self.fail_idle()?,
                _ => return Ok(false),
            }
        }
        self.counts.mark_end();
        self.stop()?;
        Ok(true)
    }

    /// What it did, as the server saw it.
    pub(crate) fn transactions(&mut self) -> anyhow::Result<Transactions> {
        self.counts.mark_end();
        self.stop()?;
        thread::sleep(SETTLE);
        self.counts.finish()
    }

    fn fail_idle(&self) -> anyhow::Result<()> {
        bail!(
            "{} made no transaction that writes in {} s: {}",
            self.program,
            self.started.elapsed().as_secs(),
            self.last_words()
        )
    }

    /// Ends it with whatever it has started.
    fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(undo) = self.undo.take() {
            undo.now()?;
        }
        // It has ended; this only frees its entry in the process table.
        let _ = self.child.try_wait();
        Ok(())
    }

    /// Its last line of error output, or of output if there is none.
    fn last_words(&self) -> String {
        [ERRORS, OUTPUT]
            .iter()
            .find_map(|name| last_line(&self.directory.join(name)))
            .unwrap_or_else(|| "no message".to_string())
    }
}

impl Drop for CommandLoad {
    fn drop(&mut self) {
        drop(self.undo.take());
        let _ = self.child.try_wait();
    }
}

fn last_line(path: &Path) -> Option<String> {
    let text = shared_file::read(path).ok()?;
    // The end is enough of what may be long.
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(1 << 16)..]).into_owned();
    (!text.trim().is_empty()).then(|| tool::last_line(&text).to_string())
}
