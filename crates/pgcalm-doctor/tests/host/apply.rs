//! Changes are made and taken back exactly: files of a fake kernel, settings of a real server (as root; else it says so).

use crate::fake;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pgcalm_doctor::collect::Options;
use pgcalm_doctor::report::{Change, Target};
use pgcalm_doctor::{apply, collect, rules, undo};
use pgcalm_host::{Failure, HostRoot};
use pgcalm_lab::installation::Installation;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Journal;
use pgcalm_lab::server::{Places, Server};
use pgcalm_postgres::ConnectError;
use pgcalm_testkit::need;
use pgcalm_testkit::programs::initdb;

use fake::Host;

fn kernel(file: &str, to: &str) -> Change {
    Change { target: Target::Kernel, name: file.into(), from: None, to: Some(to.into()) }
}

fn setting(name: &str, to: &str) -> Change {
    Change { target: Target::Setting, name: name.into(), from: None, to: Some(to.into()) }
}

#[test]
fn files_of_the_kernel_come_back_as_they_were() {
    let host = Host::new();
    host.sysctl("dirty_writeback_centisecs", 0);
    host.write("sys/class/bdi/8:0/max_ratio_fine", "937\n");
    let state = host.root.path("state");
    let report = rules::judge(host.facts());
    let changes = rules::changes(&report, &[]);
    assert_eq!(changes.len(), 2, "{changes:?}");
    let plan = apply::plan(&host.root, changes, None).unwrap();
    assert_eq!(plan.notes, [""; 0]);
    apply::apply(&host.root, &state, &plan.changes, None).unwrap();
    assert_eq!(host.read("proc/sys/vm/dirty_writeback_centisecs"), "500");
    assert_eq!(host.read("sys/class/bdi/8:0/max_ratio_fine"), "1000000");
    let undone = undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(undone.changes.len(), 2);
    assert_eq!(undone.notes, [""; 0]);
    assert_eq!(host.read("proc/sys/vm/dirty_writeback_centisecs"), "0");
    assert_eq!(host.read("sys/class/bdi/8:0/max_ratio_fine"), "937");
    // Nothing is left to be taken back a second time.
    let again = undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(again, undo::Undone::default());
}

#[test]
fn a_ratio_that_replaced_bytes_is_taken_back_by_writing_the_bytes() {
    let host = Host::new();
    let state = host.root.path("state");
    host.sysctl("dirty_bytes", 4096);
    host.sysctl("dirty_ratio", 0);
    let changes = [kernel("/proc/sys/vm/dirty_ratio", "60")];
    apply::apply(&host.root, &state, &changes, None).unwrap();
    // The kernel does this when the ratio is written.
    host.sysctl("dirty_bytes", 0);
    let undone = undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(host.read("proc/sys/vm/dirty_bytes"), "4096");
    assert_eq!(undone.changes[0].name, "/proc/sys/vm/dirty_bytes");
}

#[test]
fn a_value_that_somebody_has_changed_since_is_left_and_one_of_an_earlier_boot_forgotten() {
    let host = Host::new();
    let state = host.root.path("state");
    let file = "/proc/sys/vm/dirty_expire_centisecs";
    apply::apply(&host.root, &state, &[kernel(file, "30000")], None).unwrap();
    host.sysctl("dirty_expire_centisecs", 1234);
    let undone = undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(undone.changes, []);
    assert!(undone.notes[0].contains("1234"), "{:?}", undone.notes);
    assert!(undone.notes[0].contains("3000"), "{:?}", undone.notes);
    assert_eq!(host.read(file).trim(), "1234");

    apply::apply(&host.root, &state, &[kernel(file, "30000")], None).unwrap();
    host.write("proc/sys/kernel/random/boot_id", "boot-2\n");
    host.sysctl("dirty_expire_centisecs", 3000);
    let undone = undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(undone, undo::Undone::default());
}

#[test]
fn a_value_that_comes_back_with_each_boot_is_told() {
    let host = Host::new();
    let state = host.root.path("state");
    let file = "/proc/sys/vm/dirty_expire_centisecs";
    apply::apply(&host.root, &state, &[kernel(file, "30000")], None).unwrap();
    host.write("proc/sys/kernel/random/boot_id", "boot-2\n");
    let undone = undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(undone.changes, []);
    assert!(undone.notes.len() == 1 && undone.notes[0].contains("before this boot"), "{:?}", undone.notes);
    assert_eq!(host.read(file), "30000");
}

