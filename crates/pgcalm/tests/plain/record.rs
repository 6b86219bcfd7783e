//! `pgcalm record`, `incidents` and `incident` as programs. Needs root to run servers; says so and passes otherwise.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use pgcalm_record::incident::{Cause, Incident};
use pgcalm_record::store::{FILE, Limits, Reader, Writer};
use pgcalm_testkit::wait_for;

use crate::export::support;
use crate::export::support::Servers;

const PGCALM: &str = env!("CARGO_BIN_EXE_pgcalm");

fn pgcalm(arguments: &[&str]) -> Output {
    Command::new(PGCALM).args(arguments).env("TZ", "UTC").output().unwrap()
}

/// One line, and the code of a usage error.
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = pgcalm(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{arguments:?}: {text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{arguments:?}: {text}");
}

#[test]
fn what_can_not_be_shown_is_one_line_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    for verb in
        [&["incidents"][..], &["incident", "1"], &["record", "--export", "x"], &["top", "--once", "--replay", dir]]
    {
        let mut arguments = verb.to_vec();
        if verb[0] != "top" {
            arguments.extend(["--dir", dir]);
        }
        refused(&arguments, &[FILE, "no record is there", "--dir"]);
    }
    let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
    drop(Writer::open(directory.path(), limits).unwrap());
    refused(&["incidents", "--dir", dir, "--since", "a while ago"], &["--since a while ago", "yesterday 03:12"]);
    refused(&["incidents", "--dir", dir, "--since", "tomorrow"], &["still to come"]);
    refused(&["incident", "7", "--dir", dir], &["incident 7", dir, "pgcalm incidents"]);
    refused(&["incident", "x"], &["whole number"]);
    refused(&["trace", "why", "--at", "00:00", "--dir", dir], &["--at 00:00", "nothing was recorded then"]);
    refused(&["top", "--once", "--replay", dir], &["holds no sample"]);
    refused(&["record", "--dir", dir, "--max-size", "1MB"], &["--max-size", "16MB"]);
    refused(&["record", "--dir", dir, "--export", dir], &["--export", "is there already"]);
    let none = pgcalm(&["incidents", "--dir", dir]);
    assert!(none.status.success() && String::from_utf8_lossy(&none.stdout).contains("Nothing stalled."), "{none:?}");
    // A file of something else is not written over.
    fs::write(directory.path().join(FILE), "mine").unwrap();
    refused(&["incidents", "--dir", dir], &["is no record of pgcalm"]);
    refused(&["record", "--same-device", "--dir", dir], &["is no record of pgcalm"]);
    assert_eq!(fs::read_to_string(directory.path().join(FILE)).unwrap(), "mine");
}

/// A program that is ended when dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn say(&mut self, text: &str) {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn incidents(directory: &Path) -> Vec<Incident> {
    Reader::open(directory).and_then(|reader| reader.incidents(0)).unwrap_or_default()
}

fn samples(directory: &Path) -> usize {
    let mut count = 0;
    let counted = Reader::open(directory).and_then(|reader| reader.samples(0, u64::MAX, |_| count += 1));
    if counted.is_ok() { count } else { 0 }
}

#[test]
fn a_recorder_that_is_killed_in_a_stall_tells_of_it_when_it_comes_back() {
    if !support::can_run() {
        return;
    }
    let mut servers = Servers::new();
    let server = servers.start("killed", &[]);
    servers.sql(
        server,
        "CREATE TABLE t (i int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i",
    );
    let load: Vec<Running> = (1..5)
        .map(|number| {
            let mut client = Running::start(&mut servers.servers[server].psql());
            client.say(&format!("UPDATE t SET n = n + 1 WHERE i = {number} \\watch 0.02\n"));
            client
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let connect = format!("host={} user=postgres", servers.socket("killed").display());
    let recorder =
        || Running::start(Command::new(PGCALM).args(["record", "--same-device", "--dir", dir, "--connect", &connect]));
    let first = recorder();
    wait_for("what is usual", || samples(directory.path()) > 40);
    let mut holder = Running::start(&mut servers.servers[server].psql());
    holder.say("BEGIN; LOCK TABLE t;\n");
    let seen = samples(directory.path());
    wait_for("some of the stall", || samples(directory.path()) >= seen + 8);
    // kill -9.
    drop(first);
    assert_eq!(incidents(directory.path()), []);
    let second = recorder();
    thread::sleep(Duration::from_secs(3));
    drop(holder);
    wait_for("the incident", || !incidents(directory.path()).is_empty());
    let incident = incidents(directory.path()).remove(0);
    assert_eq!(incident.cause, Cause::LockPileUp, "{incident:#?}");
    assert!(incident.seconds >= 6.0, "its beginning was seen by the recorder before: {}", incident.seconds);
    drop(second);
    // One that comes back once more does not tell of it again.
    let seen = samples(directory.path());
    let third = recorder();
    wait_for("its samples", || samples(directory.path()) >= seen + 6);
    drop((third, load));
    assert_eq!(incidents(directory.path()).len(), 1);

    let page = directory.path().join("card.html");
    let shown = pgcalm(&["incident", "1", "--dir", dir, "--html", page.to_str().unwrap()]);
    // Lines are wrapped.
    let text = String::from_utf8(shown.stdout).unwrap().replace('\n', " ");
    assert!(shown.status.success() && text.contains("a queue for a lock") && text.contains("The cure"), "{text}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Commits per second") && !html.contains("src="), "{html}");
    let json = pgcalm(&["incident", "1", "--dir", dir, "--json"]);
    let read: Incident = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((read.id, read.cause), (Some(1), Cause::LockPileUp));
    let top = pgcalm(&["top", "--once", "--replay", dir]);
    assert!(top.status.success() && String::from_utf8_lossy(&top.stdout).contains("Waits"), "{top:?}");
    let counted = pgcalm_monitor::metrics::openmetrics(&std::sync::Arc::new(pgcalm_monitor::model::Host {
        incidents: Reader::open(directory.path()).unwrap().counts().unwrap(),
        ..Default::default()
    }));
    assert!(counted.contains("verdict=\"lock_pile_up\"} 1"), "{counted}");
}
