//! `pgcalm trace` on a real server. Needs root, eBPF and PostgreSQL with USDT probes; says so and passes otherwise.

use std::fs;
use std::os::unix::fs::FileExt;
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
use pgcalm_host::postmaster;
use pgcalm_report::trace::EndReason;
use pgcalm_report::trace::checkpoint;
use pgcalm_report::trace::locks;
use pgcalm_report::trace::locks::LockClass;
use pgcalm_trace::usdt::notes::Notes;
use rustix::process::Pid;
use rustix::process::Signal;
use serde::de::DeserializeOwned;

fn host() -> HostRoot {
    HostRoot::default()
}

fn bindir() -> Option<PathBuf> {
    let pg_config = std::env::var_os("PG_CONFIG")
        .unwrap_or_else(|| "/usr/lib/postgresql/15/bin/pg_config".into());
    let output = Command::new(pg_config).arg("--bindir").output().ok()?;
    let bindir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    postgres::missing(&host(), &bindir)
        .is_empty()
        .then_some(bindir)
}

/// The server programs, if traces can run here; if not, says why not.
fn can_run() -> Option<PathBuf> {
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
struct Server {
    bindir: PathBuf,
    dir: tempfile::TempDir,
    child: Child,
}

impl Server {
    fn start(bindir: &Path) -> Self {
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
        fs::write(data.join("postgresql.conf"), settings).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = command("postgres")
            .arg("-D")
            .arg(&data)
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

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn psql_command(&self, sql: &str) -> Command {
        let mut command = Command::new(self.bindir.join("psql"));
        command
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(self.dir.path())
            .args(["-c", sql]);
        command
    }

    fn psql(&self, sql: &str) -> Output {
        self.psql_command(sql).output().unwrap()
    }

    fn sql(&self, sql: &str) -> String {
        let output = self.psql(sql);
        assert!(output.status.success(), "{sql}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Numbers after `key` of all "checkpoint complete" lines from `line` on.
    fn logged(&self, after: &str, key: &str) -> Vec<u64> {
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

    fn stop(&mut self) {
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
struct Trace {
    child: Child,
    json: PathBuf,
}

impl Trace {
    fn start(server: &Server, verb: &str, arguments: &[&str]) -> Self {
        Self::start_as(None, server, verb, arguments)
    }

    fn start_as(user: Option<&User>, server: &Server, verb: &str, arguments: &[&str]) -> Self {
        let json = server.dir.path().join(format!("{verb}.jsonl"));
        // Of a trace before.
        let _ = fs::remove_file(&json);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
        command
            .args(["trace", verb, "--pid", &server.pid().to_string(), "--json"])
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

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; its lines, exit code and standard error.
    fn end<T: DeserializeOwned>(self) -> (Vec<T>, Option<i32>, String) {
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

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(50));
    }
}

fn checkpoints(lines: &[checkpoint::Line]) -> Vec<&checkpoint::Checkpoint> {
    lines
        .iter()
        .filter_map(|line| match line {
            checkpoint::Line::Checkpoint(checkpoint) => Some(&**checkpoint),
            _ => None,
        })
        .collect()
}

fn assert_nothing_missing_or_dropped(start: &checkpoint::Line, end: &checkpoint::Line) {
    let (checkpoint::Line::Start(start), checkpoint::Line::End(end)) = (start, end) else {
        panic!("{start:?}, {end:?}");
    };
    assert!(start.ebpf);
    assert_eq!(start.missing, []);
    assert_eq!(end.missing, []);
    assert_eq!((end.drops.events, end.drops.entries), (0, 0));
}

#[test]
fn counts_are_those_of_log_checkpoints_and_strace() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir);
    server.sql("CHECKPOINT");
    let before = server.logged("checkpoint complete", "wrote ").len();
    let trace = Trace::start(
        &server,
        "checkpoint",
        &[
            "--count",
            "2",
            "--around",
            "0",
            "--per-buffer",
            "--connect",
            "",
        ],
    );
    let checkpointer =
        server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let calls = server.dir.path().join("strace");
    let mut strace = Command::new("strace")
        .args([
            "-qq",
            "-e",
            "trace=fsync,fdatasync",
            "-p",
            &checkpointer,
            "-o",
        ])
        .arg(&calls)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("strace", || {
        let status = fs::read_to_string(format!("/proc/{checkpointer}/status")).unwrap();
        !status.contains("TracerPid:\t0\n")
    });
    server.sql("CREATE TABLE counted AS SELECT generate_series(1, 100000) AS n");
    server.sql("CHECKPOINT");
    server.sql("UPDATE counted SET n = n + 1 WHERE n % 10 = 0");
    server.sql("CHECKPOINT");
    let (lines, code, stderr) = trace.end::<checkpoint::Line>();
    rustix::process::kill_process(Pid::from_child(&strace), Signal::INT).unwrap();
    strace.wait().unwrap();

    assert_eq!(code, Some(0), "{stderr}");
    assert_nothing_missing_or_dropped(&lines[0], lines.last().unwrap());
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 2);
    let logged = |key: &str| server.logged("checkpoint complete", key)[before..].to_vec();
    let values = |value: fn(&checkpoint::Checkpoint) -> u64| -> Vec<u64> {
        found.iter().map(|checkpoint| value(checkpoint)).collect()
    };
    assert_eq!(values(|c| c.buffers.logged.unwrap()), logged("wrote "));
    assert_eq!(
        values(|c| c.sync.as_ref().unwrap().times.count),
        logged("sync files=")
    );
    assert_eq!(
        values(|c| c.wal_segments.unwrap().recycled),
        logged("removed, ")
    );
    for checkpoint in &found {
        assert_eq!(checkpoint.reason, "requested");
        assert_eq!(checkpoint.buffers.total, Some(2048));
        assert_eq!(checkpoint.buffers.written, checkpoint.buffers.dirty);
        let written = checkpoint.buffers.written.unwrap();
        let per_buffer = checkpoint.per_buffer.as_ref().unwrap();
        for histogram in [
            &per_buffer.flush,
            &per_buffer.write,
            &per_buffer.sync_written,
        ] {
            assert_eq!(histogram.count, written);
            assert_eq!(histogram.buckets.iter().sum::<u64>(), written);
        }
        let phases = checkpoint.phases.list();
        assert!(phases.iter().all(|(_, time)| time.is_some()), "{phases:?}");
        let sum: f64 = phases.iter().filter_map(|(_, time)| *time).sum();
        assert!(sum <= checkpoint.total_s.unwrap(), "{checkpoint:?}");
    }
    let fsyncs: u64 = values(|c| {
        c.sync.as_ref().unwrap().times.count + c.other_syncs.as_ref().unwrap().times.count
    })
    .iter()
    .sum();
    let strace_lines = fs::read_to_string(&calls).unwrap();
    let calls = strace_lines
        .lines()
        .filter(|line| line.contains("sync("))
        .count();
    assert_eq!(fsyncs, calls as u64, "{strace_lines}");
    let named = |checkpoint: &checkpoint::Checkpoint| {
        let files = &checkpoint.sync.as_ref().unwrap().slowest;
        files
            .iter()
            .any(|file| file.relation.as_deref() == Some("postgres: counted"))
    };
    assert!(named(found[1]), "{:?}", found[1].sync);
}

#[test]
fn transactions_are_counted_exactly() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir);
    let trace = Trace::start(&server, "checkpoint", &["--around", "300"]);
    let statements: String = (0..50).map(|_| "SELECT 1; ").collect();
    // One transaction per statement, unlike one -c with all.
    let script = server.dir.path().join("script");
    fs::write(&script, format!("{statements}\nCHECKPOINT;\n")).unwrap();
    let output = Command::new(bindir.join("psql"))
        .args(["-Xq", "-U", "postgres", "-h"])
        .arg(server.dir.path())
        .arg("-f")
        .arg(&script)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    server.psql("SELECT 1/0");
    // Seconds are told of once they are over.
    thread::sleep(Duration::from_millis(2500));
    trace.signal(Signal::INT);
    let (lines, code, stderr) = trace.end::<checkpoint::Line>();
    assert_eq!(code, Some(0), "{stderr}");
    let found = checkpoints(&lines);
    let transactions = found[0].transactions.as_ref().unwrap();
    let sum = |value: fn(&checkpoint::Second) -> u64| -> u64 {
        transactions.seconds.iter().map(value).sum()
    };
    // 50 statements, CHECKPOINT; each connection starts with a transaction that reads the catalogs.
    assert_eq!(sum(|second| second.commits), 50 + 1 + 2);
    assert_eq!(sum(|second| second.aborts), 1);
}

#[test]
fn a_wait_for_a_lock_is_told_with_lock_mode_and_process_type() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir);
    server.sql("CREATE TABLE locked (n int)");
    let trace = Trace::start(&server, "locks", &["--acquisitions"]);
    let mut holder = server
        .psql_command("BEGIN; LOCK TABLE locked; SELECT pg_sleep(2); COMMIT")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the lock", || {
        server.sql("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'locked'::regclass")
            == "1"
    });
    server.sql("INSERT INTO locked VALUES (1)");
    holder.wait().unwrap();
    let oid: u32 = server
        .sql("SELECT 'locked'::regclass::oid")
        .parse()
        .unwrap();
    trace.signal(Signal::INT);
    let (lines, code, stderr) = trace.end::<locks::Line>();
    assert_eq!(code, Some(0), "{stderr}");
    let total = lines
        .iter()
        .find_map(|line| match line {
            locks::Line::Total(total) => Some(total),
            _ => None,
        })
        .unwrap();
    let waits: Vec<_> = total
        .locks
        .iter()
        .filter(|lock| lock.class == LockClass::Heavyweight && lock.relation == Some(oid))
        .collect();
    assert_eq!(waits.len(), 1, "{:?}", total.locks);
    assert_eq!(waits[0].name, "relation");
    assert_eq!(waits[0].mode, "RowExclusiveLock");
    assert_eq!(waits[0].process_type, "client backend");
    assert_eq!(waits[0].waits.count, 1);
    let acquired = |name: &str| {
        let locks = total.locks.iter().filter(|lock| lock.name == name);
        locks.filter_map(|lock| lock.acquisitions).sum::<u64>()
    };
    assert!(
        acquired("BufferMapping") > 0 && acquired("WALInsert") > 0,
        "{:?}",
        total.locks
    );
}