#[test]
fn a_second_apply_keeps_the_first_former_value() {
    let host = Host::new();
    let state = host.root.path("state");
    let file = "/proc/sys/vm/dirty_expire_centisecs";
    for value in ["30000", "20000"] {
        apply::apply(&host.root, &state, &[kernel(file, value)], None).unwrap();
    }
    undo::undo(&host.root, &state, None, false).unwrap();
    assert_eq!(host.read(file), "3000");
}

#[test]
fn what_went_with_its_device_does_not_keep_the_rest_from_being_taken_back() {
    let host = Host::new();
    let state = host.root.path("state");
    host.write("sys/class/bdi/8:16/max_ratio_fine", "937\n");
    let (device, sysctl) = ("/sys/class/bdi/8:16/max_ratio_fine", "/proc/sys/vm/dirty_expire_centisecs");
    let changes = [kernel(sysctl, "30000"), kernel(device, "1000000")];
    apply::apply(&host.root, &state, &changes, None).unwrap();
    fs::remove_file(host.root.path(device)).unwrap();
    let undone = undo::undo(&host.root, &state, None, false).unwrap();
    assert!(undone.notes[0].contains(device), "{:?}", undone.notes);
    assert_eq!(undone.changes.len(), 1);
    assert_eq!(host.read(sysctl), "3000");
    assert_eq!(undo::undo(&host.root, &state, None, false).unwrap(), undo::Undone::default());
}

#[test]
fn what_cannot_be_taken_back_does_not_keep_the_rest_from_it_and_is_not_forgotten() {
    let host = Host::new();
    let state = host.root.path("state");
    host.write("sys/class/bdi/8:16/max_ratio_fine", "937\n");
    let (device, sysctl) = ("/sys/class/bdi/8:16/max_ratio_fine", "/proc/sys/vm/dirty_expire_centisecs");
    let changes = [kernel(sysctl, "30000"), kernel(device, "1000000")];
    apply::apply(&host.root, &state, &changes, None).unwrap();
    cannot_be_read(&host, device);
    let plan = undo::undo(&host.root, &state, None, true).unwrap();
    assert!(plan.changes.len() == 1 && plan.notes[0].contains(device), "{plan:?}");
    let error = undo::undo(&host.root, &state, None, false).unwrap_err();
    assert!(format!("{error:#}").contains(device), "{error:#}");
    assert_eq!(host.read(sysctl), "3000");
    fs::remove_dir(host.root.path(device)).unwrap();
    host.write(device, "1000000");
    assert_eq!(undo::undo(&host.root, &state, None, false).unwrap().changes.len(), 1);
    assert_eq!(host.read(device), "937");
}

/// Not even by root.
fn cannot_be_read(host: &Host, file: &str) {
    fs::remove_file(host.root.path(file)).unwrap();
    fs::create_dir(host.root.path(file)).unwrap();
}

#[test]
fn no_other_file_is_written_whatever_the_state_says() {
    let host = Host::new();
    let state = host.root.path("state");
    host.write("etc/passwd", "x");
    for file in ["/etc/passwd", "/proc/sys/vm/dirty_/../../../../etc/passwd"] {
        assert!(apply::apply(&host.root, &state, &[kernel(file, "y")], None).is_err());
    }
    host.write(
        "state/state.json",
        r#"[{"target":"kernel","boot_id":"boot-1","file":"/etc/passwd","set":"x","former_file":"/etc/passwd","former":"y"}]"#,
    );
    let error = undo::undo(&host.root, &state, None, false).unwrap_err();
    assert!(error.to_string().contains("/etc/passwd"), "{error}");
    assert_eq!(host.read("etc/passwd"), "x");
}

