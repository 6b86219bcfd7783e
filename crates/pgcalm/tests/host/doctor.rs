//! `pgcalm doctor` as a command: arguments, exit codes, documents. What it judges is tested in pgcalm-doctor.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use pgcalm_doctor::report::Report;
use pgcalm_host::{HostRoot, postgres};
use pgcalm_testkit::programs::{Programs, Running};
use pgcalm_testkit::server::{Launch, Server};
use pgcalm_testkit::{need, programs, wait_for};

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgcalm")).arg("doctor").args(arguments).output().unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_string()
}

#[test]
fn mistakes_are_told_in_one_line_with_exit_code_2() {
    for (arguments, word) in [
        (&["--connect", "what"][..], "--connect"),
        (&["--connect", "host=a", "--instance", "1"], "cannot be used with"),
        (&["--apply", "--plan"], "cannot be used with"),
        (&["--undo", "--apply"], "give --yes"),
        (&["--only", "fsync-off"], "--apply"),
        (&["--yes"], "--apply"),
        (&["--apply", "--only", "no-such-rule"], "no-such-rule"),
        (&["--duration", "soon"], "--duration"),
        (&["--json", "/nowhere/x.json"], "/nowhere/x.json"),
    ] {
        let output = doctor(arguments);
        let text = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.starts_with("pgcalm: ") && !text.contains('\n'), "{text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
    }
}

#[test]
fn the_rules_are_printed_as_the_documentation_has_them() {
    let output = doctor(&["--rules"]);
    assert!(output.status.success());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/doctor-rules.md");
    let documentation = std::fs::read_to_string(file).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("`slot-inactive`") && documentation.contains(&table));
}

#[test]
fn a_host_is_judged_whether_its_server_is_there_or_not() {
    let doctor = |more: &[&str]| doctor(&[&["--duration", "0", "--connect", "host=/nowhere"], more].concat());
    let output = doctor(&["--json"]);
    assert_eq!(output.status.code(), Some(4), "{}", complaint(&output));
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.action, "check");
    let host = report.facts.host.as_ref().unwrap();
    assert!(host.memory_bytes.is_some() && host.sysctls.len() == 6);
    let known = report.findings.len() + report.clear.len() + report.unanswered.len();
    assert_eq!(known, pgcalm_doctor::rules::table::RULES.len());

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let output = doctor(&["--json", file.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not judged."), "{text}");
    let written = std::fs::read(&file).unwrap();
    serde_json::from_slice::<Report>(&written).unwrap();
}

#[test]
fn where_it_is_not_clear_which_server_is_meant_nothing_is_judged() {
    if !need::met("doctor", &[need::ANY_SERVER]) {
        return;
    }
    let bindir = postgres::bindirs(&HostRoot::default()).swap_remove(0);
    let servers = [0, 1].map(|_| Server::create(&Programs::in_directory(&bindir, "pgcalm-doctor-"), ""));
    let output = doctor(&["--duration", "0"]);
    let text = complaint(&output);
    assert_eq!((output.status.code(), output.stdout.len(), text.lines().count()), (Some(2), 0, 1), "{text}");
    assert!(servers.iter().all(|server| text.contains(&server.pid().to_string())), "{text}");
}

#[test]
fn with_nothing_to_take_back_nothing_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let output = doctor(&["--undo", "--apply", "--yes", "--state-dir", state.to_str().unwrap()]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Nothing to do.\n");
    // The directory of state can't be made.
    std::fs::write(directory.path().join("file"), "").unwrap();
    let below = directory.path().join("file/state");
    let output = doctor(&["--undo", "--state-dir", below.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(complaint(&output).contains("--state-dir"));
}

/// It was a panic once.
#[test]
fn a_data_directory_may_have_a_name_in_any_encoding() {
    if !need::met("doctor", &[need::ANY_SERVER]) {
        return;
    }
    let bindir = postgres::bindirs(&HostRoot::default()).swap_remove(0);
    let directory = programs::directory("pgcalm-doctor-");
    let programs = Programs::new(&bindir, directory.path());
    let data = directory.path().join(OsStr::from_bytes(b"d\xe9"));
    programs.initdb(&data, &[]);
    let _server = Launch::new(&programs, &data).start();
    let connect = format!("host={} user=postgres", directory.path().display());
    let output = doctor(&["--duration", "0", "--connect", &connect, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report.facts.server.is_some());
}

/// pg_receivewal syncs a segment when it is full, and a subscriber what it has applied: neither is a standby that falls behind.
#[test]
fn who_replays_no_wal_is_no_standby() {
    if !need::met("doctor", &[need::ANY_SERVER]) {
        return;
    }
    let bindir = postgres::bindirs(&HostRoot::default()).swap_remove(0);
    let programs = Programs::in_directory(&bindir, "pgcalm-doctor-");
    let primary = Server::create(&programs, "wal_level = logical");
    let copy = programs.directory().join("standby");
    let near = format!("{} application_name=near", primary.conninfo());
    programs.run("pg_basebackup", &["-R", "-c", "fast", "-d", &near, "-D", copy.to_str().unwrap()]);
    let mut launch = Launch::new(&programs, &copy);
    launch.port = 5433;
    let _standby = launch.start();
    primary.sql("CREATE PUBLICATION p FOR ALL TABLES");
    primary.sql("CREATE DATABASE other");
    primary.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
    primary.sql("SELECT pg_create_physical_replication_slot('received')");
    let subscribe =
        format!("CREATE SUBSCRIPTION s CONNECTION $${}$$ PUBLICATION p WITH (create_slot = false)", primary.conninfo());
    let output = primary.psql(&subscribe).args(["-d", "other"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let received = programs.directory().join("received");
    std::fs::create_dir(&received).unwrap();
    programs::give_to_server(&received);
    let mut receive = programs.command("pg_receivewal");
    receive.args(["-d", &primary.conninfo(), "-S", "received", "-s", "1", "-D"]).arg(&received);
    let _receiver = Running::start(&mut receive);
    wait_for("all three", || {
        let told = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND flush_lsn IS NOT NULL";
        primary.sql(told) == "3"
    });
    let output = doctor(&["--duration", "1s", "--connect", &primary.conninfo(), "--json"]);
    let report: Report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let standbys = report.facts.sample.unwrap().standbys;
    let names: Vec<&str> = standbys.iter().map(|standby| standby.application_name.as_str()).collect();
    assert_eq!(names, ["near"]);
}
