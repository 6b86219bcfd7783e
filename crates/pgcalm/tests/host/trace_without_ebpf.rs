//! `pgcalm trace` where eBPF is refused, and where the server is stopped or in a mount namespace of its own. Needs root;
//! says so and passes otherwise.

use crate::trace_server;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::unistd::User;
use pgcalm_testkit::programs::refused;
use pgcalm_testkit::server::Server;
use pgcalm_testkit::{of_kind, wait_for};
use pgcalm_trace::checkpoint::report as checkpoint;
use pgcalm_trace::report::Missing;
use pgcalm_trace::why::report as why;
use rustix::process::{Pid, Signal};

use trace_server::{Trace, can_run, launch, launch_with, logged};

fn server_user() -> User {
    User::from_name("postgres").unwrap().unwrap()
}

fn checkpoints(lines: &[checkpoint::Line]) -> Vec<&checkpoint::Checkpoint> {
    of_kind!(lines, checkpoint::Line::Checkpoint).map(|checkpoint| &**checkpoint).collect()
}

fn start(lines: &[checkpoint::Line]) -> &pgcalm_trace::report::Start {
    match &lines[0] {
        checkpoint::Line::Start(start) => start,
        other => panic!("{other:?}"),
    }
}

fn answers(missing: &[Missing]) -> Vec<&str> {
    missing.iter().map(|m| m.answer.as_str()).collect()
}

/// What the log and nothing else has of a checkpoint.
fn assert_is_logged(server: &Server, checkpoint: &checkpoint::Checkpoint) {
    let last = |key: &str| *logged(server, "checkpoint complete", key).last().unwrap();
    assert_eq!(checkpoint.reason, "requested");
    assert_eq!(checkpoint.flags, ["immediate", "force", "wait"]);
    assert_eq!(checkpoint.buffers.logged, Some(last("wrote ")));
    assert_eq!(checkpoint.sync.as_ref().unwrap().times.count, last("sync files="));
    assert_eq!(checkpoint.wal_segments.unwrap().recycled, last("removed, "));
    assert!(checkpoint.total_s.is_some() && checkpoint.phases.sync_s.is_some());
}

#[test]
fn without_root_log_and_views_tell_less_and_it_says_so() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    server.sql("CHECKPOINT");
    let trace = Trace::start_as(
        Some(&server_user()),
        &server,
        "checkpoint",
        &["--count", "1", "--around", "0", "--connect", ""],
    );
    let written = "SELECT buffers_checkpoint FROM pg_stat_bgwriter";
    // PostgreSQL 17 moved the counter.
    let before: Option<u64> = server.query(written).status.success().then(|| server.sql(written).parse().unwrap());
    server.sql("CREATE TABLE seen AS SELECT generate_series(1, 10000) AS n");
    server.sql("CHECKPOINT");
    let lines = trace.lines::<checkpoint::Line>();
    let start = start(&lines);
    assert!(!start.ebpf);
    assert_eq!(start.options, ["server log", "views"]);
    assert!(!start.missing.is_empty());
    assert!(start.missing.iter().all(|m| m.reason.contains("root")));
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 1);
    assert_is_logged(&server, found[0]);
    assert!(found[0].transactions.is_some());
    if let Some(before) = before {
        let after: u64 = server.sql(written).parse().unwrap();
        assert_eq!(found[0].buffers.written, Some(after - before));
    }
}

#[test]
fn without_root_or_a_connection_the_log_is_left() {
    let Some(bindir) = can_run() else { return };
    // A collector's file, which current_logfiles names, and not the standard error.
    let server = launch_with(
        &bindir,
        "logging_collector = on\nlog_directory = 'collected'\nlog_destination = 'csvlog'\n",
        |command| command,
    );
    let trace = Trace::start_as(Some(&server_user()), &server, "checkpoint", &["--count", "2"]);
    for _ in 0..2 {
        server.sql("CHECKPOINT");
        // The collector opens a new file, which has to be found.
        server.sql("SELECT pg_rotate_logfile()");
    }
    let lines = trace.lines::<checkpoint::Line>();
    assert_eq!(start(&lines).options, ["server log"]);
    assert!(answers(&start(&lines).missing).contains(&"transactions"));
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].flags, ["immediate", "force", "wait"]);
    assert!(found[1].total_s.is_some() && found[1].wal_segments.is_some());
}

