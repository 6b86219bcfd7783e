//! The recorder beside real servers. Needs root to run servers; says so and passes otherwise.

// What servers on devices of their own need is the tracer's, and not all of it is used here.
#[allow(dead_code)]
#[path = "../../../pgcalm-trace/tests/host/arena/mod.rs"]
mod arena;
mod control_group;
#[path = "../../../pgcalm-monitor/tests/support/mod.rs"]
mod support;
mod verdicts;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_lab::server::Server;
use pgcalm_monitor::model::{Instance, Reachability, WaitCause};
use pgcalm_record::incident::{Cause, Incident};
use pgcalm_record::store::{Limits, Reader};
use pgcalm_record::{place, recorder};
use pgcalm_testkit::programs::Running;
use pgcalm_testkit::{need, wait_for};
use pgcalm_trace::why::report as why;
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

/// A session that has locked table t, idle in its transaction.
fn lock_holder(server: &Server) -> Running {
    let mut holder = Running::start(&mut server.psql());
    holder.say("BEGIN; LOCK TABLE t;\n");
    holder
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

/// Clients that each update a row of their own, again and again.
fn load(servers: &Servers, server: usize, clients: usize) -> Vec<Running> {
    servers.sql(
        server,
        "CREATE TABLE t (i int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i",
    );
    // Each statement is a message of its own: commits within a procedure are counted at its end.
    let client = |number: usize| {
        let mut psql = Running::start(&mut servers.servers[server].psql());
        psql.say(&format!("UPDATE t SET n = n + 1 WHERE i = {} \\watch 0.02\n", number + 1));
        psql
    };
    (0..clients).map(client).collect()
}

/// Samples of the record in which this holds of the instance.
fn samples(directory: &Path, holds: impl Fn(&Instance) -> bool) -> usize {
    let mut count = 0;
    let read = Reader::open(directory)
        .and_then(|reader| reader.samples(0, u64::MAX, |host| count += usize::from(host.instances.iter().any(&holds))));
    if read.is_ok() { count } else { 0 }
}

#[test]
fn sessions_behind_a_lock_are_an_incident_that_names_who_holds_it() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("recorded", &[]);
    let directory = tempfile::tempdir().unwrap();
    let connect = format!("host={} user=postgres", servers.socket("recorded").display());
    let _load = load(&servers, server, 4);
    let recorder = Recorder::start(directory.path(), &connect);
    let commits = |instance: &Instance| instance.rates.is_some_and(|rates| rates.commits_per_second > 5.0);
    wait_for("what is usual", || samples(directory.path(), commits) > 22);
    assert_eq!(pile_ups(directory.path()), []);
    let holder = lock_holder(&servers.servers[server]);
    let locked = |instance: &Instance| {
        let waits = instance.activity.as_ref().map(pgcalm_monitor::model::Activity::sessions_by_cause);
        waits.is_some_and(|waits| waits.get(&WaitCause::Lock) == Some(&4))
    };
    wait_for("five seconds of the queue", || samples(directory.path(), locked) >= 5);
    drop(holder);
    wait_for("the incident", || !pile_ups(directory.path()).is_empty());
    let incident = pile_ups(directory.path()).remove(0);
    assert!(incident.sentence.contains("idle in transaction"), "{}", incident.sentence);
    // Samples are a second apart, or more.
    assert!(incident.seconds >= 4.0 && incident.ended_by.is_none(), "{incident:#?}");
    assert_eq!(incident.held_sessions, 4);
    let samples = incident.samples.clone().unwrap();
    if need::met("what trace why samples", &[need::KERNEL_TYPES]) {
        let lost = &samples.totals.shares[0];
        assert_eq!((lost.cause, lost.object.as_deref()), (why::Cause::Lock, Some("relation")), "{samples:#?}");
    }
    drop(recorder);
    // What was written once is there after the end, the minute before included.
    let incident = pile_ups(directory.path()).remove(0);
    assert!(incident.timeline.len() > 22 + 4, "{}", incident.timeline.len());
}

#[test]
fn a_server_that_is_stopped_by_a_signal_hangs_and_the_recorder_goes_on() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("hangs", &[]);
    let directory = tempfile::tempdir().unwrap();
    let connect = format!("host={} user=postgres", servers.socket("hangs").display());
    let recorder = Recorder::start(directory.path(), &connect);
    wait_for("answers", || samples(directory.path(), |instance| instance.reachability.is_reachable()) > 0);
    let signal = |signal| {
        for pid in servers.family(server) {
            let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
        }
    };
    signal(rustix::process::Signal::STOP);
    // The session is given up after ten seconds: the server hangs all the same.
    let hangs = |instance: &Instance| match instance.reachability {
        Reachability::Hung { seconds } => seconds > 12.0,
        _ => false,
    };
    wait_for("a server that hangs", || samples(directory.path(), hangs) > 0);
    signal(rustix::process::Signal::CONT);
    let whole = || incidents(directory.path()).into_iter().find(|incident| incident.seconds >= 12.0);
    wait_for("an incident with all of it", || whole().is_some());
    let incident = whole().unwrap();
    assert_eq!(incident.cause, Cause::Unknown, "nothing shows that a signal stopped it");
    drop(recorder);
}

#[test]
fn a_directory_on_a_server_s_device_is_refused_by_name() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    servers.start("beside", &[]);
    let error =
        place::check(&HostRoot::default(), &servers.directory.path().join("new/record")).unwrap_err().to_string();
    assert!(error.contains("--same-device") && error.contains("is on the same device"), "{error}");
    let elsewhere = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    place::check(&HostRoot::default(), elsewhere.path()).unwrap();
}
