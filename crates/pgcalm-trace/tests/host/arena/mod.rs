//! A server of its own on devices of its own, to be traced while something is wrong with it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::HostRoot;
use pgcalm_lab::Size;
use pgcalm_lab::cap::{Capper, Caps, InForce};
use pgcalm_lab::device::{Device, Kind};
use pgcalm_lab::filesystem::FileSystem;
use pgcalm_lab::installation::Installation;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::{Change, Journal, Undo};
use pgcalm_lab::options::FsType;
use pgcalm_lab::server::{Places, Server};
use pgcalm_testkit::need;
use pgcalm_testkit::programs::{Running, initdb};
use pgcalm_trace::report::EndReason;
use pgcalm_trace::report::view::Shown;
use pgcalm_trace::stop::Stop;
use pgcalm_trace::target::{Selection, Target};
use pgcalm_trace::why::report::Line;
use rustix::fs::Advice;

/// Whether stalls can be made and traced here; if not, says why not.
pub(crate) fn can_run() -> bool {
    let needs = [need::ROOT, need::KERNEL_TYPES, need::ROOT_GROUP_CAPS];
    need::met("stalls made on purpose", &needs)
}

/// What a server runs with.
pub(crate) struct Setup {
    /// File system of the data directory.
    pub data: FsType,
    /// What it is mounted with.
    pub mount_options: Option<&'static CStr>,
    /// Settings besides small buffers.
    pub settings: &'static [(&'static str, &'static str)],
    /// What initdb is given.
    pub initdb: &'static [&'static str],
    /// Whether pg_wal is on the device of the data.
    pub shares_device: bool,
    /// `pgbench -i -s`; 0 for none.
    pub scale: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self { data: FsType::Ext4, mount_options: None, settings: &[], initdb: &[], shares_device: false, scale: 0 }
    }
}

/// The server with its devices. Dropped in this order: server, caps, file systems, devices, directory.
pub(crate) struct Arena {
    pub server: Server,
    pub capper: Capper,
    pub data: FileSystem,
    pub _wal: FileSystem,
    pub data_device: Device,
    pub wal_device: Device,
    pub journal: Journal,
    pub directory: tempfile::TempDir,
    scale: u32,
}