#[test]
fn without_log_checkpoints_the_views_are_left() {
    let Some(bindir) = can_run() else { return };
    let server = launch_with(&bindir, "log_checkpoints = off\n", |command| command);
    let trace = Trace::start_as(
        Some(&server_user()),
        &server,
        "checkpoint",
        &["--count", "1", "--around", "0", "--connect", ""],
    );
    server.sql("CHECKPOINT");
    let lines = trace.lines::<checkpoint::Line>();
    assert_eq!(start(&lines).options, ["views"]);
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 1);
    assert!(found[0].phases.sync_s.is_some() && found[0].total_s.is_none());
}

#[test]
fn why_without_root_counts_commits_and_sees_checkpoints() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    let trace = Trace::start_as(Some(&server_user()), &server, "why", &["--connect", ""]);
    server.sql("CREATE TABLE written AS SELECT generate_series(1, 1000) AS n");
    for _ in 0..20 {
        server.sql("INSERT INTO written VALUES (1)");
    }
    server.sql("CHECKPOINT");
    let seen = |text: &str| std::fs::read_to_string(&trace.json).is_ok_and(|lines| lines.contains(text));
    wait_for("the checkpoint's end", || seen("\"phase\":\"after\""));
    // Backends that have ended have reported all they did; the next second has it.
    let seconds = std::fs::read_to_string(&trace.json).unwrap().lines().count();
    wait_for("two more seconds", || std::fs::read_to_string(&trace.json).unwrap().lines().count() >= seconds + 2);
    trace.signal(Signal::INT);
    let lines = trace.lines::<why::Line>();
    let seconds: Vec<&why::Second> = of_kind!(lines, why::Line::Second).collect();
    let commits: u64 = seconds.iter().map(|second| second.commits).sum();
    assert!(commits > 20, "{commits}");
    let records: u64 = seconds.iter().map(|second| second.wal.records).sum();
    assert!(records > 20, "{records}");
    assert!(seconds.iter().all(|s| s.wal.source == why::WalSource::Views));
}

#[test]
fn where_the_kernel_refuses_ebpf_the_log_is_left() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    // Root in a container: the capabilities are missing, though the user id is 0.
    let output = server.directory().join("refused.jsonl");
    let mut trace = Command::new("setpriv")
        .args(["--bounding-set", "-sys_admin,-bpf,-perfmon", "--"])
        .arg(env!("CARGO_BIN_EXE_pgcalm"))
        .args(["trace", "checkpoint", "--count", "1", "--instance"])
        .arg(server.pid().to_string())
        .arg("--json")
        .arg(&output)
        .spawn()
        .unwrap();
    wait_for("the trace's first line", || std::fs::metadata(&output).is_ok_and(|file| file.len() > 0));
    server.sql("CHECKPOINT");
    assert!(trace.wait().unwrap().success());
    let text = std::fs::read_to_string(&output).unwrap();
    let lines: Vec<checkpoint::Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!start(&lines).ebpf);
    assert!(start(&lines).missing.iter().all(|m| m.reason.contains("CAP_BPF")), "{text}");
    assert_is_logged(&server, checkpoints(&lines)[0]);
}

#[test]
fn without_root_log_or_connection_nothing_is_left() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    let log = server.log_file().to_path_buf();
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o600)).unwrap();
    let user = server_user();
    // Of a trace before.
    let lines = server.directory().join("lines.jsonl");
    std::fs::write(&lines, "{}\n").unwrap();
    std::os::unix::fs::chown(&lines, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(["trace", "checkpoint", "--duration", "1", "--instance", &server.pid().to_string(), "--json"]);
    command.arg(&lines);
    let stderr = refused(command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).current_dir(server.directory()), 3);
    for part in ["root", log.to_str().unwrap(), "--connect"] {
        assert!(stderr.contains(part), "{part} is not in {stderr}");
    }
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), "{}\n");
}