#[test]
fn without_root_the_views_tell_less_and_it_says_so() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir);
    server.sql("CHECKPOINT");
    let user = User::from_name("postgres").unwrap().unwrap();
    let trace = Trace::start_as(
        Some(&user),
        &server,
        "checkpoint",
        &["--count", "1", "--around", "0", "--connect", ""],
    );
    let written = "SELECT buffers_checkpoint FROM pg_stat_bgwriter";
    // PostgreSQL 17 moved the counter.
    let before: Option<u64> = server
        .psql(written)
        .status
        .success()
        .then(|| server.sql(written).parse().unwrap());
    server.sql("CREATE TABLE seen AS SELECT generate_series(1, 10000) AS n");
    server.sql("CHECKPOINT");
    let (lines, code, stderr) = trace.end::<checkpoint::Line>();
    assert_eq!(code, Some(0), "{stderr}");
    let checkpoint::Line::Start(start) = &lines[0] else {
        panic!("{lines:?}");
    };
    assert!(!start.ebpf);
    assert!(!start.missing.is_empty());
    assert!(
        start
            .missing
            .iter()
            .all(|missing| missing.reason.contains("root"))
    );
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason, "requested");
    assert!(found[0].phases.sync_s.is_some());
    if let Some(before) = before {
        let after: u64 = server.sql(written).parse().unwrap();
        assert_eq!(found[0].buffers.written, Some(after - before));
    }
}

