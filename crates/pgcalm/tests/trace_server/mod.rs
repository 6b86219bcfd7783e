//! A server of a test's own, and a trace of it.

// Each test file is a program of its own and uses what it needs.
#![allow(dead_code)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::unistd::User;
use pgcalm_host::HostRoot;
use pgcalm_host::postgres;
use pgcalm_trace::usdt::notes::Notes;
use rustix::process::Pid;
use rustix::process::Signal;
use serde::de::DeserializeOwned;

pub fn host() -> HostRoot {
    HostRoot::default()
}

pub fn bindir() -> Option<PathBuf> {
    let pg_config = std::env::var_os("PG_CONFIG")
        .unwrap_or_else(|| "/usr/lib/postgresql/15/bin/pg_config".into());
    let output = Command::new(pg_config).arg("--bindir").output().ok()?;
    let bindir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    postgres::missing(&host(), &bindir)
        .is_empty()
        .then_some(bindir)
}

/// The server programs, if traces can run here; if not, says why not.
pub fn can_run() -> Option<PathBuf> {
    let bindir = bindir();
    let has_probes = || {
        let program = bindir.as_ref()?.join("postgres");
        Some(!Notes::read(&program).ok()?.sites.is_empty())
    };
    let lack = if !rustix::process::geteuid().is_root() {
        "needs root for eBPF"
    } else if bindir.is_none() {
        "needs PostgreSQL 15, or PG_CONFIG that names another"
    } else if has_probes() != Some(true) {
        "needs a PostgreSQL built with --enable-dtrace"
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "needs a kernel with BTF"
    } else {
        return bindir;
    };
    eprintln!("skipped: trace: {lack}");
    None
}

/// A server of a test's own, on a Unix socket only.
pub struct Server {
    pub bindir: PathBuf,
    pub dir: tempfile::TempDir,
    pub child: Child,
}

impl Server {
    pub fn start(bindir: &Path) -> Self {
        Self::start_with(bindir, "", |command| command)
    }

    /// With more settings, and its command wrapped up.
    pub fn start_with(
        bindir: &Path,
        settings: &str,
        wrap: impl FnOnce(Command) -> Command,
    ) -> Self {
        let more = settings;
        let dir = tempfile::Builder::new()
            .prefix("pgcalm-trace")
            .tempdir()
            .unwrap();
        let user = User::from_name("postgres").unwrap().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .unwrap();
        let command = |program: &str| {
            let mut command = Command::new(bindir.join(program));
            command
                .uid(user.uid.as_raw())
                .gid(user.gid.as_raw())
                .current_dir(dir.path());
            command
        };
        let data = dir.path().join("data");
        let output = command("initdb")
            .args(["-A", "trust", "-U", "postgres", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut settings = fs::read_to_string(data.join("postgresql.conf")).unwrap();
        settings.push_str(&format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nlog_checkpoints = on\n\
             checkpoint_timeout = 1h\nautovacuum = off\nshared_buffers = 16MB\n\
             max_prepared_transactions = 2\n",
            dir.path().display()
        ));
        settings.push_str(more);
        fs::write(data.join("postgresql.conf"), settings).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(&data);
        let child = wrap(postgres)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self {
            bindir: bindir.to_path_buf(),
            dir,
            child,
        };
        wait_for("the server", || server.psql("SELECT 1").status.success());
        server
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn psql_command(&self, sql: &str) -> Command {
        let mut command = Command::new(self.bindir.join("psql"));
        command
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(self.dir.path())
            .args(["-c", sql]);
        command
    }

    pub fn psql(&self, sql: &str) -> Output {
        self.psql_command(sql).output().unwrap()
    }

    pub fn sql(&self, sql: &str) -> String {
        let output = self.psql(sql);
        assert!(output.status.success(), "{sql}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Numbers after `key` of all "checkpoint complete" lines from `line` on.
    pub fn logged(&self, after: &str, key: &str) -> Vec<u64> {
        self.log()
            .lines()
            .filter(|line| line.contains(after))
            .map(|line| {
                let (_, rest) = line.split_once(key).unwrap();
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().unwrap()
            })
            .collect()
    }

    pub fn stop(&mut self) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}

/// A trace under way, with its JSON file.
pub struct Trace {
    pub child: Child,
    pub json: PathBuf,
}

impl Trace {
    pub fn start(server: &Server, verb: &str, arguments: &[&str]) -> Self {
        Self::start_as(None, server, verb, arguments)
    }

    pub fn start_as(user: Option<&User>, server: &Server, verb: &str, arguments: &[&str]) -> Self {
        let json = server.dir.path().join(format!("{verb}.jsonl"));
        // Of a trace before.
        let _ = fs::remove_file(&json);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
        command
            .args([
                "trace",
                verb,
                "--instance",
                &server.pid().to_string(),
                "--json",
            ])
            .arg(&json)
            .arg("--html")
            .arg(json.with_extension("html"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = user {
            command
                .uid(user.uid.as_raw())
                .gid(user.gid.as_raw())
                .current_dir(server.dir.path());
        }
        let child = command.spawn().unwrap();
        let mut trace = Self { child, json };
        wait_for("the trace's first line", || {
            assert_eq!(trace.child.try_wait().unwrap(), None, "it ended");
            fs::metadata(&trace.json).is_ok_and(|file| file.len() > 0)
        });
        trace
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; its lines, exit code and standard error.
    pub fn end<T: DeserializeOwned>(self) -> (Vec<T>, Option<i32>, String) {
        let output = self.child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let lines = fs::read_to_string(&self.json)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let html = fs::read_to_string(self.json.with_extension("html")).unwrap();
        assert!(html.ends_with("</html>"), "{html}");
        (lines, output.status.code(), stderr)
    }
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(50));
    }
}
