//! Limits on a real server, with cgroup v1, on a real device. Needs root; says so and passes otherwise.

mod end;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_doctor::isolate::report::Report;
use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::{HostRoot, postgres, process};
use pgcalm_lab::Size;
use pgcalm_lab::device::{Device, Kind};
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_testkit::programs::{Programs, give_to_server, initdb};
use pgcalm_testkit::{module_directory, need};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal};

/// Write operations per second of the limited instance.
const LIMIT: u32 = 60;

/// Bytes of a device.
const SIZE: u64 = 400 << 20;

fn host() -> HostRoot {
    HostRoot::default()
}

/// The hierarchy, if the tests can run here; if not, says why not.
fn hierarchy() -> Option<Hierarchy> {
    let needs = [need::ROOT, need::ANY_SERVER, need::BLOCK_CGROUP];
    need::met("isolate on a real server", &needs).then(|| Hierarchy::of_block_io(&host()).unwrap()).flatten()
}

/// A directory on a disk (direct I/O), open to the servers' user.
struct Place {
    directory: PathBuf,
    // Detached after the file system is unmounted.
    loop_device: Device,
    device: String,
    partitioned: bool,
    // Dropped last: the device removes its image from it.
    _remains: Remains,
}

/// What a test leaves that fails before it has undone everything. One that passes says itself that nothing is left.
struct Remains(PathBuf);

impl Drop for Remains {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = fs::remove_dir(&self.0);
        }
    }
}

/// The limits of all instances below a directory are lifted, those of instances that have ended as well.
fn lift_limits_below(directory: &Path) {
    for note in fs::read_dir("/run/pgcalm/isolate").into_iter().flatten().flatten() {
        let data = fs::read(note.path())
            .ok()
            .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
            .and_then(|note| Some(PathBuf::from(note["data_directory"].as_str()?)));
        if let Some(data) = data.filter(|data| data.starts_with(directory)) {
            let _ = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
                .args(["isolate", "clear", "--apply", "--yes", "--instance"])
                .arg(data)
                .status();
        }
    }
}

impl Place {
    fn new(test: &str) -> Self {
        Self::with(test, false)
    }

