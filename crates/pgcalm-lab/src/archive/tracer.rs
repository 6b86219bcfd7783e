//! strace, which counts what an archiver syncs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::strace::Strace;
use crate::{shared_file, tool};

/// The calls that are counted.
const CALLS: [&str; 4] = ["fsync", "fdatasync", "syncfs", "sync"];

/// A running strace.
#[derive(Debug)]
pub(super) struct Tracer {
    strace: Strace,
    output: PathBuf,
}

/// strace itself, to start a process. Children are followed; only the calls that count stop them.
pub(super) fn command(output: &Path) -> Command {
    let mut command = tool::command("strace");
    command.args(["-f", "--seccomp-bpf", "-e"]).arg(format!("trace={}", CALLS.join(","))).arg("-o").arg(output);
    command
}

impl Tracer {
    /// Attaches to processes; returns once it is there.
    pub(super) fn attach(pids: &[i32], output: &Path) -> anyhow::Result<Self> {
        // Without --seccomp-bpf, which can't be had for a process that is running.
        let arguments: [OsString; 5] =
            ["-f".into(), "-e".into(), format!("trace={}", CALLS.join(",")).into(), "-o".into(), output.into()];
        Ok(Self { strace: Strace::attach(arguments, pids)?, output: output.to_path_buf() })
    }

    /// Ends it and returns how many calls there were.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        drop(self.strace);
        count(&self.output)
    }
}

/// Calls in the output of strace.
pub(super) fn count(output: &Path) -> anyhow::Result<u64> {
    let text = shared_file::read(output).with_context(|| format!("read {}", output.display()))?;
    Ok(String::from_utf8_lossy(&text).lines().filter(|line| is_call(line)).count() as u64)
}

/// `1234  fsync(3) = 0` or `1234 fsync(3 <unfinished ...>`; the end of the latter is a line of its own.
fn is_call(line: &str) -> bool {
    let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    CALLS.iter().any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
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