fn signal(server: &Server, signal: Signal) {
    let pid = Pid::from_raw(server.pid()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Lets a stopped server go on, whatever way a test ends: its children wait for it.
struct Stopped<'a>(&'a Server);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        signal(self.0, Signal::CONT);
    }
}

#[test]
fn a_stopped_server_is_said_to_be_stopped_and_holds_up_nothing() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    // Files of the first trace must not be in the way of the second.
    for (user, reported) in [(Some(server_user()), false), (None, true)] {
        let trace = Trace::start_as(user.as_ref(), &server, "checkpoint", &["--around", "0", "--connect", ""]);
        server.sql("CREATE TABLE stopped AS SELECT 1 AS n; DROP TABLE stopped");
        // The checkpoint ends, and its files are named, while nobody answers.
        let mut psql = server.psql("SELECT pg_sleep(1); CHECKPOINT").spawn().unwrap();
        wait_for("the connection", || {
            server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
        });
        signal(&server, Signal::STOP);
        let stopped = Stopped(&server);
        psql.wait().unwrap();
        wait_for("the checkpoint", || {
            std::fs::read_to_string(&trace.json).unwrap().contains("\"type\":\"checkpoint\"") || !reported
        });
        // Time for a look at the server.
        thread::sleep(Duration::from_millis(600));
        trace.signal(Signal::INT);
        let lines = trace.lines::<checkpoint::Line>();
        drop(stopped);
        let Some(checkpoint::Line::End(end)) = lines.last() else { panic!("{lines:?}") };
        let go_on = format!("kill -CONT {}", server.pid());
        assert!(end.missing.iter().any(|missing| missing.reason.contains(&go_on)), "{:?}", end.missing);
        server.sql("SELECT 1");
    }
}

#[test]
fn a_connection_to_a_stopped_server_is_refused_with_the_way_out() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    signal(&server, Signal::STOP);
    let stopped = Stopped(&server);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(["trace", "checkpoint", "--connect", "", "--instance", &server.pid().to_string()]);
    let stderr = refused(&mut command, 4);
    drop(stopped);
    assert!(stderr.contains("kill -CONT"), "{stderr}");
}

/// A directory of the host that only the server sees, at /mnt.
fn elsewhere(bindir: &std::path::Path) -> Server {
    let user = server_user();
    launch_with(bindir, "unix_socket_directories = '/mnt'\n", |postgres| {
        let directory = postgres.get_current_dir().unwrap().to_path_buf();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-euc"])
            .arg(
                "mount --bind \"$1\" /mnt; cd /mnt; \
                     exec setpriv --reuid \"$2\" --regid \"$3\" --clear-groups \"$4\" -D /mnt/data",
            )
            .arg("sh")
            .arg(directory)
            .args([user.uid.to_string(), user.gid.to_string()])
            .arg(postgres.get_program());
        command
    })
}

#[test]
fn a_server_in_another_mount_namespace_is_traced_from_the_host() {
    let Some(bindir) = can_run() else { return };
    let server = elsewhere(&bindir);
    assert!(!std::path::Path::new("/mnt/data").exists());
    // The catalog's files are synced here, so that the traced checkpoint has fewer files than are named.
    server.sql("CREATE TABLE elsewhere (n integer)");
    server.sql("CHECKPOINT");
    let trace = Trace::start(&server, "checkpoint", &["--count", "1", "--around", "0", "--connect", ""]);
    server.sql("INSERT INTO elsewhere SELECT generate_series(1, 1000)");
    server.sql("CHECKPOINT");
    let lines = trace.lines::<checkpoint::Line>();
    assert!(start(&lines).ebpf);
    assert_eq!(start(&lines).server.data_directory, "/mnt/data");
    assert_eq!(start(&lines).missing, []);
    let found = checkpoints(&lines);
    let files = &found[0].sync.as_ref().unwrap().slowest;
    // Asked for through a socket that the host can't see by its name.
    assert!(files.iter().any(|file| file.relation.as_deref() == Some("postgres: elsewhere")), "{files:?}");
}
