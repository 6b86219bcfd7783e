use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::bail;

use crate::journal::{Change, Journal, Undo};
use crate::restore::RUN_VARIABLE;
use crate::tool;
use crate::trouble::Ground;
use crate::trouble::play::Play;

/// Writes what a program reads, and counts the bytes; ends when there is nobody to read them.
pub(crate) type Feed = fn(&mut ChildStdin, u64, &AtomicU64);

/// A program to be started.
#[derive(Debug)]
pub(crate) struct Start {
    command: Command,
    feed: Option<(Feed, u64)>,
}

impl Start {
    pub(crate) fn of(command: Command) -> Self {
        Self { command, feed: None }
    }

    /// `feed` gives it so many bytes on its standard input.
    pub(crate) fn fed(command: Command, feed: Feed, bytes: u64) -> Self {
        Self { command, feed: Some((feed, bytes)) }
    }
}

/// A program that trouble has started. It ends, with whatever it has started, when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    threads: Vec<JoinHandle<()>>,
    seen: Arc<Seen>,
    undo: Option<Undo>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Printed by the program, or given to it.
    bytes: AtomicU64,
    /// The last line of its output.
    output: Mutex<String>,
    /// The first error that it has told, or what it has told last.
    errors: Mutex<String>,
}

impl Program {
    /// Starts it; `mark` tells it from all others of the run in `directory`.
    pub(crate) fn start(journal: &Journal, directory: &Path, mark: &str, start: Start) -> anyhow::Result<Self> {
        let Start { mut command, feed } = start;
        let run = directory.join(format!("trouble-{mark}"));
        let undo = journal.note(Change::Command { run: run.clone() })?;
        let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        if feed.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = tool::spawn(command.env(RUN_VARIABLE, run).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let seen = Arc::new(Seen::default());
        let mut threads = Vec::new();
        if let Some(output) = child.stdout.take() {
            let seen = Arc::clone(&seen);
            let is_fed = feed.is_some();
            threads.push(thread::spawn(move || swallow(output, &seen, is_fed)));
        }
        if let Some(errors) = child.stderr.take() {
            let seen = Arc::clone(&seen);
            threads.push(thread::spawn(move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    let mut errors = lock(&seen.errors);
                    // psql shows the place below the message.
                    if !line.trim().is_empty() && !is_error(&errors) {
                        *errors = line;
                    }
                }
            }));
        }
        if let (Some((feed, bytes)), Some(mut input)) = (feed, child.stdin.take()) {
            let seen = Arc::clone(&seen);
            threads.push(thread::spawn(move || feed(&mut input, bytes, &seen.bytes)));
        }
        Ok(Self { name, child, threads, seen, undo: Some(undo) })
    }

    /// Whether it has ended; an error if it failed.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        let Some(status) = self.child.try_wait()? else { return Ok(false) };
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if !status.success() {
            bail!("{} failed ({status}): {}", self.name, lock(&self.seen.errors));
        }
        Ok(true)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Bytes that it has printed, or been given.
    pub(crate) fn bytes(&self) -> u64 {
        self.seen.bytes.load(Ordering::Relaxed)
    }

    /// The last line that it has printed.
    pub(crate) fn last_line(&self) -> String {
        lock(&self.seen.output).clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.undo.take());
        let _ = self.child.try_wait();
    }
}

fn is_error(line: &str) -> bool {
    line.contains("ERROR:") || line.contains("error:")
}

/// Reads all that a program prints, as something that keeps nothing of it.
fn swallow(mut output: impl Read, seen: &Seen, is_fed: bool) {
    let mut buffer = vec![0; 1 << 18];
    let mut line = Vec::new();
    while let Ok(length) = output.read(&mut buffer) {
        if length == 0 {
            return;
        }
        if !is_fed {
            seen.bytes.fetch_add(length as u64, Ordering::Relaxed);
        }
        // Only a program that prints little has lines worth keeping.
        if length < 4096 {
            for byte in &buffer[..length] {
                if *byte == b'\n' {
                    *lock(&seen.output) = String::from_utf8_lossy(&line).into_owned();
                    line.clear();
                } else if line.len() < 4096 {
                    line.push(*byte);
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A trouble that is a program from its begin to its end.
pub(crate) struct ByProgram {
    pub(crate) mark: &'static str,
    pub(crate) prepare: fn(&Ground<'_>) -> anyhow::Result<bool>,
    pub(crate) start: fn(&Ground<'_>, Duration) -> anyhow::Result<Start>,
    /// What it has done, from the bytes and the last line that it has printed.
    pub(crate) done: fn(u64, &str) -> Option<String>,
    pub(crate) program: Option<Program>,
    pub(crate) result: Option<String>,
}

impl ByProgram {
    /// One that has nothing to prepare.
    pub(crate) fn new(
        mark: &'static str,
        start: fn(&Ground<'_>, Duration) -> anyhow::Result<Start>,
        done: fn(u64, &str) -> Option<String>,
    ) -> Self {
        Self { mark, prepare: |_| Ok(false), start, done, program: None, result: None }
    }

    fn settle(&mut self) {
        if let Some(program) = &self.program {
            self.result = (self.done)(program.bytes(), &program.last_line());
        }
    }
}

impl Debug for ByProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ByProgram").field(&self.mark).finish()
    }
}

impl Play for ByProgram {
    fn prepare(&mut self, ground: &Ground<'_>) -> anyhow::Result<bool> {
        (self.prepare)(ground)
    }

    fn begin(&mut self, ground: &Ground<'_>, left: Duration) -> anyhow::Result<()> {
        let start = (self.start)(ground, left)?;
        self.program = Some(Program::start(&ground.stage.journal, ground.directory, self.mark, start)?);
        Ok(())
    }

    fn is_over(&mut self, _ground: &Ground<'_>) -> anyhow::Result<bool> {
        match &mut self.program {
            Some(program) => program.has_ended(),
            None => Ok(true),
        }
    }

    fn end(&mut self, _ground: &Ground<'_>) -> anyhow::Result<()> {
        self.settle();
        self.program = None;
        Ok(())
    }

    fn done(&self) -> Option<String> {
        self.result.clone()
    }
}

/// psql with one statement, whose session ends with it, and for which vacuum does not wait.
pub(crate) fn statement(ground: &Ground<'_>, sql: &str) -> Command {
    let mut command = ground.server.psql();
    command.args(["-c", sql]).env("PGOPTIONS", "-c client_connection_check_interval=500 -c vacuum_cost_delay=0");
    command
}

/// `moved 12 MiB`.
pub(crate) fn amount(verb: &str, bytes: u64) -> String {
    match bytes {
        0..=0xF_FFFF => format!("{verb} {} KiB", bytes >> 10),
        _ => format!("{verb} {} MiB", bytes >> 20),
    }
}
