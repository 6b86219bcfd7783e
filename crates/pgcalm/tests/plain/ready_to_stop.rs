//! `pgcalm ready-to-stop` on a real server. Needs root (to become the server's user) and PostgreSQL with its contrib modules; says so
//! and passes without either of the first.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use pgcalm_doctor::ready_to_stop::Report;
use pgcalm_testkit::need;
use pgcalm_testkit::programs::{Programs, bindir};
use pgcalm_testkit::server::{Launch, Server};

/// A server with thousands of dirty buffers, which nobody but a checkpoint writes.
fn dirty_server(settings: &str) -> Option<Server> {
    let bindir = need::met("ready-to-stop", &[need::ROOT, need::SERVER]).then(bindir).flatten()?;
    let programs = Programs::in_directory(&bindir, "pgcalm-ready-to-stop");
    let settings = format!("autovacuum = off\nbgwriter_lru_maxpages = 0\nshared_buffers = 64MB\n{settings}");
    let server = Server::create(&programs, &settings);
    server.sql("CREATE EXTENSION pg_buffercache");
    server.sql("CREATE TABLE t (filler text)");
    server.sql("INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 28000)");
    Some(server)
}

fn dirty_buffers(server: &Server) -> u64 {
    server.sql("SELECT count(*) FROM pg_buffercache WHERE isdirty").parse().unwrap()
}

/// 100 pages per second.
fn ready_to_stop(server: &Server, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(["ready-to-stop", "--connect", &server.conninfo(), "--iops", "100", "--json"]).args(more);
    command.output().unwrap()
}

fn report(output: &Output) -> Report {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// By a user who sees none of the server's processes, of a server whose stop may take a year.
fn from_another_host(programs: &Programs, port: u16, more: &[&str]) -> Output {
    let conninfo = format!("host=127.0.0.1 port={port} user=postgres");
    // Where the build is, that user may not go.
    let program = programs.directory().join("pgcalm");
    fs::copy(env!("CARGO_BIN_EXE_pgcalm"), &program).unwrap();
    let mut command = Command::new(program);
    command.args(["ready-to-stop", "--connect", &conninfo, "--iops", "100", "--within", "366d", "--json"]).args(more);
    command.uid(65_534).gid(65_534).current_dir("/").env("HOME", "/nonexistent").output().unwrap()
}

#[test]
fn a_server_is_ready_when_a_spread_checkpoint_has_written_what_was_dirty() {
    // The shortest there is: 3 s.
    let quick = "checkpoint_timeout = 30s\ncheckpoint_completion_target = 0.1";
    let Some(mut server) = dirty_server(quick) else { return };
    let before = dirty_buffers(&server);
    assert!(before > 3000, "{before}");
    let output = ready_to_stop(&server, &["--within", "10s", "--timeout", "2min"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = report(&output);
    assert!(report.ready && report.checkpoints > 0, "{report:?}");
    assert!(report.first_stop_seconds >= before as f64 / 100.0, "{report:?}");
    assert!(report.stop_seconds <= 10.0 && report.basis == "from caps", "{report:?}");
    let after = dirty_buffers(&server);
    assert!(after < before / 10, "{after}");
    // The backup that had to be begun for it is over.
    assert_eq!(
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgcalm ready-to-stop'"),
        "0"
    );
    assert!(!server.log().contains("checkpoint starting: immediate"), "{}", server.log());
    server.stop();
}

#[test]
fn what_is_not_ready_in_time_has_an_exit_code_and_an_estimate() {
    let Some(server) = dirty_server("checkpoint_timeout = 1h") else { return };
    let output = ready_to_stop(&server, &["--within", "10s", "--timeout", "3s"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not ready: a fast stop would take"), "{said}");
    // And a line of progress before that.
    assert!(said.lines().count() >= 2, "{said}");
    let report = report(&output);
    assert!(!report.ready && report.stop_seconds > 10.0, "{report:?}");
    assert!(report.dirty_buffers.unwrap() > 0, "{report:?}");

    // A function that is not the extension's is not called: whoever made it would have it run as who asks. 1.3 has none.
    server.sql("DROP EXTENSION pg_buffercache");
    server.sql("CREATE SCHEMA \"it's\"");
    server.sql("CREATE EXTENSION pg_buffercache VERSION '1.3' SCHEMA \"it's\"");
    server.sql(
        "CREATE FUNCTION \"it's\".pg_buffercache_summary(OUT buffers_dirty int) LANGUAGE plpgsql \
         AS $$ BEGIN RAISE 'called'; END $$",
    );
    let output = ready_to_stop(&server, &["--within", "366d"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(self::report(&output).basis, "from caps");

    // What it can't know it does not guess.
    server.sql("DROP EXTENSION pg_buffercache");
    let output = ready_to_stop(&server, &["--within", "10s", "--timeout", "3s"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("CREATE EXTENSION pg_buffercache"), "{output:?}");
    // All of 8192 buffers are written in less than that.
    let output = ready_to_stop(&server, &["--within", "366d"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(self::report(&output).basis, "upper bound");
}

/// Of a server that is reached by TCP, and whose processes may not be looked at, page cache of its host counts as unknown, not as none.
#[test]
fn of_a_host_that_is_not_seen_nothing_is_taken_for_flushed_before_a_checkpoint_has_ended() {
    let met = need::met("ready-to-stop of another host", &[need::ROOT, need::SERVER]);
    let Some(bindir) = met.then(bindir).flatten() else { return };
    let programs = Programs::in_directory(&bindir, "pgcalm-ready-to-stop");
    let data = programs.directory().join("data");
    programs.initdb(&data, &[]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut launch = Launch::new(&programs, &data);
    launch.port = port;
    launch.settings =
        "listen_addresses = '127.0.0.1'\ncheckpoint_timeout = 30s\ncheckpoint_completion_target = 0.1".to_string();
    let _server = launch.start();
    let output = from_another_host(&programs, port, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = report(&output);
    assert!(report.checkpoints > 0 && report.unflushed_bytes.is_some(), "{report:?}");
}

/// It skips the restartpoint, and says nothing of it.
#[test]
fn a_standby_that_has_nothing_to_restart_from_is_not_taken_for_flushed() {
    let met = need::met("ready-to-stop of a standby", &[need::ROOT, need::SERVER]);
    let Some(bindir) = met.then(bindir).flatten() else { return };
    let programs = Programs::in_directory(&bindir, "pgcalm-ready-to-stop");
    let primary = Server::create(&programs, "checkpoint_timeout = 1h");
    let data = programs.directory().join("standby");
    let mut copy = programs.command("pg_basebackup");
    copy.args(["-R", "-X", "stream", "-c", "fast", "-d", &primary.conninfo(), "-D"]).arg(&data);
    assert!(copy.status().unwrap().success());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut launch = Launch::new(&programs, &data);
    launch.port = port;
    launch.settings =
        "listen_addresses = '127.0.0.1'\ncheckpoint_timeout = 30s\ncheckpoint_completion_target = 0.1".to_string();
    let standby = launch.start();
    primary.sql("CREATE TABLE t AS SELECT generate_series(1, 1000) i");
    let output = from_another_host(&programs, port, &["--timeout", "6s"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let report = report(&output);
    // And it is not asked again each second.
    assert!(report.checkpoints == 1 && report.unflushed_bytes.is_none(), "{report:?}");
    drop(standby);
}
