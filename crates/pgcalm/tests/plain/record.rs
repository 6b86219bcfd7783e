//! `pgcalm record`, `incidents` and `incident` as programs. Needs root to run servers; says so and passes otherwise.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pgcalm_monitor::model::{Activity, Host, WaitCause};
use pgcalm_record::incident::{Cause, Cure, Incident};
use pgcalm_record::store::{FILE, Item, Limits, Packer, Reader, Writer};
use pgcalm_record::when;
use pgcalm_testkit::programs::Running;
use pgcalm_testkit::{need, programs, wait_for};

use crate::export::support;
use crate::export::support::Servers;

const PGCALM: &str = env!("CARGO_BIN_EXE_pgcalm");

fn pgcalm(arguments: &[&str]) -> Output {
    Command::new(PGCALM).args(arguments).env("TZ", "UTC").output().unwrap()
}

/// One line, and the code of a usage error.
fn refused(arguments: &[&str], parts: &[&str]) {
    let text = programs::refused(Command::new(PGCALM).args(arguments).env("TZ", "UTC"), 2);
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
    refused(&["record", "--dir", "/proc/none"], &["--dir /proc/none: No such file", "name a directory"]);
    let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
    drop(Writer::open(directory.path(), limits).unwrap());
    refused(&["incidents", "--dir", dir, "--since", "a while ago"], &["--since a while ago", "yesterday 03:12"]);
    refused(&["incidents", "--dir", dir, "--since", "tomorrow"], &["still to come"]);
    refused(&["incident", "7", "--dir", dir], &["incident 7", dir, "pgcalm incidents"]);
    refused(&["incident", "x"], &["whole number"]);
    refused(&["trace", "why", "--at", "00:00", "--dir", dir], &["--at 00:00", "nothing was recorded then"]);
    refused(&["top", "--once", "--replay", dir], &["holds no sample"]);
    refused(&["top", "--once", "--at", "00:00", "--dir", dir], &["holds no sample"]);
    refused(&["record", "--dir", dir, "--max-size", "1MB"], &["--max-size", "16MB"]);
    refused(&["record", "--dir", dir, "--export", dir], &["--export", "is there already"]);
    let none = pgcalm(&["incidents", "--dir", dir]);
    let says = String::from_utf8_lossy(&none.stdout).contains("Nothing stalled; nothing is recorded.");
    assert!(none.status.success() && says, "{none:?}");
    // A file of something else is not written over.
    fs::write(directory.path().join(FILE), "mine").unwrap();
    refused(&["incidents", "--dir", dir], &["is no record of pgcalm"]);
    refused(&["record", "--same-device", "--dir", dir], &["is no record of pgcalm"]);
    assert_eq!(fs::read_to_string(directory.path().join(FILE)).unwrap(), "mine");
    // What another user may not read is not said to be none.
    if !need::met("record of another user", &[need::ROOT]) {
        return;
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let program = directory.path().parent().unwrap().join(format!("pgcalm-record-{}", std::process::id()));
    fs::copy(PGCALM, &program).unwrap();
    let said = |arguments: &[&str], code| {
        let mut command = Command::new(&program);
        programs::refused(command.args(arguments).args(["--dir", dir]).uid(65_534).gid(65_534).current_dir("/"), code)
    };
    let read = said(&["incidents"], 3);
    let written = said(&["record", "--same-device"], 2);
    fs::remove_file(&program).unwrap();
    assert!(read.contains("may not be read by this user"), "{read}");
    assert!(written.contains("Permission denied") && written.contains("or run it with sudo"), "{written}");
}

#[test]
fn a_document_is_written_though_its_text_can_not_be_printed() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
    drop(Writer::open(directory.path(), limits).unwrap());
    let file = directory.path().join("incidents.json");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(PGCALM);
    command.args(["incidents", "--dir"]).arg(directory.path()).arg("--json").arg(&file).stdout(full);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let list: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert!(list["incidents"].is_array(), "{list}");
}

/// A record of a sample at each of these moments.
fn samples_of(directory: &Path, moments: &[&str]) {
    let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
    let mut writer = Writer::open(directory, limits).unwrap();
    let mut packer = Packer::default();
    for moment in moments {
        let time_ms = when::parse("--at", moment, &when::now()).unwrap();
        writer.write(&packer.pack(&Host { time_ms, ..Host::default() }).unwrap()).unwrap();
    }
}

