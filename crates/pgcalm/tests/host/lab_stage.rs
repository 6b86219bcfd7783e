//! Lab runs on volumes that behave like a cloud's, with little memory, and servers to connect to, for real. Needs root and
//! FUSE; says so and passes otherwise.

use crate::lab_run;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;
use std::{fs, thread};

use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::{postgres, process};
use pgcalm_lab::contest::report::CapKind;
use pgcalm_testkit::need;
use rustix::process::{Pid, Signal, kill_process};

use lab_run::{Dir, Running, host, lab, leftovers, patiently, words};

/// 300 operations per second for reads and writes together.
const VOLUME: &str = "custom:iops=300,bandwidth=20MB,io_size=256kB";

/// Control groups that a killed run of somebody else's had left before the first of these tests.
static LEFT_BEFORE: LazyLock<Vec<String>> = LazyLock::new(groups_of_labs);

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    LazyLock::force(&LEFT_BEFORE);
    need::met("stages of the lab", &[need::FUSE, need::ROOT, need::ANY_SERVER])
}

/// A run of stock PostgreSQL on a tiny table, in the memory of a small host.
fn run_on_volume(dir: &Path, more: &[&str]) -> Command {
    let fixed = format!(
        "run checkpoint --volume {VOLUME} --memory 1GB --shared-buffers 32MB --rows 20000 \
     --wal-size 300MB --contestants stock --drain none"
    );
    let mut arguments = words(&fixed);
    arguments.extend(more);
    lab(&arguments, dir)
}

/// Control groups of labs, whoever made them.
fn groups_of_labs() -> Vec<String> {
    let root = host();
    let Some(hierarchy) = Hierarchy::of_memory(&root).unwrap() else { return Vec::new() };
    fs::read_dir(root.path(&hierarchy.mountpoint))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("pgcalm-lab"))
        .collect()
}

fn assert_clean(dir: &Path) {
    assert_eq!(leftovers(dir), Vec::<String>::new());
    let groups: Vec<_> = groups_of_labs().into_iter().filter(|group| !LEFT_BEFORE.contains(group)).collect();
    assert_eq!(groups, Vec::<String>::new());
}

#[test]
fn a_run_whose_volume_the_machine_held_up_is_made_again() {
    let Some(dir) = can_run().then(|| Dir::with_tables("held")) else { return };
    let json = dir.0.join("report.json");
    let more = format!("--seconds 6 --json {}", json.display());
    let mut running = Running::start(run_on_volume(&dir.0, &words(&more)));
    running.wait_for("measuring");
    thread::sleep(Duration::from_secs(2));
    let root = host();
    let of_this_lab = |line: &String| line.contains("lab volume --control") && line.contains(dir.0.to_str().unwrap());
    let volume = process::table(&root)
        .unwrap()
        .iter()
        .find(|process| process::command_line(&root, process.pid).as_ref().is_ok_and(of_this_lab))
        .and_then(|process| Pid::from_raw(process.pid))
        .expect("a volume's process");
    // Only answers that are due are held up, and there may be none just now.
    for _ in 0..4 {
        kill_process(volume, Signal::STOP).unwrap();
        thread::sleep(Duration::from_millis(500));
        kill_process(volume, Signal::CONT).unwrap();
        thread::sleep(Duration::from_millis(130));
    }
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0);

    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    let stock = &report.contestants[0];
    assert!(stock.held_up_runs >= 1, "{}", stock.held_up_runs);
    assert_eq!(stock.runs.len(), 1);
    assert!(stock.runs[0].volume_held_up_s.is_some());
}

#[test]
fn reads_and_writes_share_the_limits_of_a_volume() {
    let Some(dir) = can_run().then(|| Dir::with_tables("volume")) else { return };
    let json = dir.0.join("report.json");
    let more = format!("--seconds 6 --warm-up 2 --json {}", json.display());
    let running = Running::start(run_on_volume(&dir.0, &words(&more)));
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0);

    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report.cap.kind, CapKind::CloudVolume);
    assert!(report.cap.description.contains("300"), "{:?}", report.cap);
    assert!(report.cap.memory.unwrap().contains("1GB"));
    assert_eq!(report.settings["layout"], "one");
    assert!(!report.settings.contains_key("data-iops"));
    // The kernel's defaults of such a host: a tenth of what is neither shared buffers nor the system's.
    assert_ne!(report.host.sysctls["vm.dirty_background_bytes"], "0");
    let run = &report.contestants[0].runs[0];
    assert_eq!(run.wal_device, None);
    let device = run.data_device;
    // A cloud's volume acknowledges what is durable.
    assert_eq!(device.flush_ops_per_s, Some(0.0), "{device:?}");
    let operations = device.read_ops_per_s + device.write_ops_per_s;
    assert!(operations > 30.0, "{device:?}");
    // The limit, what may be made up for, and the edges of the seconds.
    assert!(operations < 330.0, "{device:?}");
}

