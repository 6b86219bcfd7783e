//! `pgcalm lag` on a real primary with a real standby, over TCP on the loopback. Says so and passes where there is no
//! PostgreSQL.

mod stuck;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pgcalm_host::HostRoot;
use pgcalm_lag::model::{LagSource, Line, Place, Standby, StandbyState, WalStatus};
use pgcalm_lag::{History, Host, Sample, text};
use pgcalm_postgres::{Address, Caller, DefaultUser, Session, Wanted};
use pgcalm_testkit::programs::Programs;
use pgcalm_testkit::server::Launch;
use pgcalm_testkit::{need, programs, server, wait_for};
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal};

/// For a state to come about on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// Between samples.
const INTERVAL: Duration = Duration::from_millis(250);

/// A server on the loopback.
struct Server(server::Server);

impl Deref for Server {
    type Target = server::Server;

    fn deref(&self) -> &server::Server {
        &self.0
    }
}

impl Server {
    fn start(programs: &Programs, data: &Path, port: u16, settings: &str) -> Self {
        let mut launch = Launch::new(programs, data);
        launch.port = port;
        launch.host = "127.0.0.1".to_string();
        launch.settings = format!("listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\n{settings}");
        Self(launch.start())
    }

    fn conninfo(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres", self.port())
    }

    fn client(&self) -> Client {
        Client::connect(&self.conninfo(), NoTls).unwrap()
    }

    /// A session as those of the command.
    fn watcher(&self, role: &str) -> pgcalm_postgres::Client {
        let conninfo = format!("host=127.0.0.1 port={} user={role}", self.port());
        let wanted = Wanted { connect: Some(&conninfo), instance: None };
        pgcalm_lag::connect::connect(&HostRoot::default(), wanted, "pgcalm test").unwrap()
    }

    fn stop(mut self) {
        self.0.stop();
    }
}

/// A process that is stopped while this exists.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: i32) -> Self {
        let pid = Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, Signal::CONT);
    }
}

/// WAL being made, some megabytes a second, while this exists.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut client = server.client();
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    make_wal(&mut client);
                    thread::sleep(Duration::from_millis(50));
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A megabyte of it.
fn make_wal(client: &mut Client) {
    client
        .batch_execute(
            "SELECT count(pg_logical_emit_message(true, 'load', repeat('x', 8000))) FROM generate_series(1, 131)",
        )
        .unwrap();
}

/// Who asks.
struct Watch {
    client: pgcalm_postgres::Client,
    history: History,
    host: Option<Host>,
}

impl Watch {
    fn new(primary: &Server, host: Option<Host>) -> Self {
        Self { client: primary.watcher("postgres"), history: History::default(), host }
    }

    fn sample(&mut self) -> Sample {
        pgcalm_lag::sample(&mut self.client, &mut self.history, self.host.as_ref()).unwrap()
    }

    /// Samples until one is as it should be.
    fn until(&mut self, what: &str, is: impl Fn(&Sample) -> bool) -> Sample {
        let started = Instant::now();
        loop {
            let sample = self.sample();
            if is(&sample) {
                return sample;
            }
            assert!(started.elapsed() < PATIENCE, "not seen: {what}\n{}", text::sample(&sample));
            thread::sleep(INTERVAL);
        }
    }
}

/// The only standby.
fn only(sample: &Sample) -> Option<&Standby> {
    match &sample.standbys[..] {
        [standby] => Some(standby),
        _ => None,
    }
}

