//! A server of a test's own, and a trace of it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::User;
use pgcalm_host::HostRoot;
use pgcalm_testkit::programs::{Programs, bindir};
use pgcalm_testkit::server::{Launch, Server};
use pgcalm_testkit::{need, wait_for};
use rustix::process::{Pid, Signal};
use serde::de::DeserializeOwned;

pub(crate) fn host() -> HostRoot {
    HostRoot::default()
}

/// The server programs, if traces can run here; if not, says why not.
pub(crate) fn can_run() -> Option<PathBuf> {
    let needs = [need::ROOT, need::SERVER, need::SERVER_PROBES, need::KERNEL_TYPES];
    need::met("trace", &needs).then(bindir).flatten()
}

/// A server of a test's own, on a Unix socket only.
pub(crate) fn launch(bindir: &Path) -> Server {
    launch_with(bindir, "", |command| command)
}

/// With more settings, and its command wrapped up.
pub(crate) fn launch_with(bindir: &Path, settings: &str, wrap: impl FnOnce(Command) -> Command) -> Server {
    let programs = Programs::in_directory(bindir, "pgcalm-trace");
    let data = programs.directory().join("data");
    programs.initdb(&data, &[]);
    // Else a checkpoint's fsyncs write what initdb has written, and take their time for that.
    programs.run("initdb", &["--sync-only", "-D", data.to_str().unwrap()]);
    let mut launch = Launch::new(&programs, &data);
    launch.settings = format!(
        "log_checkpoints = on\ncheckpoint_timeout = 1h\nautovacuum = off\nshared_buffers = 16MB\n\
         max_prepared_transactions = 2\n{settings}"
    );
    launch.start_wrapped(wrap)
}

/// Numbers after `key` of all lines of its log with `text`.
pub(crate) fn logged(server: &Server, text: &str, key: &str) -> Vec<u64> {
    server
        .log()
        .lines()
        .filter(|line| line.contains(text))
        .map(|line| {
            let (_, rest) = line.split_once(key).unwrap();
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        })
        .collect()
}

/// A trace under way, with its JSON file.
pub(crate) struct Trace {
    pub child: Child,
    pub json: PathBuf,
}

impl Trace {
    pub(crate) fn start(server: &Server, verb: &str, arguments: &[&str]) -> Self {
        Self::start_as(None, server, verb, arguments)
    }

    pub(crate) fn start_as(user: Option<&User>, server: &Server, verb: &str, arguments: &[&str]) -> Self {
        let json = server.directory().join(format!("{verb}.jsonl"));
        // Of a trace before.
        let _ = fs::remove_file(&json);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
        command
            .args(["trace", verb, "--instance", &server.pid().to_string(), "--json"])
            .arg(&json)
            .arg("--html")
            .arg(json.with_extension("html"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).current_dir(server.directory());
        }
        let child = command.spawn().unwrap();
        let mut trace = Self { child, json };
        wait_for("the trace's first line", || {
            assert_eq!(trace.child.try_wait().unwrap(), None, "it ended");
            fs::metadata(&trace.json).is_ok_and(|file| file.len() > 0)
        });
        trace
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its good end; its lines.
    pub(crate) fn lines<T: DeserializeOwned>(self) -> Vec<T> {
        let (lines, code, stderr) = self.end();
        assert_eq!(code, Some(0), "{stderr}");
        lines
    }

    /// Waits for its end; its lines, exit code and standard error.
    pub(crate) fn end<T: DeserializeOwned>(self) -> (Vec<T>, Option<i32>, String) {
        let output = self.child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let lines =
            fs::read_to_string(&self.json).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let html = fs::read_to_string(self.json.with_extension("html")).unwrap();
        assert!(html.ends_with("</html>"), "{html}");
        (lines, output.status.code(), stderr)
    }
}