#[test]
fn what_cannot_be_changed_here_is_left_out_and_said() {
    let host = Host::new();
    fs::remove_file(host.root.path("proc/sys/vm/dirty_ratio")).unwrap();
    let changes = vec![
        kernel("/proc/sys/vm/dirty_ratio", "60"),
        kernel("/proc/sys/vm/dirty_expire_centisecs", "30000"),
        setting("max_wal_size", "2GB"),
    ];
    let plan = apply::plan(&host.root, changes, None).unwrap();
    assert_eq!(plan.changes.len(), 1);
    assert_eq!(plan.notes.len(), 2);
    assert!(plan.notes[1].contains("superuser"), "{:?}", plan.notes);
}

#[test]
fn a_server_that_was_named_and_is_not_there_is_an_error_of_its_own_and_the_host_is_judged() {
    let host = Host::new();
    let named = |connect: Option<&str>, instance: Option<&str>| Options {
        connect: connect.map(str::to_string),
        instance: instance.map(str::to_string),
        ..Options::default()
    };
    for options in [named(None, Some("1")), named(None, Some("/nowhere")), named(Some("host=/nowhere"), None)] {
        let collected = collect::collect(&host.root, &options).unwrap();
        let error = collected.unasked.unwrap();
        assert!(error.is::<Failure>() || error.is::<ConnectError>(), "{error:?}");
        assert!(collected.connection.is_none());
        assert!(collected.facts.host.unwrap().memory_bytes.is_some());
    }
    let error = collect::collect(&host.root, &named(Some("no conninfo"), None)).err();
    assert!(error.unwrap().is::<ConnectError>());
}

/// A server in a directory of its own; shut down with its directory.
struct Cluster {
    server: Server,
    data: PathBuf,
    socket: PathBuf,
    state: PathBuf,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// `None`, and says why, if there can be none here.
    fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let root = HostRoot::default();
        if !need::met("doctor on a real server", &[need::ROOT, need::ANY_SERVER]) {
            return None;
        }
        let interrupt = Interrupt::default();
        let directory = tempfile::Builder::new().prefix("pgcalm-doctor-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().canonicalize().unwrap();
        let journal = Journal::open(root.clone(), &path.join("journal.json")).unwrap();
        let installation = Installation::find(&root, None, &interrupt).unwrap();
        let own = |name: &str| {
            let path = path.join(name);
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(installation.uid), Some(installation.gid)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            path
        };
        let (data, socket) = (own("data"), own("socket"));
        // As packages have it: the operating system's user is the role.
        initdb(installation.command("initdb", &data), &data, &["--auth=peer"]);
        let settings: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let places = Places { data: data.clone(), socket: socket.clone(), log: path.join("server.log") };
        let server = Server::start(&journal, &installation, places, &settings, &interrupt).unwrap();
        Some(Self { server, data, socket, state: path.join("state"), _directory: directory })
    }

    fn sql(&self, sql: &str) -> String {
        let text = self.server.sql(sql, &Interrupt::default()).unwrap();
        text.trim().to_string()
    }

    /// Lines of postgresql.auto.conf that set something, sorted: ALTER SYSTEM moves what it changes to the end.
    fn auto_conf(&self) -> Vec<String> {
        let text = fs::read_to_string(self.data.join("postgresql.auto.conf")).unwrap();
        let mut lines: Vec<String> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect();
        lines.sort();
        lines
    }

    /// By a connection string, from which it has to be found out that the server runs here.
    fn by_socket(&self, role: &str) -> Options {
        let socket = self.socket.display();
        Options {
            connect: Some(format!("host={socket} port=5432 options=-crole={role}")),
            sample: Duration::ZERO,
            ..Options::default()
        }
    }

    fn options(&self) -> Options {
        Options {
            instance: Some(self.data.display().to_string()),
            sample: Duration::from_millis(100),
            ..Options::default()
        }
    }
}

