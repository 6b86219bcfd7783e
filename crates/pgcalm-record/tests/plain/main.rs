//! The recorder beside real servers. Needs root to run servers; says so and passes otherwise.

// What servers on devices of their own need is the tracer's, and not all of it is used here.
#[allow(dead_code)]
#[path = "../../../pgcalm-trace/tests/host/arena/mod.rs"]
mod arena;
#[path = "../../../pgcalm-monitor/tests/support/mod.rs"]
mod support;
mod verdicts;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_record::incident::{Cause, Incident};
use pgcalm_record::store::{Limits, Reader};
use pgcalm_record::{place, recorder};
use pgcalm_testkit::wait_for;
use support::Servers;

/// A recorder in a thread, ended when dropped.
struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    fn start(directory: &Path, connect: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ours = Arc::clone(&stop);
        let options = recorder::Options {
            directory: directory.to_path_buf(),
            limits: Limits { keep: Duration::from_secs(3600), bytes: 64 << 20 },
            same_device: true,
            monitor: pgcalm_monitor::Options {
                connect: vec![connect.to_string()],
                ..pgcalm_monitor::Options::default()
            },
        };
        let run = move || recorder::run(options, &|| ours.load(Ordering::Relaxed), |line| eprintln!("{line}")).unwrap();
        Self { stop, thread: Some(thread::spawn(run)) }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

/// A program that is ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn incidents(directory: &Path) -> Vec<Incident> {
    Reader::open(directory).and_then(|reader| reader.incidents(0)).unwrap_or_default()
}

/// Clients that each update a row of their own, again and again.
fn load(servers: &Servers, server: usize, clients: usize) -> Vec<Running> {
    servers.sql(
        server,
        "CREATE TABLE t (i int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i",
    );
    // Each statement is a message of its own: commits within a procedure are counted at its end.
    let client = |number: usize| {
        let psql = &mut servers.servers[server].psql();
        let psql = psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = psql.spawn().unwrap();
        let text = format!("UPDATE t SET n = n + 1 WHERE i = {} \\watch 0.02\n", number + 1);
        child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        Running(child)
    };
    (0..clients).map(client).collect()
}

/// Seconds of the record in which commits were seen.
fn seconds_with_commits(directory: &Path) -> usize {
    let mut count = 0;
    let read = Reader::open(directory).and_then(|reader| {
        reader.samples(0, u64::MAX, |host| {
            let busy = |instance: &pgcalm_monitor::model::Instance| {
                instance.rates.is_some_and(|rates| rates.commits_per_second > 5.0)
            };
            count += usize::from(host.instances.iter().any(busy));
        })
    });
    if read.is_ok() { count } else { 0 }
}

#[test]
fn sessions_behind_a_lock_are_an_incident_that_names_who_holds_it() {
    if !support::can_run() {
        return;
    }
    let mut servers = Servers::new();
    let server = servers.start("recorded", &[]);
    let directory = tempfile::tempdir().unwrap();
    let connect = format!("host={} user=postgres", servers.socket("recorded").display());
    let _load = load(&servers, server, 4);
    let recorder = Recorder::start(directory.path(), &connect);
    wait_for("what is usual", || seconds_with_commits(directory.path()) > 30);
    assert_eq!(incidents(directory.path()), []);
    // Held until the client's input ends, idle in its transaction.
    let mut psql = servers.servers[server].psql();
    let mut holder = psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = holder.stdin.take().unwrap();
    input.write_all(b"BEGIN; LOCK TABLE t;\n").unwrap();
    input.flush().unwrap();
    thread::sleep(Duration::from_secs(8));
    drop(input);
    holder.wait().unwrap();
    wait_for("the incident", || !incidents(directory.path()).is_empty());
    let incident = incidents(directory.path()).remove(0);
    assert_eq!(incident.cause, Cause::LockPileUp, "{incident:#?}");
    assert!(incident.sentence.contains("idle in transaction"), "{}", incident.sentence);
    assert!((4.0..30.0).contains(&incident.seconds), "{}", incident.seconds);
    assert_eq!(incident.held_sessions, 4);
    drop(recorder);
    // What was written once is there after the end, the minute before included.
    let incident = incidents(directory.path()).remove(0);
    assert!(incident.timeline.len() > 30, "{}", incident.timeline.len());
}

#[test]
fn a_server_that_is_stopped_by_a_signal_hangs_and_the_recorder_goes_on() {
    if !support::can_run() {
        return;
    }
    let mut servers = Servers::new();
    let server = servers.start("hangs", &[]);
    let directory = tempfile::tempdir().unwrap();
    let connect = format!("host={} user=postgres", servers.socket("hangs").display());
    let recorder = Recorder::start(directory.path(), &connect);
    wait_for("answers", || {
        Reader::open(directory.path()).is_ok_and(|reader| reader.range().is_ok_and(|it| it.is_some()))
    });
    let signal = |signal| {
        for pid in servers.family(server) {
            let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
        }
    };
    signal(rustix::process::Signal::STOP);
    thread::sleep(Duration::from_secs(12));
    signal(rustix::process::Signal::CONT);
    wait_for("the incident", || !incidents(directory.path()).is_empty());
    let incident = incidents(directory.path()).remove(0);
    assert!(incident.seconds >= 9.0, "{}", incident.seconds);
    assert_eq!(incident.cause, Cause::Unknown, "nothing shows that a signal stopped it");
    drop(recorder);
}

#[test]
fn a_directory_on_a_server_s_device_is_refused_by_name() {
    if !support::can_run() {
        return;
    }
    let mut servers = Servers::new();
    servers.start("beside", &[]);
    let error =
        place::check(&HostRoot::default(), &servers.directory.path().join("new/record")).unwrap_err().to_string();
    assert!(error.contains("--same-device") && error.contains("is on the same device"), "{error}");
    let elsewhere = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    place::check(&HostRoot::default(), elsewhere.path()).unwrap();
}
