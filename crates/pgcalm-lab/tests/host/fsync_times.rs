//! fsync calls of a server's checkpoints, traced and by the module, against the server's own log. Needs root for eBPF,
//! for the module a built one; says so and passes otherwise.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::HostRoot;
use pgcalm_lab::contest::report::FsyncSource;
use pgcalm_lab::fsync_times::{FsyncRecord, FsyncTrace};
use pgcalm_lab::installation::Installation;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_lab::server::{Places, Server};
use pgcalm_testkit::programs::{bindir, initdb};
use pgcalm_testkit::{module_directory, need};

/// How long anything may take that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server's programs, if the tests can run here; says why not.
fn can_run() -> Option<PathBuf> {
    let needs = [need::ROOT, need::SERVER, need::SERVER_PROBES, need::KERNEL_TYPES];
    need::met("fsync times", &needs).then(bindir).flatten()
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A server in a directory of its own. Dropped in this order.
struct Arena {
    server: Server,
    _journal: Journal,
    directory: tempfile::TempDir,
}

impl Arena {
    fn new(root: &HostRoot, bindir: &Path, settings: &[(&str, String)]) -> Self {
        let interrupt = Interrupt::default();
        let directory = tempfile::Builder::new().prefix("pgcalm-fsync-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().canonicalize().unwrap();
        let journal = Journal::open(root.clone(), &path.join("journal.json")).unwrap();
        let installation = Installation::find(root, Some(bindir), &interrupt).unwrap();
        let own = |path: PathBuf| {
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(installation.uid), Some(installation.gid)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            path
        };
        let places =
            Places { data: own(path.join("cluster")), socket: own(path.join("socket")), log: path.join("server.log") };
        initdb(installation.command("initdb", &places.data), &places.data, &[]);
        let mut all: BTreeMap<String, String> = [
            ("checkpoint_timeout", "1h"),
            ("checkpoint_completion_target", "0.9"),
            ("max_wal_size", "10GB"),
            ("autovacuum", "off"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
        all.extend(settings.iter().map(|(name, value)| (name.to_string(), value.clone())));
        let server = Server::start(&journal, &installation, places, &all, &interrupt).unwrap();
        Self { server, _journal: journal, directory }
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(sql, &Interrupt::default()).unwrap()
    }

    /// What the server's log says of its complete checkpoints, in order.
    fn logged(&self, name: &str) -> Vec<f64> {
        self.server
            .log()
            .lines()
            .filter(|line| line.contains("checkpoint complete: "))
            .map(|line| {
                let (_, value) = line.split_once(name).unwrap();
                value.split([' ', ',', ';']).next().unwrap().parse().unwrap()
            })
            .collect()
    }
}

#[test]
fn a_restarted_server_has_loaded_what_it_had_at_its_first_start() {
    let root = HostRoot::default();
    let Some(bindir) = can_run() else { return };
    let Arena { server, _journal: journal, directory } =
        Arena::new(&root, &bindir, &[("lab.checkpointer_flush", "wait".into())]);
    let interrupt = Interrupt::default();
    server.shut_down(&interrupt).unwrap();
    let path = |name| directory.path().canonicalize().unwrap().join(name);
    let places = Places { data: path("cluster"), socket: path("socket"), log: path("server.log") };
    let installation = Installation::find(&root, Some(&bindir), &interrupt).unwrap();
    let server = Server::restart(&journal, &installation, places, &interrupt).unwrap();
    let environment = fs::read(format!("/proc/{}/environ", server.pid())).unwrap();
    assert!(String::from_utf8_lossy(&environment).contains("LD_PRELOAD="));
}

#[test]
fn a_trace_counts_the_files_of_each_sync_phase() {
    let root = HostRoot::default();
    let Some(bindir) = can_run() else { return };
    let arena = Arena::new(&root, &bindir, &[]);
    // None of it is in the trace.
    arena.sql("create table before_the_trace as select generate_series(1, 1000) n");
    arena.sql("checkpoint");
    let before = arena.logged("sync files=").len();

    let trace = FsyncTrace::start(arena.server.pid()).unwrap();
    for tables in [1, 7] {
        for number in 0..tables {
            arena.sql(&format!("create table t{tables}_{number} as select generate_series(1, 1000) n"));
        }
        arena.sql("checkpoint");
    }
    // One that takes its time to write is not in its sync phase at the end.
    arena.sql("create table large as select i, repeat('x', 500) from generate_series(1, 20000) i");
    let mut backup = arena
        .server
        .psql()
        .args(["-c", "select pg_backup_start('slow')"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("a slow checkpoint", || arena.server.log().matches("checkpoint starting").count() > before + 2);
    let record = trace.finish().unwrap();
    backup.kill().unwrap();
    backup.wait().unwrap();

    assert_eq!(record.source, FsyncSource::Trace);
    let files = arena.logged("sync files=")[before..].to_vec();
    let counts: Vec<f64> = record.checkpoints.iter().map(|c| c.count as f64).collect();
    assert_eq!(counts, [&files[..], &[0.0]].concat());
    assert!(files[1] > files[0], "{files:?}");
    let (longest, sync) = (arena.logged("longest="), arena.logged("sync="));
    for (index, calls) in record.checkpoints[..2].iter().enumerate() {
        // What the server times has the calls in it; it cuts off what is less than a millisecond.
        assert!(calls.longest_ms <= longest[before + index] * 1e3 + 1.0);
        assert!(calls.total_s <= sync[before + index] + 0.001);
        assert!(calls.longest_ms > 0.0 && calls.longest_ms / 1e3 <= calls.total_s);
    }
    assert!(record.checkpoints.is_sorted_by(|a, b| a.start_s < b.start_s));
}

#[test]
fn the_module_times_the_calls_that_are_traced() {
    let root = HostRoot::default();
    let Some(bindir) = can_run() else { return };
    if !need::met("fsync times by the module", &[need::MODULE]) {
        return;
    }
    let module = module_directory().join("pg_calm.so");
    // As the server's user can read it, and as it stays until the end.
    let library = tempfile::Builder::new().prefix("pgcalm-fsync-test-").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(library.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = library.path().join("pg_calm.so");
    fs::copy(module, &copy).unwrap();
    let arena = Arena::new(
        &root,
        &bindir,
        &[
            ("shared_preload_libraries", "pg_calm".to_string()),
            ("dynamic_library_path", format!("{}:$libdir", library.path().display())),
        ],
    );
    let script = fs::read_to_string(module_directory().join("pg_calm--0.1.sql"))
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('\\'))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("MODULE_PATHNAME", &copy.display().to_string());
    arena.sql(&script);
    arena.sql("checkpoint");

    let trace = FsyncTrace::start(arena.server.pid()).unwrap();
    for number in 0..5 {
        arena.sql(&format!("create table t{number} as select generate_series(1, 1000) n"));
    }
    arena.sql("checkpoint");
    let traced = trace.finish().unwrap();
    let mut timed = FsyncRecord::of_module(&arena.server, &Interrupt::default()).unwrap();
    // Those before the trace.
    timed.checkpoints.drain(..timed.checkpoints.len() - traced.checkpoints.len());

    assert_eq!(timed.source, FsyncSource::Module);
    let counts = |record: &FsyncRecord| -> Vec<u64> { record.checkpoints.iter().map(|calls| calls.count).collect() };
    assert_eq!(counts(&timed), counts(&traced));
    assert!(traced.checkpoints[0].count >= 5);
    // The module's clock is read around the calls that are traced, in whole microseconds.
    let (timed, traced) = (&timed.checkpoints[0], &traced.checkpoints[0]);
    let rounding = timed.count as f64 / 1e6;
    assert!(timed.total_s >= traced.total_s - rounding, "{timed:?} {traced:?}");
    assert!(timed.longest_ms >= traced.longest_ms - 0.001, "{timed:?} {traced:?}");
    assert!((timed.start_s - traced.start_s).abs() < 1.0, "{timed:?} {traced:?}");
    assert!(arena.directory.path().exists());
}