/// Whichever of them the clocks are set by as the test runs.
#[test]
fn a_moment_of_a_record_has_its_own_time_of_day() {
    for (moment, shown) in
        [("2025-07-01T12:00:00Z", "2025-07-01 14:00:00 +02:00"), ("2025-12-01T12:00:00Z", "2025-12-01 13:00:00 +01:00")]
    {
        let directory = tempfile::tempdir().unwrap();
        samples_of(directory.path(), &[moment]);
        let mut command = Command::new(PGCALM);
        command.args(["top", "--once", "--replay"]).arg(directory.path()).env("TZ", "Europe/Berlin");
        let output = command.output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(shown), "{output:?}");
    }
}

#[test]
fn a_moment_without_a_sample_has_the_nearest_which_is_told_where_it_is_far() {
    let directory = tempfile::tempdir().unwrap();
    samples_of(directory.path(), &["2025-07-01T12:00:00Z", "2025-07-01T12:20:00Z"]);
    let at = |moment: &str| {
        let output = pgcalm(&["top", "--once", "--replay", directory.path().to_str().unwrap(), "--at", moment]);
        assert!(output.status.success(), "{output:?}");
        let [text, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (text.lines().next().unwrap().to_string(), said)
    };
    let (shown, said) = at("2025-07-01 12:05");
    assert!(shown.starts_with("2025-07-01 12:00:00"), "{shown}");
    assert!(
        said.contains("nothing was recorded then; the nearest sample is of ") && said.contains("12:00:00"),
        "{said}"
    );
    assert_eq!(at("2025-07-01 12:20:30").1, "");
    let dir = directory.path().to_str().unwrap();
    refused(&["top", "--once", "--replay", dir, "--at", "2025-07-01 18:00"], &["none around --at"]);
}

fn incident(server: &str, data_directory: &str, started_ms: u64) -> Incident {
    Incident {
        pgcalm: "0".to_string(),
        id: None,
        server: server.to_string(),
        data_directory: Some(data_directory.to_string()),
        server_version: None,
        started_ms,
        ended_ms: started_ms + 5000,
        seconds: 6.0,
        ended_by: None,
        usual_commits_per_second: Some(100.0),
        worst_commits_per_second: Some(0.0),
        lost_commits: 500.0,
        held_sessions: 4,
        longest_wait_seconds: 3.0,
        cause: Cause::CheckpointSync,
        sentence: String::new(),
        chain: Vec::new(),
        evidence: Vec::new(),
        also: Vec::new(),
        waits: Vec::new(),
        blocked: Vec::new(),
        stuck: Vec::new(),
        samples: None,
        changes: Vec::new(),
        cure: Cure { rule: None, text: String::new(), command: String::new() },
        timeline: Vec::new(),
    }
}

#[test]
fn what_stalled_at_a_moment_is_told_of_the_instance_that_was_named() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
    let mut writer = Writer::open(directory.path(), limits).unwrap();
    let at = when::parse("--at", "2025-07-01T12:00:00Z", &when::now()).unwrap();
    let all = [incident("5432", "/srv/a", at), incident("5433:/srv/b", "/srv/b", at + 1000)];
    writer.write(&all.map(|incident| Item::Incident(Box::new(incident)))).unwrap();
    drop(writer);
    let why = ["trace", "why", "--at", "2025-07-01 12:00", "--dir", dir];
    for (instance, server) in
        [("5432", "5432"), ("/srv/a/", "5432"), ("5433", "5433:/srv/b"), ("/srv/b", "5433:/srv/b")]
    {
        let output = pgcalm(&[&why[..], &["--json", "--instance", instance]].concat());
        let read: Incident = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!((read.server.as_str(), output.stderr.len()), (server, 0), "{instance}");
    }
    refused(&[&why[..], &["--instance", "5434"]].concat(), &["of --instance 5434", "data directory and port"]);
    for option in [&["--threshold", "1s"][..], &["--wal-calls"]] {
        refused(&[&why[..], option].concat(), &[option[0], "cannot be used with"]);
    }
}