/// The semaphores of some probes in the postmaster's memory, which the kernel raises while they are traced.
fn semaphores(server: &Server) -> Vec<u16> {
    let pid = server.pid();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let notes = Notes::read(&program).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    [
        "checkpoint__start",
        "checkpoint__done",
        "transaction__commit",
        "clog__checkpoint__start",
    ]
    .iter()
    .map(|name| {
        let offset = notes.sites(name).next().unwrap().semaphore_offset;
        let address = maps
            .lines()
            .filter(|line| line.ends_with(&*program.to_string_lossy()) && line.contains(" rw-p "))
            .find_map(|line| {
                let mut words = line.split_whitespace();
                let (from, to) = words.next()?.split_once('-')?;
                let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
                let (from, to, start) = (hex(from), hex(to), hex(words.nth(1)?));
                (start..start + (to - from))
                    .contains(&offset)
                    .then(|| from + offset - start)
            })
            .unwrap();
        let mut value = [0; 2];
        memory.read_exact_at(&mut value, address).unwrap();
        u16::from_ne_bytes(value)
    })
    .collect()
}

#[test]
fn nothing_stays_attached_even_if_killed() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir);
    assert_eq!(semaphores(&server), [0; 4], "somebody else traces, too");
    for signal in [Signal::INT, Signal::KILL] {
        let trace = Trace::start(&server, "checkpoint", &[]);
        let said = fs::read_to_string(&trace.json).unwrap();
        assert_eq!(semaphores(&server), [1; 4], "{said}");
        trace.signal(signal);
        let mut child = trace.child;
        child.wait().unwrap();
        // The kernel takes down what a killed process has left soon after it, not before its end.
        wait_for("the end of the probes", || semaphores(&server) == [0; 4]);
    }
    server.sql("CHECKPOINT");
}