#[test]
fn what_a_killed_run_on_a_volume_has_left_is_removed_by_clean() {
    let Some(dir) = can_run().then(|| Dir::with_tables("volume-kill")) else { return };
    let mut running = Running::start(run_on_volume(&dir.0, &["--seconds", "20"]));
    running.wait_for("measuring");
    thread::sleep(Duration::from_secs(1));
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    assert_ne!(leftovers(&dir.0), Vec::<String>::new());
    let output = patiently(&mut lab(&["clean"], &dir.0));
    assert!(output.status.success(), "{output:?}");
    assert_clean(&dir.0);
}

#[test]
fn a_server_is_up_until_it_is_interrupted() {
    let Some(dir) = can_run().then(|| Dir::with_tables("up")) else { return };
    let mut running = Running::start(lab(
        &words(&format!(
            "up --volume {VOLUME} --rows 20000 --wal-size 300MB --shared-buffers 32MB --mount-options \
         nodelalloc,data=writeback"
        )),
        &dir.0,
    ));
    running.wait_for("the server is up");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.contains(dir.0.join("pgcalm-data").to_str().unwrap())).unwrap();
    for option in ["nodelalloc", "data=writeback"] {
        assert!(mount.contains(option), "{mount}");
    }
    let bindir = postgres::bindirs(&host()).swap_remove(0);
    let ask = |sql: &str| {
        let output = Command::new(bindir.join("psql"))
            .args(["-XAt", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(dir.0.join("pgcalm-run"))
            .args(["-c", sql])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    assert_eq!(ask("select count(*) from test"), "20000");
    // The table is frozen: reading it has nothing to write.
    assert_eq!(ask("select relallvisible = relpages and relpages > 0 from pg_class where relname = 'test'"), "t");
    assert_eq!(ask("select count(distinct info), min(length(info)), min(id), max(id) from test"), "20000|32|1|20000");
    // Half of the room for WAL is in segments that are there, the server's current one among them; it goes on in the
    // next, and a checkpoint removes none.
    let later = "select count(*) from pg_ls_waldir() where name > pg_walfile_name(pg_current_wal_lsn())";
    assert_eq!(ask(later), "8");
    ask("select pg_logical_emit_message(false, 'x', ''), pg_switch_wal()");
    ask("select pg_logical_emit_message(false, 'x', '')");
    ask("checkpoint");
    let segments: u32 = ask(later).parse().unwrap();
    assert!(segments >= 7, "{segments}");
    running.signal(Signal::INT);
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0);
}

#[test]
fn what_the_host_does_not_have_and_nobody_knows_is_told_in_a_line() {
    let Some(dir) = can_run().then(|| Dir::with_tables("volume-mistakes")) else { return };
    for (more, code, expected) in [
        ("--memory 900GB", 3, "MiB available"),
        ("--volume gp4", 2, "gp3"),
        ("--volume gp3 --wal-volume gp3", 2, "--layout two"),
        ("--volume gp3 --cap cgroup", 2, "--volume"),
        ("--volume gp3 --data-iops 100", 2, "--volume"),
        ("--wal-size 900GB", 3, "MiB needed"),
        ("--fs xfs --mount-options data=writeback --seconds 3 --wal-size 512MB", 2, "xfs does not take them"),
    ] {
        let mut arguments = words("run checkpoint --rows 20000 --contestants stock");
        arguments.extend(words(more));
        let (status, last) = Running::start(lab(&arguments, &dir.0)).end();
        assert_eq!(status.code(), Some(code), "{arguments:?}: {last}");
        assert!(last.contains(expected), "{arguments:?}: {last}");
    }
    assert_clean(&dir.0);
}