impl Arena {
    pub(crate) fn new(setup: &Setup) -> Self {
        let interrupt = Interrupt::default();
        let root = HostRoot::default();
        let directory = tempfile::Builder::new().prefix("pgcalm-trace-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().canonicalize().unwrap();
        let journal = Journal::open(root.clone(), &path.join("journal.json")).unwrap();
        let installation = Installation::find(&root, None, &interrupt).unwrap();
        let device = |name: &str, mib: u64| {
            let image = path.join(format!("{name}.img"));
            Device::create(&journal, &image, Size(mib << 20), Kind::LOOP, &interrupt).unwrap()
        };
        let data_device = device("data", 768);
        let wal_device = device("wal", 512);
        let mount = |device: &Device, fs_type, name: &str| {
            let target = path.join(name);
            FileSystem::create(&journal, device, fs_type, &target, &interrupt).unwrap()
        };
        let mut data = mount(&data_device, setup.data, "data");
        if let Some(options) = setup.mount_options {
            data.remount_with(options).unwrap();
        }
        let wal = mount(&wal_device, FsType::Ext4, "wal");
        let own = |path: &Path| {
            fs::create_dir_all(path).unwrap();
            std::os::unix::fs::chown(path, Some(installation.uid), Some(installation.gid)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            path.to_path_buf()
        };
        let cluster = own(&data.path().join("cluster"));
        let socket = own(&path.join("socket"));
        let pg_wal = wal.path().join("pg_wal");
        initdb(installation.command("initdb", &cluster), &cluster, setup.initdb);
        if !setup.shares_device {
            own(&pg_wal);
            for entry in fs::read_dir(cluster.join("pg_wal")).unwrap() {
                let entry = entry.unwrap();
                let target = pg_wal.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    own(&target);
                } else {
                    fs::copy(entry.path(), &target).unwrap();
                    std::os::unix::fs::chown(&target, Some(installation.uid), Some(installation.gid)).unwrap();
                }
            }
            fs::remove_dir_all(cluster.join("pg_wal")).unwrap();
            symlink(&pg_wal, cluster.join("pg_wal")).unwrap();
        }
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in [
            ("shared_buffers", "16MB"),
            ("max_wal_size", "2GB"),
            ("min_wal_size", "256MB"),
            ("checkpoint_timeout", "1h"),
            ("autovacuum", "off"),
        ]
        .iter()
        .chain(setup.settings)
        {
            settings.insert((*name).to_string(), (*value).to_string());
        }
        let places = Places { data: cluster, log: socket.join("server.log"), socket };
        let server = Server::start(&journal, &installation, places, &settings, &interrupt).unwrap();
        let arena = Self {
            server,
            capper: Capper::of_root_group(&journal).unwrap().unwrap(),
            data,
            _wal: wal,
            data_device,
            wal_device,
            journal,
            directory,
            scale: setup.scale,
        };
        if setup.scale > 0 {
            let mut load = arena.server.client("pgbench");
            load.args(["-i", "-q", "-s", &setup.scale.to_string(), "postgres"])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            assert!(load.status().unwrap().success());
            arena.sql("checkpoint");
        }
        arena
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.server.sql(sql, &Interrupt::default()).unwrap()
    }

    /// Starts psql on its way.
    pub(crate) fn psql(&self, sql: &str) -> Running {
        let mut command = self.server.psql();
        command.args(["-c", sql]).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    /// Starts psql with a script that stays with the server.
    pub(crate) fn psql_file(&self, name: &str, script: &str) -> Running {
        let file = self.directory.path().join(format!("{name}.sql"));
        fs::write(&file, script).unwrap();
        let mut command = self.server.psql();
        command.arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    /// Starts four clients with a script; they end with the result.
    pub(crate) fn pgbench(&self, script: &str) -> Running {
        let file = self.directory.path().join("script.sql");
        fs::write(&file, script).unwrap();
        let mut command = self.server.client("pgbench");
        command
            .args(["-n", "-f"])
            .arg(&file)
            .args(["-c", "4", "-T", "600"])
            // pgbench takes no scale from the tables for a script
            .args(["-D", &format!("scale={}", self.scale)])
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    pub(crate) fn cap(&self, device: &Device, caps: Caps) -> Vec<InForce> {
        self.capper.apply(device, caps).unwrap()
    }

    /// Somebody on the file system of the data whose group may do so many writes per second: in data=ordered mode the journal's commit
    /// waits for its data, which the limit holds back.
    pub(crate) fn neighbour(&self, writes: u32) -> Neighbour {
        let path = format!("/sys/fs/cgroup/blkio/pgcalm-trace-test-{}", self.data_device.name);
        let group = self.journal.note(Change::Cgroup { path: path.clone().into() }).unwrap();
        fs::create_dir(&path).unwrap();
        let cap = format!("{} {writes}", self.data_device.number);
        fs::write(format!("{path}/blkio.throttle.write_iops_device"), cap).unwrap();
        Neighbour { _thread: NeighbourThread::start(self.data.path(), &path), _group: group }
    }

    /// Lets 4 MB of the data's device be dirty, for this device alone; vm.dirty_bytes would hold up the whole host. Until dropped.
    pub(crate) fn limit_dirty_data(&self) -> Vec<Undo> {
        let bdi = format!("/sys/class/bdi/{}", self.data_device.number);
        // max_bytes is kept as a share of the host's threshold, which moves: only max_ratio_fine gives back what was there.
        let limits = [("strict_limit", "strict_limit", "1"), ("max_bytes", "max_ratio_fine", "4194304")];
        let set = |(name, kept, value): (&str, &str, &str)| {
            let file = format!("{bdi}/{kept}");
            let former = fs::read_to_string(&file).unwrap().trim().to_string();
            let undo = self.journal.note(Change::Setting { file: file.into(), former }).unwrap();
            fs::write(format!("{bdi}/{name}"), value).unwrap();
            undo
        };
        limits.into_iter().map(set).collect()
    }

    /// Drops what the page cache has of the data files.
    pub(crate) fn forget_data(&self) {
        fn visit(directory: &Path) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    visit(&path);
                } else if let Ok(file) = File::open(&path) {
                    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                }
            }
        }
        visit(&self.data.path().join("cluster/base"));
    }

    pub(crate) fn target(&self) -> Target {
        Target::find(&HostRoot::default(), &Selection { pid: Some(self.server.pid()), ..Selection::default() }).unwrap()
    }

    /// Traces why.
    pub(crate) fn why(&self) -> Trace<Line> {
        let options = pgcalm_trace::why::Options {
            duration: None,
            threshold: Duration::from_millis(500),
            probes: true,
            wal_calls: false,
            connect: None,
        };
        Trace::start(self.target(), move |target, stop, take| {
            pgcalm_trace::why::run(target, &options, stop, &mut |line| {
                eprint!("{}", line.text());
                take(line);
                Ok(())
            })
        })
    }
}

/// A trace under way in a thread.
pub(crate) struct Trace<T> {
    stop: Stop,
    lines: Arc<Mutex<Vec<T>>>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Trace<T> {
    /// Starts it.
    pub(crate) fn start(
        target: Target,
        run: impl FnOnce(&Target, &Stop, &mut dyn FnMut(T)) -> anyhow::Result<EndReason> + Send + 'static,
    ) -> Self {
        let stop = Stop::default();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let thread = thread::spawn({
            let (stop, lines) = (stop.clone(), Arc::clone(&lines));
            move || {
                run(&target, &stop, &mut |line| lines.lock().unwrap().push(line)).unwrap();
            }
        });
        Self { stop, lines, thread }
    }

    /// Waits until that many lines are there that `counts` is true of.
    pub(crate) fn wait_for(&self, number: usize, counts: impl Fn(&T) -> bool) {
        let end = Instant::now() + PATIENCE;
        while self.lines.lock().unwrap().iter().filter(|line| counts(line)).count() < number {
            assert!(!self.thread.is_finished(), "the trace has ended");
            assert!(Instant::now() < end, "the trace tells too little");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it and gives all its lines.
    pub(crate) fn finish(self) -> Vec<T> {
        self.stop.set();
        self.thread.join().unwrap();
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

/// How long a trace may take to say what a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A thread in a block cgroup that creates files and fsyncs them. Dropped in this order.
pub(crate) struct Neighbour {
    _thread: NeighbourThread,
    _group: Undo,
}

struct NeighbourThread {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NeighbourThread {
    fn start(directory: &Path, group: &str) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (directory, tasks, stop) = (directory.join("neighbour"), format!("{group}/tasks"), Arc::clone(&end));
        fs::create_dir_all(&directory).unwrap();
        let thread = thread::spawn(move || {
            let me = rustix::thread::gettid().as_raw_nonzero().to_string();
            fs::write(&tasks, &me).unwrap();
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut file = fs::File::create(directory.join(number.to_string())).unwrap();
                file.write_all(&[1; 256 << 10]).unwrap();
                file.sync_all().unwrap();
                number += 1;
            }
        });
        Self { end, thread: Some(thread) }
    }
}

impl Drop for NeighbourThread {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
