//! What the kernel has queued of one file for a device is let through before another file of that device is fsynced.
//! Needs root, a block cgroup and a built module; says so and passes otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::chown;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use pgcalm_host::HostRoot;
use pgcalm_lab::Size;
use pgcalm_lab::cap::Capper;
use pgcalm_lab::cap::Caps;
use pgcalm_lab::cap::InForce;
use pgcalm_lab::device::Device;
use pgcalm_lab::device::Kind;
use pgcalm_lab::filesystem::FileSystem;
use pgcalm_lab::installation::Installation;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_lab::options::FsType;
use pgcalm_lab::server::Places;
use pgcalm_lab::server::Server;
use pgcalm_testkit::module_directory;
use pgcalm_testkit::need;
use pgcalm_testkit::programs::bindir;
use pgcalm_testkit::programs::initdb;

/// How long anything may take that has to come: less than the drain's timeouts here.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is much under writeback: several times what a drain leaves.
const MUCH: u64 = 32 << 20;

/// What lets a hundred MiB through in minutes, but some of it each second.
const SLOW: u64 = 1 << 20;

/// What lets nothing through that the kernel has made one request of, for minutes.
const STANDING: u64 = 4096;

/// Whether the test can run here; says why not.
fn can_run() -> bool {
    let needs = [need::ROOT, need::SERVER, need::MODULE, need::ROOT_GROUP_CAPS];
    need::met("drain and the kernel's queue", &needs)
}

/// Bytes under writeback on the host.
fn writeback() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let pages = text.lines().find_map(|line| line.strip_prefix("nr_writeback ")).unwrap();
    pages.parse::<u64>().unwrap() * 4096
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A cluster on the host's disk, whose `base` alone is on a device that can be capped, and a tablespace beside the
/// cluster. Dropped in this order.
struct Arena {
    server: Server,
    capper: Capper,
    _file_system: FileSystem,
    device: Device,
    _journal: Journal,
    directory: tempfile::TempDir,
}