#[test]
fn a_server_that_ends_ends_the_trace() {
    let Some(bindir) = can_run() else { return };
    let mut server = Server::start(&bindir);
    let trace = Trace::start(&server, "checkpoint", &["--count", "9"]);
    server.stop();
    let (lines, code, stderr) = trace.end::<checkpoint::Line>();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("ended while it was traced"), "{stderr}");
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason, "shutdown");
    let Some(checkpoint::Line::End(end)) = lines.last() else {
        panic!("{lines:?}");
    };
    assert_eq!(end.reason, EndReason::ServerEnded);
}

/// Runs a trace that is refused; its only line on standard error.
fn refused(arguments: &[&str], code: i32, as_user: Option<u32>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command
        .args(["trace", "checkpoint", "--duration", "1"])
        .args(arguments);
    if let Some(user) = as_user {
        command.uid(user).current_dir("/");
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

#[test]
fn the_wrong_process_is_refused_with_the_way_out() {
    let Some(bindir) = can_run() else { return };
    let mut server = Server::start(&bindir);
    let pid = server.pid().to_string();
    let checkpointer =
        server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let own = std::process::id().to_string();
    assert!(refused(&["--pid", &checkpointer], 2, None).contains(&format!("--pid {pid}")));
    assert!(refused(&["--pid", &own], 2, None).contains("no PostgreSQL server"));
    let data = server.dir.path().join("data");
    let missing = data.join("missing");
    assert!(refused(&["--datadir", missing.to_str().unwrap()], 2, None).contains("--datadir"));
    assert!(refused(&["--port", "1"], 2, None).contains("--port 1"));
    let user = User::from_name("postgres").unwrap().unwrap();
    let message = refused(&["--pid", &pid], 3, Some(user.uid.as_raw()));
    assert!(message.contains("root"), "{message}");
    server.stop();
    let message = refused(&["--pid", &pid], 2, None);
    assert!(message.contains("no such process"), "{message}");
}

#[test]
fn running_servers_are_found() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir);
    let running = postmaster::running(&host()).unwrap();
    let found = running
        .iter()
        .find(|found| found.process.pid == server.pid())
        .unwrap();
    assert_eq!(found.data_directory, server.dir.path().join("data"));
    assert_eq!(found.socket_directory.as_deref(), Some(server.dir.path()));
}