#[test]
fn a_real_server_is_read_judged_changed_and_changed_back() {
    let Some(cluster) = Cluster::start(&[
        ("checkpoint_completion_target", "0.5"),
        ("log_checkpoints", "off"),
        ("wal_writer_flush_after", "64MB"),
        ("wal_writer_delay", "5s"),
        ("archive_mode", "on"),
        ("archive_command", "true # secret"),
    ]) else {
        return;
    };
    let root = HostRoot::default();
    // One that ALTER SYSTEM has set before.
    cluster.sql("ALTER SYSTEM SET wal_writer_delay = '4s'");
    cluster.sql("SELECT pg_create_physical_replication_slot('standby', true)");
    let before = cluster.auto_conf();
    assert_eq!(before.len(), 1);
    let shown = || {
        ["checkpoint_completion_target", "log_checkpoints", "wal_writer_flush_after", "wal_writer_delay"]
            .map(|name| cluster.sql(&format!("SHOW {name}")))
    };
    let shown_before = ["0.5", "off", "64MB", "4s"].map(String::from);

    let collected = collect::collect(&root, &cluster.options()).unwrap();
    let facts = &collected.facts;
    let host = facts.host.as_ref().unwrap();
    let instance = host.instance.as_ref().unwrap();
    assert_eq!(Path::new(&instance.data_directory), cluster.data);
    assert!(host.wal_file_system.is_some() && host.usdt_probes.is_some());
    assert!(host.memory_bytes.is_some() && host.dirty_thresholds.is_some());
    let server = facts.server.as_ref().expect("root connects as the server's user");
    assert_eq!(server.data_directory.as_deref(), cluster.data.to_str());
    assert!(server.wal.directory_bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(server.slots.len(), 1);
    assert!(server.database_bytes.is_some_and(|bytes| bytes > 0));
    assert!(facts.sample.as_ref().unwrap().wal_bytes_per_second.is_some());
    let json = pgcalm_render::json::to_json_pretty(&rules::judge(facts.clone())).unwrap();
    assert!(!json.contains("secret"), "a command may hold a password");

    let report = rules::judge(collected.facts);
    let mut connection = collected.connection.unwrap();
    let only = ["checkpoint-completion-target", "log-checkpoints-off", "wal-writer-bursts"].map(String::from);
    let changes = rules::changes(&report, &only);
    assert_eq!(changes.len(), 4, "{changes:?}");
    let plan = apply::plan(&root, changes, Some(&mut connection)).unwrap();
    assert_eq!(plan.notes, [""; 0]);
    apply::apply(&root, &cluster.state, &plan.changes, Some(&mut connection)).unwrap();
    assert_eq!(shown(), ["0.9", "on", "1MB", "200ms"]);
    let after = rules::judge(collect::collect(&root, &cluster.options()).unwrap().facts);
    for rule in only {
        assert!(after.clear.contains(&rule), "{rule}: {:?}", after.findings);
    }

    // A role that may not: left out, and said; nothing is forgotten.
    cluster.sql("CREATE ROLE watcher IN ROLE pg_monitor");
    cluster.sql("CREATE ROLE nobody");
    connection.client.batch_execute("SET ROLE watcher").unwrap();
    let read_as = |role: &str| collect::collect(&root, &cluster.by_socket(role)).unwrap().facts;
    let watched = read_as("watcher");
    assert_eq!(watched.missing, [""; 0]);
    assert!(watched.host.unwrap().instance.is_some());
    let nobody = read_as("nobody");
    assert!(nobody.host.unwrap().instance.is_some());
    let server = nobody.server.unwrap();
    assert_eq!((server.data_directory, server.wal.directory_bytes), (None, None));
    assert!(nobody.missing[0].contains("pg_monitor"), "{:?}", nobody.missing);
    let plan = apply::plan(&root, vec![setting("log_checkpoints", "off")], Some(&mut connection)).unwrap();
    assert_eq!((plan.changes.len(), plan.notes.len()), (0, 1));
    let undone = undo::undo(&root, &cluster.state, Some(&mut connection), false).unwrap();
    assert_eq!((undone.changes.len(), undone.notes.len()), (0, 4));
    connection.client.batch_execute("RESET ROLE").unwrap();

    // Without a connection nothing is forgotten.
    let undone = undo::undo(&root, &cluster.state, None, false).unwrap();
    assert_eq!((undone.changes.len(), undone.notes.len()), (0, 4));
    let undone = undo::undo(&root, &cluster.state, Some(&mut connection), false).unwrap();
    assert_eq!(undone.notes, [""; 0]);
    assert_eq!(undone.changes.len(), 4);
    assert_eq!(cluster.auto_conf(), before);
    wait_until(|| shown() == shown_before);

    // What somebody has set since stays.
    let change = [setting("log_checkpoints", "on")];
    apply::apply(&root, &cluster.state, &change, Some(&mut connection)).unwrap();
    cluster.sql("ALTER SYSTEM SET log_checkpoints = 'off'");
    let undone = undo::undo(&root, &cluster.state, Some(&mut connection), false).unwrap();
    assert_eq!((undone.changes.len(), undone.notes.len()), (0, 1));
    assert!(cluster.auto_conf().contains(&"log_checkpoints = 'off'".to_string()));
    drop(connection);
    cluster.server.shut_down(&Interrupt::default()).unwrap();
}

#[test]
fn a_value_that_the_server_refuses_is_an_error_and_what_was_done_can_be_taken_back() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let root = HostRoot::default();
    let mut connection = collect::collect(&root, &cluster.options()).unwrap().connection.unwrap();
    let before = cluster.auto_conf();
    let changes = [
        setting("checkpoint_timeout", "10min"),
        setting("max_wal_size", "nonsense"),
        setting("log_checkpoints", "off"),
    ];
    let error = apply::apply(&root, &cluster.state, &changes, Some(&mut connection)).unwrap_err();
    assert!(format!("{error:#}").contains("max_wal_size"), "{error:#}");
    assert_eq!(cluster.auto_conf().len(), before.len() + 2);
    // The others are in force.
    assert_eq!(
        (cluster.sql("SHOW checkpoint_timeout"), cluster.sql("SHOW log_checkpoints")),
        ("10min".into(), "off".into())
    );
    let undone = undo::undo(&root, &cluster.state, Some(&mut connection), false).unwrap();
    assert_eq!(undone.notes, [""; 0]);
    assert_eq!(cluster.auto_conf(), before);

    // A file that can't be taken back keeps no setting out of force.
    let host = Host::new();
    let file = "/proc/sys/vm/dirty_expire_centisecs";
    let changes = [kernel(file, "30000"), setting("checkpoint_timeout", "10min")];
    apply::apply(&host.root, &cluster.state, &changes, Some(&mut connection)).unwrap();
    cannot_be_read(&host, file);
    undo::undo(&host.root, &cluster.state, Some(&mut connection), false).unwrap_err();
    wait_until(|| cluster.sql("SHOW checkpoint_timeout") == "5min");
    drop(connection);
    cluster.server.shut_down(&Interrupt::default()).unwrap();
}