impl Arena {
    fn new(root: &HostRoot) -> Self {
        let interrupt = Interrupt::default();
        // On a disk: the image needs direct I/O.
        let directory = tempfile::Builder::new().prefix("pgcalm-drain-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().canonicalize().unwrap();
        let journal = Journal::open(root.clone(), &path.join("journal.json")).unwrap();
        let bindir = bindir();
        let mut installation = Installation::find(root, bindir.as_deref(), &interrupt).unwrap();
        let image = path.join("data.img");
        let device = Device::create(&journal, &image, Size(512 << 20), Kind::LOOP, &interrupt).unwrap();
        let mount = path.join("data");
        let file_system = FileSystem::create(&journal, &device, FsType::Ext4, &mount, &interrupt).unwrap();
        let own = |path: PathBuf| {
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(installation.uid), Some(installation.gid)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            path
        };
        let tablespace = own(path.join("tablespace"));
        let cluster = own(path.join("cluster"));
        let socket = own(path.join("socket"));
        initdb(installation.command("initdb", &cluster), &cluster, &[]);
        // The module's caps are those of the device of base.
        let base = file_system.path().join("base");
        let status = Command::new("cp").arg("--archive").arg(cluster.join("base")).arg(&base).status().unwrap();
        assert!(status.success());
        fs::remove_dir_all(cluster.join("base")).unwrap();
        symlink(&base, cluster.join("base")).unwrap();
        // As the server's user can read it, and as it stays until the end.
        fs::copy(module_directory().join("pg_calm.so"), path.join("pg_calm.so")).unwrap();
        // The host, but for the flusher, which seems to come once an hour: what waits here does not wait for that.
        let vm = path.join("host/proc/sys/vm");
        fs::create_dir_all(&vm).unwrap();
        fs::write(vm.join("dirty_expire_centisecs"), "360000\n").unwrap();
        fs::write(vm.join("dirty_writeback_centisecs"), "500\n").unwrap();
        symlink("/proc/vmstat", path.join("host/proc/vmstat")).unwrap();

        let mut settings: BTreeMap<String, String> = [
            // A checkpoint that WAL causes is not immediate, and is soon in its sync phase.
            ("max_wal_size", "64MB"),
            ("min_wal_size", "32MB"),
            ("checkpoint_completion_target", "0.01"),
            ("checkpoint_timeout", "1h"),
            ("autovacuum", "off"),
            ("shared_preload_libraries", "pg_calm"),
            // The worker has nothing to do, and marked pages are no reason to drain.
            ("pg_calm.write_iops", "100"),
            ("pg_calm.write_bandwidth", "100MB"),
            ("pg_calm.flush_age", "1h"),
            ("pg_calm.unflushed_limit", "10GB"),
            ("pg_calm.drain_threshold", "1000"),
            ("pg_calm.drain_timeout", "1h"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
        settings.insert("dynamic_library_path".to_string(), format!("{}:$libdir", path.display()));
        installation.under_test(&path.join("host"));
        let places = Places { data: cluster, log: socket.join("server.log"), socket };
        let server = Server::start(&journal, &installation, places, &settings, &interrupt).unwrap();
        let arena = Self {
            server,
            capper: Capper::of_root_group(&journal).unwrap().unwrap(),
            _file_system: file_system,
            device,
            _journal: journal,
            directory,
        };
        arena.sql(&format!("create tablespace uncapped location '{}'", tablespace.display()));
        arena.sql("create table visited (n int, filler text)");
        arena.sql("create table small (n int)");
        arena.sql("create table elsewhere (n int) tablespace uncapped");
        arena.sql("insert into visited select i, repeat('x', 1000) from generate_series(1, 100000) i");
        arena.sql("insert into small values (0)");
        arena.sql("insert into elsewhere values (0)");
        arena.sql("vacuum");
        arena.sql("checkpoint");
        arena
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(sql, &Interrupt::default()).unwrap()
    }

    fn cap(&self, bytes_per_second: u64) -> Vec<InForce> {
        let caps = Caps { write_bps: Some(bytes_per_second), ..Caps::default() };
        self.capper.apply(&self.device, caps).unwrap()
    }

    /// Has the kernel queue all of a table that no process of the server writes, as its flusher would. Ends when
    /// it is written.
    fn queue_visited(&self) -> JoinHandle<()> {
        let path = self.sql("select pg_relation_filepath('visited')");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.directory.path().join("cluster").join(path.trim()))
            .unwrap();
        dirty_as_it_is(&file);
        let handle = thread::spawn(move || file.sync_data().unwrap());
        wait_for("a long queue", || writeback() > MUCH);
        handle
    }

    /// Has WAL cause a checkpoint with a page of this table in it; returns the number of those complete before.
    fn cause_checkpoint(&self, table: &str) -> usize {
        wait_for("the end of a checkpoint", || self.begun() == self.completed());
        let completed = self.completed();
        self.sql(&format!("update {table} set n = n + 1"));
        // No more WAL than that: a drain ends when WAL asks for the next checkpoint.
        wait_for("a checkpoint", || {
            self.sql("select pg_logical_emit_message(false, 'fill', repeat('w', 4000000))");
            self.begun() > completed
        });
        completed
    }

    fn begun(&self) -> usize {
        self.server.log().matches("checkpoint starting").count()
    }

    fn completed(&self) -> usize {
        self.server.log().matches("checkpoint complete").count()
    }

    /// What the checkpointer waits for, by the type of the event and its name.
    fn waits_for(&self) -> String {
        self.sql(
            "select wait_event_type || ' ' || wait_event from pg_stat_activity where backend_type = 'checkpointer'",
        )
        .trim()
        .to_string()
    }
}

/// Writes over the file what is in it.
fn dirty_as_it_is(file: &File) {
    let mut block = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let length = file.read_at(&mut block, offset).unwrap();
        if length == 0 {
            break;
        }
        file.write_all_at(&block[..length], offset).unwrap();
        offset += length as u64;
    }
}

#[test]
fn a_checkpoint_lets_the_kernel_write_what_it_has_queued_of_other_files() {
    let root = HostRoot::default();
    if !can_run() {
        return;
    }
    let arena = Arena::new(&root);

    // A file of another device does not wait for it.
    let caps = arena.cap(SLOW);
    let queue = arena.queue_visited();
    let completed = arena.cause_checkpoint("elsewhere");
    wait_for("a checkpoint that has nothing to wait for", || arena.completed() > completed);
    assert!(writeback() > MUCH, "the queue is gone already");

    // One of the same device does, before its fsync.
    let completed = arena.cause_checkpoint("small");
    wait_for("a drain", || arena.waits_for().starts_with("Extension "));
    assert!(writeback() > MUCH, "the queue is gone already");
    assert_eq!(arena.completed(), completed);
    drop(caps);
    queue.join().unwrap();
    wait_for("the checkpoint's end", || arena.completed() > completed);

    // What does not get less is not waited for until the timeout.
    arena.sql("alter system set pg_calm.drain_timeout = '90s'");
    arena.sql("select pg_reload_conf()");
    let caps = arena.cap(STANDING);
    let queue = arena.queue_visited();
    let completed = arena.cause_checkpoint("small");
    wait_for("a drain", || arena.waits_for().starts_with("Extension "));
    wait_for("the fsync", || arena.waits_for().starts_with("IO "));
    assert!(writeback() > MUCH, "the queue is gone already");
    assert_eq!(arena.completed(), completed);
    drop(caps);
    queue.join().unwrap();
    wait_for("the checkpoint's end", || arena.completed() > completed);
}
