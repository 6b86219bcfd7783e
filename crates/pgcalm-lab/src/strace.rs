//! strace, attached to processes of a server: it counts their calls, or tampers with them.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use crate::tool;

/// How long it may take to let go of what it traces.
const PATIENCE: Duration = Duration::from_secs(5);

/// A strace at work. Dropping it ends it, and what it traces goes on without it.
#[derive(Debug)]
pub(crate) struct Strace(Child);

impl Strace {
    /// Attaches to `pids` with `arguments` that say what to do there; returns once it is there.
    pub(crate) fn attach<A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
        pids: &[i32],
    ) -> anyhow::Result<Self> {
        let mut command = tool::command("strace");
        command.args(arguments);
        for pid in pids {
            command.arg("-p").arg(pid.to_string());
        }
        Self::spawn(&mut command, pids.len())
    }

    /// Tampers with what each of `pids` calls by `call`, on any file or on those of `paths` if it has some. `how` is as in strace's
    /// `inject`, e.g. `retval=0`: the call does nothing and succeeds.
    pub(crate) fn tamper(pids: &[i32], call: &str, how: &str, paths: &[&Path]) -> anyhow::Result<Self> {
        let mut arguments: Vec<OsString> = vec![
            "-e".into(),
            format!("trace={call}").into(),
            "-e".into(),
            format!("inject={call}:{how}").into(),
            "-o".into(),
            "/dev/null".into(),
        ];
        for path in paths {
            arguments.extend(["-P".into(), path.into()]);
        }
        Self::attach(arguments, pids)
    }

    fn spawn(command: &mut Command, processes: usize) -> anyhow::Result<Self> {
        let mut child = tool::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
        let words = child.stderr.take();
        let strace = Self(child);
        let mut words = BufReader::new(words.context("strace has no standard error")?).lines();
        let mut attached = 0;
        while attached < processes {
            match words.next() {
                Some(Ok(line)) if line.contains("attached") => attached += 1,
                // Of -P, where a link is on the way to it.
                Some(Ok(line)) if line.contains("Requested path") => {}
                Some(Ok(line)) => bail!("{line}"),
                _ => bail!("strace ended before it was attached"),
            }
        }
        // It must not block on what it has to say later.
        thread::spawn(move || words.for_each(drop));
        Ok(strace)
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // Mostly it has ended with those that it traced. Else it is asked to, so that it lets go of them first.
        let pid = Pid::from_raw(self.0.id() as i32);
        if let (Ok(None), Some(pid)) = (self.0.try_wait(), pid) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while let Ok(None) = self.0.try_wait() {
            if Instant::now() > end {
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