/// As an operator has it; PostgreSQL 17 or later can.
#[test]
fn what_a_server_without_alter_system_has_set_stays_and_is_said() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    if cluster.sql("SHOW server_version_num").parse::<u32>().unwrap() >= 170_000 {
        let root = HostRoot::default();
        let mut connection = collect::collect(&root, &cluster.options()).unwrap().connection.unwrap();
        let change = [setting("log_checkpoints", "off")];
        apply::apply(&root, &cluster.state, &change, Some(&mut connection)).unwrap();
        let set = cluster.auto_conf();
        let configuration = cluster.data.join("postgresql.conf");
        let mut text = fs::read_to_string(&configuration).unwrap();
        text.push_str("allow_alter_system = off\n");
        fs::write(&configuration, text).unwrap();
        cluster.sql("SELECT pg_reload_conf()");
        wait_until(|| cluster.sql("SHOW allow_alter_system") == "off");

        // Another session than the one that waited
        drop(connection);
        let mut connection = collect::collect(&root, &cluster.options()).unwrap().connection.unwrap();
        let plan = apply::plan(&root, change.to_vec(), Some(&mut connection)).unwrap();
        assert_eq!((plan.changes.len(), plan.notes.len()), (0, 1));
        assert!(plan.notes[0].contains("allow_alter_system"), "{:?}", plan.notes);
        let undone = undo::undo(&root, &cluster.state, Some(&mut connection), false).unwrap();
        assert_eq!((undone.changes.len(), undone.notes.len()), (0, 1));
        assert_eq!(cluster.auto_conf(), set);
    }
    cluster.server.shut_down(&Interrupt::default()).unwrap();
}

fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within a minute");
}
