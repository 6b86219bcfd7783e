//! Layouts of two instances, for real and tiny. Needs root; says so and passes otherwise.

use crate::lab_run;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::cgroup::Hierarchy;
use pgcalm_host::process;
use pgcalm_lab::document::Document;
use pgcalm_lab::interference::report::{self, Report};
use pgcalm_testkit::need;
use rustix::process::Signal;

use lab_run::{Dir, all_leftovers, host, lab, patiently, signal, start_until, words};

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("layouts of two instances", &[need::ROOT, need::ANY_SERVER])
}

fn tiny_run(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command
        .args(["lab", "run", "journal", "--size", "480MB", "--scale", "1"])
        .args(["--sessions", "2"])
        .args(more)
        .arg("--dir")
        .arg(dir);
    command
}

/// Starts it and waits for its first device.
fn start(dir: &Path, more: &[&str]) -> Child {
    start_until(&mut tiny_run(dir, more), || all_leftovers(dir).iter().any(|left| left.contains(".img")))
}

/// The group that the lab with process id `lab` makes.
fn group(lab: u32) -> PathBuf {
    let hierarchy = Hierarchy::of_block_io(&host()).unwrap().unwrap();
    hierarchy.mountpoint.join(format!("pgcalm-lab-{lab}"))
}

/// Waits until the neighbour is in its group with sessions at work.
fn wait_for_noise(child: &Child) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let procs = group(child.id()).join("cgroup.procs");
        let pids = fs::read_to_string(procs).unwrap_or_default();
        let noisy = pids
            .lines()
            .filter_map(|pid| pid.parse().ok())
            .any(|pid| process::command_line(&host(), pid).is_ok_and(|line| line.contains("CREATE DATABASE")));
        if noisy {
            return;
        }
        assert!(Instant::now() < end, "no noise");
        thread::sleep(Duration::from_millis(20));
    }
}

fn read(file: &Path) -> Report {
    match pgcalm_lab::document::read(&fs::read_to_string(file).unwrap()).unwrap() {
        Document::Journal(report) => *report,
        _ => panic!("not a report of layouts"),
    }
}

#[test]
fn both_phases_of_each_layout_are_measured_and_the_host_is_as_before() {
    let Some(dir) = can_run().then(|| Dir::new("journal")) else { return };
    let (json, html) = (dir.0.join("report.json"), dir.0.join("report.html"));
    let output = patiently(&mut tiny_run(
        &dir.0,
        &words(&format!(
            "--layouts ext4-nodelalloc,ext4-logdev,ext4-separate --seconds 3 --lead 0 \
         --json {} --html {}",
            json.display(),
            html.display()
        )),
    ));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());

    let report = read(&json);
    let names: Vec<&str> = report.layouts.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["ext4-nodelalloc", "ext4-logdev", "ext4-separate"]);
    for layout in &report.layouts {
        for phase in [&layout.alone, &layout.noisy] {
            assert_eq!(phase.tps.len(), 2, "{layout:?}");
            assert!(phase.connect_max_ms > 0.0, "{layout:?}");
            assert!(phase.cold_connect_max_ms > 0.0, "{layout:?}");
            assert!(phase.file_max_ms > 0.0, "{layout:?}");
        }
        assert!(layout.alone.tps_mean > 0.0, "{layout:?}");
        assert!(layout.alone.files_per_s > 0.0, "{layout:?}");
        assert_eq!(layout.alone.databases, 0);
        // 100 operations per second are far from enough for its files to be synced without a wait.
        let waits = layout
            .hangs
            .iter()
            .filter(|hang| hang.who == "neighbour")
            .any(|hang| matches!(hang.call.as_deref(), Some("fsync" | "sync_file_range")));
        assert!(waits, "{layout:?}");
    }
    let devices = |layout: &report::Layout| -> Vec<String> {
        layout.noisy.devices.iter().map(|rates| rates.device.clone()).collect()
    };
    assert_eq!(
        report.layouts.iter().map(devices).collect::<Vec<_>>(),
        [vec!["data"], vec!["data", "log"], vec!["data", "neighbour"]]
    );
    assert!(report.layouts[0].mount_options.contains("nodelalloc"), "{report:?}");
    assert!(fs::read_to_string(&html).unwrap().contains("<svg"));

    let shown = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "report"]).arg(&json).output().unwrap();
    assert_eq!(shown.stdout, output.stdout);
}

#[test]
fn options_of_mkfs_and_mount_are_in_force() {
    let Some(dir) = can_run().then(|| Dir::new("journal-options")) else { return };
    let json = dir.0.join("report.json");
    let output = patiently(
        tiny_run(
            &dir.0,
            &words("--layouts xfs-logdev --seconds 3 --lead 0 --log-size 96MB --mount-options logbsize=256k"),
        )
        .args(["--mkfs-options", "-l size=70m -d su=64k,sw=2"])
        .arg("--json")
        .arg(&json),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = read(&json);
    let options = &report.layouts[0].mount_options;
    // Of the superblock's stripe the mount tells, too.
    assert!(["logbsize=256k", "sunit=128", "swidth=256"].iter().all(|option| options.contains(option)), "{options}");
    let log = report.layouts[0].noisy.devices.iter().find(|rates| rates.device == "log").unwrap();
    assert!(log.writes_per_s > 0.0 && log.write_bytes_per_s > 0.0, "{log:?}");
}

#[test]
fn sigint_takes_everything_down() {
    let Some(dir) = can_run().then(|| Dir::new("journal-sigint")) else { return };
    let mut child = start(&dir.0, &["--seconds", "600", "--lead", "0", "--layouts", "ext4-nodelalloc"]);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());

    let more = ["--seconds", "3", "--lead", "3", "--layouts", "ext4-nodelalloc"];
    let mut child = start(&dir.0, &more);
    wait_for_noise(&child);
    assert!(group(child.id()).exists());
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
    assert!(!group(child.id()).exists());
}

#[test]
fn clean_removes_what_kill_9_left() {
    let Some(dir) = can_run().then(|| Dir::new("journal-kill9")) else { return };
    let more = ["--seconds", "3", "--lead", "3", "--layouts", "xfs-logdev"];
    let mut child = start(&dir.0, &more);
    wait_for_noise(&child);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(all_leftovers(&dir.0).len() > 4, "{:?}", all_leftovers(&dir.0));
    assert!(group(child.id()).exists());
    let output = lab(&["clean"], &dir.0).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
    assert!(!group(child.id()).exists());
}