fn is_at(place: Place) -> impl Fn(&Sample) -> bool {
    move |sample| only(sample).is_some_and(|standby| standby.bottleneck.place == place)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn lag(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.arg("lag").args(arguments);
    command
}

#[test]
fn a_standby_and_all_that_can_befall_it() {
    if !need::met("lag", &[need::SERVER]) {
        return;
    }
    let programs = Programs::in_directory(&programs::bindir().unwrap(), "pgcalm-lag");
    let (data, copy) = (programs.directory().join("primary"), programs.directory().join("standby"));
    programs.initdb(&data, &["--wal-segsize=1"]);
    // A receiver that is stopped must not be thrown out for it.
    let primary = Server::start(
        &programs,
        &data,
        free_port(),
        "cluster_name = 'first'\nmax_wal_size = 64MB\nmin_wal_size = 8MB\nfsync = off\nautovacuum = off\n\
         wal_sender_timeout = 0\nwal_keep_size = 0\nshared_buffers = 16MB\n",
    );
    programs.run(
        "pg_basebackup",
        &[
            "--pgdata",
            copy.to_str().unwrap(),
            "--dbname",
            &format!("{} application_name=near", primary.conninfo()),
            "--checkpoint=fast",
            "--no-sync",
            "--wal-method=stream",
            "--create-slot",
            "--slot=near_slot",
            "--write-recovery-conf",
        ],
    );
    let standby = Server::start(&programs, &copy, free_port(), "wal_receiver_timeout = 0\n");
    let host = Host::new(HostRoot::default());
    let mut watch = Watch::new(&primary, Some(host));

    idle(&mut watch, &primary);
    command_line(&primary, &standby);
    receiver_stopped(&mut watch, &primary, &standby);
    replay_paused(&mut watch, &primary, &standby);
    standby_stopped(&mut watch, &primary, standby);
    slot_lost(&mut watch, &primary);
}

/// After WAL was made and has arrived, the lag is none, whatever the server's own figures still say.
fn idle(watch: &mut Watch, primary: &Server) {
    let mut client = primary.client();
    for _ in 0..20 {
        make_wal(&mut client);
    }
    let sample = watch.until("an idle primary", is_at(Place::Idle));
    let standby = only(&sample).unwrap();
    assert_eq!(standby.application_name, "near");
    assert_eq!(standby.client_address.as_deref(), Some("127.0.0.1"));
    assert_eq!(standby.slot.as_deref(), Some("near_slot"));
    assert_eq!(standby.state, StandbyState::Streaming);
    assert_eq!(standby.sync_state.as_deref(), Some("async"));
    for position in [&standby.write, &standby.flush, &standby.replay] {
        assert_eq!(position.lag_bytes, Some(0));
        assert_eq!(position.lag_s, Some(0.0));
        assert_eq!(position.lag_source, Some(LagSource::CaughtUp));
    }
    assert_eq!(sample.wal.segment_bytes, 1 << 20);
    assert_eq!(sample.kept.max_wal_size_bytes, 64 << 20);
    assert_eq!(sample.kept.max_slot_wal_keep_size_bytes, None);
    assert!(sample.kept.bytes.is_some());
    assert_eq!(standby.need.removed, Some(false));
    assert_eq!(sample.missing, []);
}

/// What the command prints, and what it refuses.
fn command_line(primary: &Server, standby: &Server) {
    let connect = primary.conninfo();
    let output = lag(&["--connect", &connect, "--interval", "0.2", "--count", "3", "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<Line> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [Line::Start(start), Line::Sample(first), Line::Sample(_), Line::Sample(last), Line::End(end)] = &lines[..]
    else {
        panic!("{lines:?}")
    };
    assert_eq!(start.cluster_name, "first");
    assert_eq!(start.port, primary.port());
    assert_eq!(first.interval_s, None);
    assert!(last.interval_s.is_some());
    assert_eq!(end.samples, 3);
    assert_eq!(only(last).unwrap().application_name, "near");

    let output = lag(&["--connect", &connect, "--interval", "0.2", "--once"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("near") && text.contains("streaming"), "{text}");

    let error = programs::refused(&mut lag(&["--connect", &standby.conninfo()]), 2);
    let upstream = format!("127.0.0.1 port {}", primary.port());
    assert!(error.contains("is a standby") && error.contains(&upstream), "{error}");
    let mut client = primary.client();
    client.batch_execute("CREATE ROLE visitor LOGIN").unwrap();
    let visitor = connect.replace("user=postgres", "user=visitor dbname=postgres");
    let error = programs::refused(&mut lag(&["--connect", &visitor]), 3);
    assert!(error.contains("GRANT pg_monitor"), "{error}");
    client.batch_execute("GRANT pg_read_all_stats TO visitor").unwrap();
    let mut partly = primary.watcher("visitor dbname=postgres");
    let sample = pgcalm_lag::sample(&mut partly, &mut History::default(), None).unwrap();
    assert_eq!(sample.kept.oldest_segment, None);
    assert_eq!(sample.missing[0].what, "oldest WAL segment");
    assert!(sample.standbys[0].replay.lsn.is_some());
    let error = programs::refused(&mut lag(&["--connect", "host=127.0.0.1 port=1 user=x"]), 4);
    assert!(error.contains("127.0.0.1 port 1"), "{error}");
    let mut client = standby.watcher("postgres");
    let error = pgcalm_lag::sample(&mut client, &mut History::default(), None).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(pgcalm_host::Failure::Usage(_))), "{error}");
}

/// The walreceiver does not read: its kernel takes what it has room for, then the walsender waits.
fn receiver_stopped(watch: &mut Watch, primary: &Server, standby: &Server) {
    let mut without_host = Watch::new(primary, None);
    let receiver: i32 = standby.client().query_one("SELECT pid FROM pg_stat_wal_receiver", &[]).unwrap().get(0);
    let stopped = Stopped::new(receiver);
    let load = Load::start(primary);
    watch.until("the standby's write", is_at(Place::StandbyWrite));
    // At first its kernel takes all.
    let sample = watch.until("the standby's write, and a full socket", |sample| {
        let connection = |standby: &Standby| standby.connection.as_ref()?.unacknowledged_bytes;
        is_at(Place::StandbyWrite)(sample)
            && only(sample)
                .is_some_and(|standby| connection(standby) > Some(0) && standby.write.lag_bytes > Some(1 << 20))
    });
    let standby = only(&sample).unwrap();
    assert_eq!(standby.state, StandbyState::Streaming);
    for position in [&standby.write, &standby.flush, &standby.replay] {
        assert!(position.lag_bytes.unwrap() > 1 << 20, "{position:?}");
        assert!(position.lag_s.unwrap() >= 1.0, "{position:?}");
        assert_ne!(position.lag_source, Some(LagSource::CaughtUp));
    }
    // Both servers are on this host.
    let connection = standby.connection.as_ref().unwrap();
    assert_eq!(connection.interface.as_deref(), Some("lo"));
    assert!(connection.sent_packets_per_s.is_some());
    let loopback = &sample.interfaces[0];
    assert_eq!(loopback.name, "lo");
    assert!(loopback.sent_bytes_per_s.unwrap() > 0.0, "{loopback:?}");
    assert!(text::sample(&sample).contains("interface lo: sends"));
    let more = watch.until("a growing lag", |now| {
        only(now)
            .is_some_and(|now| now.flush.lag_bytes > standby.flush.lag_bytes && now.flush.lag_s > standby.flush.lag_s)
    });
    assert_eq!(only(&more).unwrap().flush.lsn, standby.flush.lsn);

    // The server alone can't tell it from a network that is cut.
    let sample = without_host.until("a silent walreceiver", |sample| {
        only(sample).is_some_and(|standby| {
            let text = standby.bottleneck.evidence.join("; ");
            standby.bottleneck.place == Place::Unknown && text.contains("says nothing")
        })
    });
    assert_eq!(only(&sample).unwrap().connection, None);
    drop(load);
    drop(stopped);
    watch.until("an idle primary", is_at(Place::Idle));
}

/// WAL arrives, and is not replayed.
fn replay_paused(watch: &mut Watch, primary: &Server, standby: &Server) {
    let mut client = standby.client();
    client.batch_execute("SELECT pg_wal_replay_pause()").unwrap();
    let load = Load::start(primary);
    let sample = watch.until("replay", is_at(Place::Replay));
    drop(load);
    let lagging = only(&sample).unwrap();
    assert!(lagging.replay.lag_bytes > lagging.flush.lag_bytes);
    assert!(lagging.replay.lag_s.unwrap() >= 1.0, "{lagging:?}");
    // Idle now, and the standby still has not replayed what it has.
    let sample = watch.until("flushed, not replayed", |sample| {
        only(sample).is_some_and(|standby| standby.flush.lag_bytes == Some(0))
    });
    assert!(is_at(Place::Replay)(&sample), "{}", text::sample(&sample));
    client.batch_execute("SELECT pg_wal_replay_resume()").unwrap();
    watch.until("an idle primary", is_at(Place::Idle));
}

/// Nobody is there, and the slot keeps what it would need.
fn standby_stopped(watch: &mut Watch, primary: &Server, standby: Server) {
    standby.stop();
    let before = watch.until("a disconnected standby", is_at(Place::Disconnected));
    let gone = only(&before).unwrap();
    assert_eq!(gone.application_name, "near");
    assert_eq!(gone.state, StandbyState::Disconnected);
    assert!(gone.disconnected_s.is_some());
    assert!(text::sample(&before).contains("DISCONNECTED"));
    // One who comes only now knows it by its slot.
    let mut newcomer = Watch::new(primary, None);
    let sample = newcomer.sample();
    let by_slot = only(&sample).unwrap();
    assert_eq!(by_slot.slot.as_deref(), Some("near_slot"));
    assert_eq!(by_slot.bottleneck.place, Place::Disconnected);

    primary.client().batch_execute("ALTER SYSTEM SET max_slot_wal_keep_size = '40MB'").unwrap();
    primary.client().batch_execute("SELECT pg_reload_conf()").unwrap();
    let load = Load::start(primary);
    let sample = watch.until("more WAL kept, and a prediction", |sample| {
        let slot = &sample.slots[0];
        slot.wal_status == Some(WalStatus::Lost)
            || (slot.retained_bytes > before.slots[0].retained_bytes
                && slot.seconds_until_lost.is_some_and(|seconds| seconds > 0.0))
    });
    let slot = &sample.slots[0];
    assert_ne!(slot.wal_status, Some(WalStatus::Lost), "{slot:?}");
    assert!(!slot.active);
    assert!(slot.retained_growth_bytes_per_s.unwrap() > 0.0);
    assert!(slot.safe_wal_size_bytes.is_some());
    assert!(sample.kept.seconds_until_needed_removed.is_some());
    assert!(only(&sample).unwrap().need.seconds_until_removed.is_some());
    assert!(text::sample(&sample).contains("is removed in"));
    drop(load);
}

/// More WAL than its slot may keep, and a checkpoint.
fn slot_lost(watch: &mut Watch, primary: &Server) {
    let mut client = primary.client();
    for _ in 0..60 {
        make_wal(&mut client);
    }
    client.batch_execute("CHECKPOINT").unwrap();
    let sample = watch.until("a lost slot", |sample| sample.slots[0].wal_status == Some(WalStatus::Lost));
    assert_eq!(sample.slots[0].seconds_until_lost, Some(0.0));
    let standby = only(&sample).unwrap();
    assert_eq!(standby.need.removed, Some(true));
    assert_eq!(standby.bottleneck.place, Place::Disconnected);
    let text = text::sample(&sample);
    assert!(text.contains("LOST") && text.contains("has been removed"), "{text}");
}
