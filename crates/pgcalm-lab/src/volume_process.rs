//! Volumes that behave like a cloud's, as the lab uses them: `pgcalm lab volume --control` in a process of its own.
//!
//! In a process of its own since what is written to the device must never wait for a thread of the lab, and since a lab
//! that is killed leaves file systems mounted on the volume: they must go on to work until `lab clean` has unmounted
//! them. The process ends when its file system is unmounted.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use pgcalm_volume::{Counters, Volume};

use crate::journal::{Change, Journal, Undo};
use crate::progress::say;
use crate::tool;
use pgcalm_host::Failure;

/// The one file in the volume's file system.
const FILE: &str = "volume";

/// What `pgcalm lab volume` exits with where the host lacks something.
const EXIT_HOST: i32 = 3;

/// The process behind a device.
#[derive(Debug)]
pub struct VolumeProcess {
    child: Child,
    lines: Arc<Mutex<Lines>>,
    mountpoint: PathBuf,
    /// Its undo ends the process.
    mount: Option<Undo>,
    // Undone in this order.
    _process: Undo,
    _directory: Undo,
}

/// Where it is told things, and answers, a line each.
#[derive(Debug)]
struct Lines {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl VolumeProcess {
    /// Puts a volume on `image`; its limits are off. `directory` is for the process, and where its one file appears.
    pub fn start(journal: &Journal, volume: &Volume, image: &Path, directory: &Path) -> anyhow::Result<Self> {
        let program = tool::this_program()?;
        let mountpoint = directory.join("mount");
        let directory_undo = journal.note(Change::Directory { path: directory.to_path_buf() })?;
        std::fs::create_dir_all(&mountpoint).with_context(|| format!("create {}", mountpoint.display()))?;
        // For one that unmounting does not end: a run in a mount namespace of its own was killed, and only the process
        // keeps that namespace.
        let process = journal.note(Change::Processes {
            bindir: program.parent().unwrap_or(Path::new("/")).to_path_buf(),
            directory: directory.to_path_buf(),
        })?;
        let mount = journal.note(Change::Mount { target: mountpoint.clone() })?;
        let mut child = tool::spawn(
            tool::command(program)
                .args(["lab", "volume", "--control", "--profile"])
                .arg(volume.to_string())
                .arg("--image")
                .arg(image)
                .arg("--mount")
                .arg(&mountpoint)
                .current_dir(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        )?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            bail!("the volume's process has no pipes")
        };
        let errors = std::thread::spawn(move || {
            let mut last = String::new();
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                last = line;
            }
            last
        });
        let mut lines = Lines { input, output: BufReader::new(output) };
        let ready = lines.next()?;
        if !ready.starts_with("ready ") {
            let status = child.wait()?;
            let message = errors.join().unwrap_or_default();
            let message = message.trim_start_matches("pgcalm: ").to_string();
            if status.code() == Some(EXIT_HOST) {
                return Err(Failure::Host(message).into());
            }
            bail!("volume {volume}: {message} ({status})");
        }
        Ok(Self {
            child,
            lines: Arc::new(Mutex::new(lines)),
            mountpoint,
            mount: Some(mount),
            _process: process,
            _directory: directory_undo,
        })
    }

    /// The file that the loop device is put on.
    pub fn file(&self) -> PathBuf {
        self.mountpoint.join(FILE)
    }

    /// Puts the limits in force until the result is dropped.
    pub fn limit(&self) -> anyhow::Result<LimitsInForce> {
        self.switch("limits on", "limits off")
    }

    /// Puts so many percent of the limits in the place of all of them until the result is dropped.
    pub fn limit_to(&self, percent: u32) -> anyhow::Result<LimitsInForce> {
        self.switch(&format!("limits on {percent}"), "limits on")
    }

    /// Lets no request be answered for `time`, or until the result is dropped.
    pub fn hang(&self, time: Duration) -> anyhow::Result<LimitsInForce> {
        self.switch(&format!("hang {}", time.as_millis()), "hang 0")
    }

    /// For reading what it has done.
    pub(crate) fn reader(&self) -> VolumeReader {
        VolumeReader(Arc::clone(&self.lines))
    }

    fn switch(&self, order: &str, back: &'static str) -> anyhow::Result<LimitsInForce> {
        switch(&self.lines, order)?;
        Ok(LimitsInForce { lines: Arc::clone(&self.lines), back })
    }
}

impl Drop for VolumeProcess {
    fn drop(&mut self) {
        // Unmounting ends it; where that failed it stays for `lab clean`.
        if let Some(mount) = self.mount.take()
            && mount.now().is_ok()
        {
            let _ = self.child.wait();
        }
    }
}

/// Reads what a volume has done, from any thread.
#[derive(Debug)]
pub(crate) struct VolumeReader(Arc<Mutex<Lines>>);

impl VolumeReader {
    /// Since the volume was made.
    pub(crate) fn counters(&self) -> anyhow::Result<Counters> {
        Ok(serde_json::from_str(&ask(&self.0, "stats")?)?)
    }
}

/// How a volume behaves for a time; taken back when dropped.
#[derive(Debug)]
#[must_use = "dropping this takes it back at once"]
pub struct LimitsInForce {
    lines: Arc<Mutex<Lines>>,
    /// The order that takes it back.
    back: &'static str,
}

impl Drop for LimitsInForce {
    fn drop(&mut self) {
        if let Err(error) = switch(&self.lines, self.back) {
            say(&format!("pgcalm: tell a volume {:?}: {error:#}", self.back));
        }
    }
}

fn ask(lines: &Mutex<Lines>, command: &str) -> anyhow::Result<String> {
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(lines.input, "{command}")
        .and_then(|()| lines.input.flush())
        .map_err(anyhow::Error::from)
        .and_then(|()| lines.next())
        .context("the volume's process has ended")
}

fn switch(lines: &Mutex<Lines>, command: &str) -> anyhow::Result<()> {
    let answer = ask(lines, command)?;
    if answer != "ok" {
        bail!("the volume answered {answer:?} to {command:?}");
    }
    Ok(())
}

impl Lines {
    /// Empty at the end.
    fn next(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_string())
    }
}
