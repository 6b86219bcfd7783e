//! strace, which counts what an archiver syncs.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context;
use anyhow::bail;

use crate::tool;

/// The calls that are counted.
const CALLS: [&str; 4] = ["fsync", "fdatasync", "syncfs", "sync"];

/// A running strace.
#[derive(Debug)]
pub struct Tracer {
    child: Child,
    output: PathBuf,
}

/// strace itself, to attach to processes or to start one. Children are followed; only the calls that count stop them.
pub fn command(output: &Path) -> Command {
    let mut command = tool::command("strace");
    command
        .args(["-f", "--seccomp-bpf", "-e"])
        .arg(format!("trace={}", CALLS.join(",")))
        .arg("-o")
        .arg(output);
    command
}

impl Tracer {
    /// Attaches to processes; returns once it is there.
    pub fn attach(pids: &[i32], output: &Path) -> anyhow::Result<Self> {
        let mut command = tool::command("strace");
        // Without --seccomp-bpf, which can't be had for a process that is running.
        command
            .args(["-f", "-e"])
            .arg(format!("trace={}", CALLS.join(",")))
            .arg("-o")
            .arg(output);
        for pid in pids {
            command.arg("-p").arg(pid.to_string());
        }
        let mut child = tool::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
        let words = child.stderr.take();
        let tracer = Self {
            child,
            output: output.to_path_buf(),
        };
        let mut attached = 0;
        let mut words = BufReader::new(words.context("strace has no standard error")?).lines();
        while attached < pids.len() {
            match words.next() {
                Some(Ok(line)) if line.contains("attached") => attached += 1,
                Some(Ok(line)) => bail!("{line}"),
                _ => bail!("strace ended before it was attached"),
            }
        }
        // It must not block on what it has to say later.
        std::thread::spawn(move || words.for_each(drop));
        Ok(tracer)
    }

    /// Ends it and returns how many calls there were.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        self.end();
        count(&self.output)
    }

    fn end(&mut self) {
        // Asked to end, it lets go of those that it traces; mostly they have ended, and it with them.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.end();
        }
    }
}

/// Calls in the output of strace.
pub fn count(output: &Path) -> anyhow::Result<u64> {
    let text = fs::read(output).with_context(|| format!("read {}", output.display()))?;
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| is_call(line))
        .count() as u64)
}

/// `1234  fsync(3) = 0` or `1234 fsync(3 <unfinished ...>`; the end of the latter is a line of its own.
fn is_call(line: &str) -> bool {
    let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    CALLS.iter().any(|name| {
        call.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('('))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_counts_once() {
        assert!(is_call("1234  fsync(3)                          = 0"));
        assert!(is_call("1234 fdatasync(5 <unfinished ...>"));
        assert!(is_call("7 sync()                                = 0"));
        assert!(!is_call("1234 <... fdatasync resumed>)           = 0"));
        assert!(!is_call("1234 +++ exited with 0 +++"));
        assert!(!is_call("1234 --- SIGCHLD {si_signo=SIGCHLD} ---"));
    }
}