/// It would break a longer one within a word.
#[test]
fn no_line_is_wider_than_the_terminal() {
    const COLUMNS: usize = 60;
    let mut command = Command::new("script");
    command.args(["-qec", &format!("stty cols {COLUMNS}; {PGCALM}"), "/dev/null"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().count() > 3, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
}

fn incidents(directory: &Path) -> Vec<Incident> {
    Reader::open(directory).and_then(|reader| reader.incidents(0)).unwrap_or_default()
}

/// Those of a queue for a lock: a host that has other things to do stalls in other ways as well.
fn pile_ups(directory: &Path) -> Vec<Incident> {
    let mut incidents = incidents(directory);
    incidents.retain(|incident| incident.cause == Cause::LockPileUp);
    incidents
}

/// All samples, and those in which four sessions wait for a lock.
fn samples(directory: &Path) -> (usize, usize) {
    let (mut all, mut locked) = (0, 0);
    let count = |host: Host| {
        let mut waits = host.instances.iter().filter_map(|instance| instance.activity.as_ref());
        let queue = |activity: &Activity| activity.sessions_by_cause().get(&WaitCause::Lock) == Some(&4);
        all += 1;
        locked += usize::from(waits.any(queue));
    };
    let counted = Reader::open(directory).and_then(|reader| reader.samples(0, u64::MAX, count));
    if counted.is_ok() { (all, locked) } else { (0, 0) }
}

#[test]
fn a_recorder_that_is_killed_in_a_stall_tells_of_it_when_it_comes_back() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
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
    wait_for("what is usual", || samples(directory.path()).0 > 25);
    let mut holder = Running::start(&mut servers.servers[server].psql());
    holder.say("BEGIN; LOCK TABLE t;\n");
    wait_for("some of the stall", || samples(directory.path()).1 >= 6);
    // kill -9.
    drop(first);
    assert_eq!(pile_ups(directory.path()), []);
    let seen = samples(directory.path()).1;
    let second = recorder();
    wait_for("more of it", || samples(directory.path()).1 > seen);
    drop(holder);
    wait_for("the incident", || !pile_ups(directory.path()).is_empty());
    let incident = pile_ups(directory.path()).remove(0);
    assert!(incident.seconds >= 6.0, "its beginning was seen by the recorder before: {}", incident.seconds);
    drop(second);
    // One that comes back once more does not tell of it again.
    let seen = samples(directory.path()).0;
    let third = recorder();
    wait_for("its samples", || samples(directory.path()).0 >= seen + 6);
    drop((third, load));
    assert_eq!(pile_ups(directory.path()).len(), 1);

    let id = incident.id.unwrap().to_string();
    let page = directory.path().join("card.html");
    let shown = pgcalm(&["incident", &id, "--dir", dir, "--html", page.to_str().unwrap()]);
    // Lines are wrapped.
    let text = String::from_utf8(shown.stdout).unwrap().replace('\n', " ");
    assert!(shown.status.success() && text.contains("a queue for a lock") && text.contains("The cure"), "{text}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Commits per second") && !html.contains("src="), "{html}");
    let json = pgcalm(&["incident", &id, "--dir", dir, "--json"]);
    let read: Incident = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((read.id, read.cause), (incident.id, Cause::LockPileUp));
    let top = pgcalm(&["top", "--once", "--replay", dir]);
    assert!(top.status.success() && String::from_utf8_lossy(&top.stdout).contains("Waits"), "{top:?}");
    let mut screen = Command::new("script");
    screen.args(["-qec", &format!("stty cols 80 rows 24; {PGCALM} top --replay {dir}"), "/dev/null"]);
    let mut screen = screen.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    screen.stdin.take().unwrap().write_all(b"q").unwrap();
    let shown = screen.wait_with_output().unwrap();
    assert!(shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("PAUSED at"), "{shown:?}");
    let counted = pgcalm_monitor::metrics::openmetrics(&std::sync::Arc::new(pgcalm_monitor::model::Host {
        incidents: Reader::open(directory.path()).unwrap().counts().unwrap(),
        ..Default::default()
    }));
    assert!(counted.contains("verdict=\"lock_pile_up\"} 1"), "{counted}");
}