    /// With the file system on a partition of the device, or on the device itself.
    fn with(test: &str, partitioned: bool) -> Self {
        let directory = PathBuf::from(format!("/var/tmp/pgcalm-isolate-{}-{test}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let journal = Journal::open(host(), &directory.join("journal.json")).unwrap();
        let image = directory.join("pgcalm.img");
        let device = Device::create(&journal, &image, Size(SIZE), Kind::LOOP, &Interrupt::default()).unwrap();
        let mut node = device.node();
        if partitioned {
            node.push_str("p1");
            partition(&device, &node);
        }
        let mkfs = Command::new("mkfs.ext4")
            .args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&node)
            .status();
        assert!(mkfs.unwrap().success());
        fs::create_dir(directory.join("mnt")).unwrap();
        rustix::mount::mount(&node, directory.join("mnt"), "ext4", MountFlags::empty(), None).unwrap();
        Self {
            directory: directory.clone(),
            device: device.name.clone(),
            loop_device: device,
            partitioned,
            _remains: Remains(directory),
        }
    }

    /// With everything in it gone.
    fn end(self) {
        let directory = self.directory.clone();
        drop(self);
        fs::remove_dir(directory).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if thread::panicking() {
            lift_limits_below(&self.directory);
        }
        let mountpoint = self.directory.join("mnt");
        for _ in 0..100 {
            if rustix::mount::unmount(&mountpoint, UnmountFlags::empty()).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        if self.partitioned {
            let _ = Command::new("delpart").args([self.loop_device.node().as_str(), "1"]).status();
        }
        let _ = fs::remove_dir(&mountpoint);
        // The device removes its image after this; a directory that isn't empty yet stays for that.
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "log") {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// One partition on all of the device but its first MiB. It is told to the kernel only, so there is no table to write.
fn partition(device: &Device, node: &str) {
    let sectors = (SIZE - (1 << 20)) / 512;
    // Of a test that was killed: the loop device is given out again with it.
    let _ = Command::new("delpart").args([device.node().as_str(), "1"]).stderr(Stdio::null()).status();
    let status = Command::new("addpart").args([device.node().as_str(), "1", "2048", &sectors.to_string()]).status();
    assert!(status.unwrap().success());
    let end = Instant::now() + Duration::from_secs(30);
    while !Path::new(node).exists() {
        assert!(Instant::now() < end, "no {node}");
        thread::sleep(Duration::from_millis(20));
    }
}

struct Server {
    child: Child,
    data: PathBuf,
}

impl Server {
    fn start(place: &Place, name: &str) -> Self {
        Self::start_with(place, name, &[])
    }

    fn start_with(place: &Place, name: &str, options: &[&str]) -> Self {
        let data = place.directory.join("mnt").join(name);
        fs::create_dir(&data).unwrap();
        give_to_server(&data);
        initdb(program("initdb"), &data, &[]);
        let log = fs::File::create(place.directory.join(format!("{name}.log"))).unwrap();
        let child = program("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "port=5432", "-k"])
            .arg(&data)
            .args(options)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { child, data };
        let end = Instant::now() + Duration::from_secs(60);
        while !server.sql("select 1").status.success() {
            assert!(Instant::now() < end, "{name} does not start");
            thread::sleep(Duration::from_millis(100));
        }
        server
    }

    fn sql(&self, sql: &str) -> std::process::Output {
        program("psql")
            .args(["-XAtq", "-U", "postgres", "-h"])
            .arg(&self.data)
            .args(["-c", sql, "postgres"])
            .output()
            .unwrap()
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Commits for two seconds, each of which is at least one write of WAL; returns how many there were per second.
    fn commits(&self) -> f64 {
        let output = program("pgbench")
            .args(["-n", "-c", "1", "-T", "2", "-U", "postgres", "-h"])
            .arg(&self.data)
            .args(["-f", "/dev/stdin", "postgres"])
            .stdin(script(&self.data))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        tps.unwrap_or_else(|| panic!("{text} {:?}", String::from_utf8(output.stderr)))
    }
}

impl Server {
    /// Whether it commits faster than that in one of some tries: a disk that others use is slow for seconds, a limit all the time.
    fn commits_faster_than(&self, rate: f64) -> bool {
        (0..10).any(|_| self.commits() > rate)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid()) {
            let _ = rustix::process::kill_process(pid, Signal::QUIT);
        }
        let _ = self.child.wait();
    }
}

fn script(data: &Path) -> fs::File {
    let file = data.with_extension("sql.log");
    fs::write(&file, "insert into t values (1);\n").unwrap();
    fs::File::open(file).unwrap()
}

fn program(name: &str) -> Command {
    let bindir = postgres::bindirs(&host()).swap_remove(0);
    let mut command = Programs::new(&bindir, Path::new("/")).command(name);
    command.stdin(Stdio::null());
    command
}

/// What changes something is to do so, unless it is only to plan.
fn isolate(arguments: &[&str]) -> Report {
    let changes = matches!(arguments[0], "set" | "clear") && !arguments.contains(&"--plan");
    let output = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
        .arg("isolate")
        .args(arguments)
        .args(changes.then_some(["--apply", "--yes"]).into_iter().flatten())
        .arg("--json")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `pgcalm isolate set` with a limit on writes, started.
fn start_set(data: &str, node: &str, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pgcalm"))
        .args(["isolate", "set", "--apply", "--yes"])
        .args(["--instance", data, "--device", node])
        .args(["--write-iops", "1000"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The same with `--hold`, when the limits are there.
fn hold(data: &str, node: &str) -> Child {
    let child = start_set(data, node, &["--hold"]);
    wait_until("the limits", || {
        let shown = isolate(&["show"]);
        // The limits are there before the record of them is complete.
        let under_way = shown.notes.iter().any(|note| note.contains("has begun"));
        let limits = shown.instances.iter().find(|one| one.data_directory == data);
        !under_way && limits.is_some_and(|one| one.isolated && one.other_groups.is_empty() && !one.limits.is_empty())
    });
    child
}

fn send(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "not seen: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether anything of `pgcalm isolate` is left of an instance: its group, or the note of it.
fn is_left(hierarchy: &Hierarchy, former: &[PathBuf], server: &Server) -> bool {
    let name = format!("pgcalm-isolate-{}", server.pid());
    let note = PathBuf::from(format!("/run/pgcalm/isolate/{name}.json"));
    hierarchy.directory(&former[0]).join(name).exists() || note.exists()
}

/// The groups of all processes of a server.
fn groups(hierarchy: &Hierarchy, server: &Server) -> Vec<PathBuf> {
    let table = process::table(&host()).unwrap();
    let mut groups: Vec<PathBuf> = process::family(&table, server.pid())
        .iter()
        .filter_map(|process| hierarchy.group_of(&host(), &process.pid.to_string()).ok().flatten())
        .collect();
    groups.sort();
    groups.dedup();
    groups
}

#[test]
fn a_limit_holds_for_one_instance_until_it_is_cleared() {
    let Some(hierarchy) = hierarchy() else { return };
    let place = Place::new("limit");
    let (one, two) = (Server::start(&place, "one"), Server::start(&place, "two"));
    for server in [&one, &two] {
        assert!(server.sql("create table t (a int)").status.success());
    }
    let former = groups(&hierarchy, &two);
    assert_eq!(groups(&hierarchy, &one), former);

    // Both have the same port: only the directory tells them apart.
    let data = one.data.to_str().unwrap();
    let node = format!("/dev/{}", place.device);
    let limit = LIMIT.to_string();
    let arguments = ["set", "--instance", data, "--device", &node, "--write-iops", &limit];
    let plan = isolate(&[&arguments[..], &["--plan"]].concat());
    assert!(!plan.applied);
    assert_eq!(groups(&hierarchy, &one), former);
    let set = isolate(&arguments);
    assert!(set.applied);
    assert!(set.instances[0].isolated);
    assert_eq!(set.instances[0].other_groups, [""; 0]);
    assert_eq!(set.instances[0].limits.last().unwrap().value, u64::from(LIMIT));
    // The steps of the plan are made, and maybe moves of processes that have come since.
    for step in &plan.steps {
        let made = set.steps.contains(step) || step.action == "move";
        assert!(made, "{step:?}");
    }

    let before = DeviceStat::read(&host(), &place.device).unwrap();
    let started = Instant::now();
    let limited = one.commits();
    let seconds = started.elapsed().as_secs_f64();
    let after = DeviceStat::read(&host(), &place.device).unwrap();
    let writes = (after.write_ops - before.write_ops) as f64 / seconds;
    assert!(limited < f64::from(LIMIT) * 1.15, "{limited}");
    assert!(writes > f64::from(LIMIT) * 0.5, "{writes}");
    assert!(two.commits_faster_than(limited * 3.0), "{limited}");
    // A backend that has come since is in the group, and none of the other instance.
    assert_eq!(groups(&hierarchy, &two), former);
    assert_eq!(groups(&hierarchy, &one).len(), 1);
    assert_ne!(groups(&hierarchy, &one), former);

    let names: Vec<String> = isolate(&["check"])
        .hazards
        .into_iter()
        .filter(|hazard| hazard.instances.iter().any(|name| name == data))
        .map(|hazard| hazard.name)
        .collect();
    assert_eq!(names, ["shared-journal", "wal-on-capped-device", "writeback-escapes-limit"]);

    let group = hierarchy.directory(&groups(&hierarchy, &one)[0]);
    let cleared = isolate(&["clear", "--instance", data]);
    assert!(cleared.applied);
    assert!(!group.exists());
    assert_eq!(groups(&hierarchy, &one), former);
    assert!(one.commits_faster_than(limited * 3.0), "{limited}");
    drop((one, two));
    place.end();
}

#[test]
fn a_group_whose_instance_has_ended_is_cleared() {
    let Some(hierarchy) = hierarchy() else { return };
    let place = Place::new("ended");
    let server = Server::start(&place, "one");
    let data = server.data.to_str().unwrap().to_string();
    let node = format!("/dev/{}", place.device);
    let set = isolate(&["set", "--instance", &data, "--device", &node, "--read-bandwidth", "100MB"]);
    let group = hierarchy.directory(Path::new(set.instances[0].group.there().unwrap()));
    drop(server);
    let noted = isolate(&["show"]).notes;
    assert!(noted.iter().any(|note| note.contains(&data)), "{noted:?}");
    assert!(group.exists());
    isolate(&["clear", "--instance", &data]);
    assert!(!group.exists());
    place.end();
}

/// Copies the module to where the server's user may read it; false if it was not built.
fn has_module(place: &Place) -> bool {
    let is_built = need::met("pg_calm on a partition", &[need::MODULE]);
    if is_built {
        let module = module_directory().join("pg_calm.so");
        fs::copy(module, place.directory.join("mnt/pg_calm.so")).unwrap();
    }
    is_built
}

#[test]
fn on_a_partition_the_limit_is_on_its_disk() {
    if hierarchy().is_none() {
        return;
    }
    let place = Place::with("partition", true);
    // The module finds limits by itself, for the disk of the data directory's partition as well.
    let module = has_module(&place);
    let path = format!("dynamic_library_path={}:$libdir", place.directory.join("mnt").display());
    let load = ["-c", &path, "-c", "shared_preload_libraries=pg_calm"];
    let server = Server::start_with(&place, "one", if module { &load } else { &[] });
    let data = server.data.to_str().unwrap();
    let disk = &place.device;
    let node = format!("/dev/{disk}p1");
    let limit = LIMIT.to_string();
    let set = isolate(&["set", "--instance", data, "--device", &node, "--write-iops", &limit]);
    let on_data = &set.instances[0].places[0];
    assert_eq!(on_data.device.as_deref(), Some(format!("{disk}p1").as_str()));
    assert_eq!(&on_data.disk.there().unwrap().name, disk);
    let felt = set.instances[0].limits.last().unwrap();
    assert_eq!((&felt.disk.name, felt.value), (disk, u64::from(LIMIT)));
    let told = set.notes.iter().any(|note| note.contains("is a partition"));
    assert!(told, "{:?}", set.notes);
    assert!(server.sql("create table t (a int)").status.success());
    let limited = server.commits();
    assert!(limited < f64::from(LIMIT) * 1.15, "{limited}");
    if module {
        let script = fs::read_to_string(module_directory().join("pg_calm--0.1.sql")).unwrap();
        let script: String = script
            .replace("MODULE_PATHNAME", "pg_calm")
            .lines()
            .filter(|line| !line.starts_with('\\'))
            .fold(String::new(), |script, line| script + line + "\n");
        let created = server.sql(&script);
        assert!(created.status.success(), "{created:?}");
        wait_until("the limit in pg_calm_status", || {
            let found = server.sql("select write_iops from pg_calm_status").stdout;
            String::from_utf8_lossy(&found).trim() == limit
        });
    }
    isolate(&["clear", "--instance", data]);
    drop(server);
    place.end();
}
