//! A primary and its standby, for real and tiny: devices, namespaces, a link, PostgreSQL. Needs root; says so and passes
//! otherwise.

use crate::lab_run;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use pgcalm_lab::document::Document;
use pgcalm_lab::replica::report::Report;
use pgcalm_testkit::{module_directory, need};
use rustix::process::Signal;

use lab_run::{Dir, all_leftovers, lab, patiently, signal, start_until, words};

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("a primary and its standby", &[need::ROOT, need::ANY_SERVER])
}

fn tiny_run(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command
        .args(["lab", "run", "replica", "--max-wal-size", "32MB"])
        .args(["--rows", "1000"])
        .args(more)
        .arg("--dir")
        .arg(dir);
    command
}

fn run(dir: &Path, more: &[&str]) -> Report {
    let json = dir.join("report.json");
    let html = dir.join("report.html");
    let output = patiently(tiny_run(dir, more).arg("--json").arg(&json).arg("--html").arg(html));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(all_leftovers(dir), Vec::<String>::new());
    let shown = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "report"]).arg(&json).output().unwrap();
    assert_eq!(shown.stdout, output.stdout);
    match pgcalm_lab::document::read(&fs::read_to_string(&json).unwrap()).unwrap() {
        Document::Replica(report) => *report,
        _ => panic!("not a report of a standby"),
    }
}

/// Starts it and waits until the load is at work.
fn start(dir: &Path) -> Child {
    let more = ["--cases", "slow-link", "--seconds", "600", "--wal-size", "200MB", "--link-bps", "1MB"];
    start_until(&mut tiny_run(dir, &more), || dir.join("pgcalm-run/load/flood.sql").exists())
}

/// Network namespaces of the lab with process id `lab`.
fn namespaces(lab: u32) -> Vec<String> {
    let prefix = format!("pgcalm-lab-{lab}-");
    let mut names: Vec<String> = fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&prefix))
        .collect();
    names.sort();
    names
}

#[test]
fn a_standby_behind_a_slow_link_falls_behind_and_catches_up() {
    let Some(dir) = can_run().then(|| Dir::new("replica-link")) else { return };
    let more = ["--cases", "slow-link", "--loads", "150", "--seconds", "60", "--wal-size", "700MB", "--max-io", "64kB"];
    let report = run(&dir.0, &more);
    // The link was chosen so that it is too slow.
    let link = report.link.bytes_per_s;
    assert!(report.link.generation_bytes_per_s.unwrap() > 1.9 * link);
    let case = &report.cases[0];
    assert_eq!(case.cut_short, None);
    // Of each load 1000 rows of 1.7 kB.
    let load = case.wal_bytes as f64 / 150.0;
    assert!((1.6e6..2.2e6).contains(&load), "{load}");
    let written = |rate: fn(&pgcalm_lab::replica::report::Sample) -> Option<f64>| case.mean_under_load(rate).unwrap();
    let operation = written(|sample| sample.primary_wal_device_bytes_per_s)
        / written(|sample| sample.primary_wal_device_writes_per_s);
    assert!(operation > 4096.0 && operation < 65_536.0 * 1.01, "{operation}");
    // Not that more was made than received: a neighbour that takes the CPUs may halve what the load makes.
    assert!(case.received_bytes <= case.wal_bytes, "{case:?}");
    assert!(case.catch_up_s.is_some(), "{case:?}");
    assert_eq!(case.receiver_error, None);
    // What came over the link came at its rate at most, but for what the token bucket lets through at once.
    let sent: Vec<f64> = case.samples.iter().filter_map(|sample| sample.link_bytes_per_s).collect();
    assert!(sent.iter().all(|rate| *rate < 1.5 * link), "{sent:?}");
    assert!(sent.iter().any(|rate| *rate > 0.1 * link), "{sent:?}");
    assert!(case.most_bytes(|sample| sample.sent).unwrap() > 0);
    // Only from within the primary's namespace the kernel tells of the connection.
    let network = |sample: &pgcalm_lab::replica::report::Sample| sample.walsender_network_bytes_per_s;
    assert!(case.mean_under_load(network).unwrap() > 0.0, "{case:?}");
    let last = case.samples.last().unwrap();
    assert_eq!((last.replay.bytes, last.receiver.as_str()), (Some(0), "streaming"));
    let html = fs::read_to_string(dir.0.join("report.html")).unwrap();
    assert!(html.contains("<svg"));
}

#[test]
fn a_standby_whose_wal_was_recycled_comes_back_only_with_an_archive() {
    if !can_run() || !need::met("a standby with an archive", &[need::MODULE]) {
        return;
    }
    let dir = Dir::new("replica-removed");
    // What was not archived yet when the standby asks comes over the link, up to some 250 MiB: within half a minute.
    let more = format!(
        "--cases recycled,restore --seconds 5 --wal-size 700MB --link-bps 8MB --module-dir {}",
        module_directory().display()
    );
    let report = run(&dir.0, &words(&more));
    let [recycled, restore] = &report.cases[..] else { panic!("{:?}", report.cases) };
    let removed = |case: &pgcalm_lab::replica::report::Case| {
        let error = case.receiver_error.as_ref();
        error.is_some_and(|error| error.message.contains("has already been removed"))
    };
    assert!(removed(recycled), "{recycled:?}");
    assert_eq!(recycled.catch_up_s, None);
    assert_eq!(recycled.segments_restored, 0);
    let last = recycled.samples.last().unwrap();
    assert_eq!(last.receiver, "none");
    assert_eq!(last.bottleneck.as_deref(), Some("disconnected"));
    assert!(last.replay.bytes.unwrap() > 0);

    assert!(removed(restore), "{restore:?}");
    assert!(restore.segments_restored > 0, "{restore:?}");
    assert!(restore.catch_up_s.is_some(), "{restore:?}");
    assert_eq!(restore.samples.last().unwrap().replay.bytes, Some(0));
}

#[test]
#[ignore = "takes most of a minute: make test-long"]
fn a_standby_catches_up_under_load_or_from_what_wal_keep_size_kept() {
    let Some(dir) = can_run().then(|| Dir::new("replica-kept")) else { return };
    // More is kept than the device takes, so that nothing of it goes; the link is as slow as where the segment is gone without.
    let more = words("--cases uncapped,keep --seconds 4 --wal-size 700MB --keep-size 700MB --link-bps 8MB");
    let report = run(&dir.0, &more);
    let [uncapped, keep] = &report.cases[..] else { panic!("{:?}", report.cases) };
    let lifted = uncapped.caps_lifted_s.unwrap();
    assert!(lifted >= 2.0, "{lifted}");
    assert!(uncapped.catch_up_s.is_some(), "{uncapped:?}");

    assert_eq!(keep.primary_settings["wal_keep_size"], "700MB");
    assert_eq!(keep.receiver_error, None);
    assert!(keep.catch_up_s.is_some(), "{keep:?}");
    assert_eq!(keep.caps_lifted_s, None);
    // What the standby shows is as old as its link makes it, and never younger than what it was told last.
    let heartbeat = keep.heartbeat.as_ref().unwrap();
    assert!(heartbeat.written > 0, "{heartbeat:?}");
    assert!(heartbeat.age.longest_s >= heartbeat.standby.longest_s, "{heartbeat:?}");
    assert_eq!((heartbeat.sender_timeouts, heartbeat.receiver_timeouts), (0, 0));
}

#[test]
#[ignore = "takes most of a minute: make test-long"]
fn timeouts_end_the_connection_of_a_standby_whose_device_takes_next_to_nothing() {
    let Some(dir) = can_run().then(|| Dir::new("replica-timeout")) else { return };
    // A segment takes a quarter of a minute, the timeout is a second.
    let more = words(
        "--cases capped --seconds 6 --catch-up 10 --wal-iops 4 --wal-size 700MB --set \
     wal_sender_timeout=1s --patience 2",
    );
    let report = run(&dir.0, &more);
    let heartbeat = report.cases[0].heartbeat.as_ref().unwrap();
    assert!(heartbeat.sender_timeouts > 0, "{heartbeat:?}");
    let standby = &heartbeat.standby;
    assert!(standby.failover_s.is_some(), "{heartbeat:?}");
    assert!(standby.longest_s > 2.0, "{heartbeat:?}");
}

#[test]
fn sigint_takes_everything_down_and_clean_what_kill_9_left() {
    let Some(dir) = can_run().then(|| Dir::new("replica-signals")) else { return };
    let mut child = start(&dir.0);
    assert_eq!(namespaces(child.id()).len(), 2);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
    assert_eq!(namespaces(child.id()), Vec::<String>::new());

    let mut child = start(&dir.0);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(all_leftovers(&dir.0).len() > 4, "{:?}", all_leftovers(&dir.0));
    assert_eq!(namespaces(child.id()).len(), 2);
    let output = lab(&["clean"], &dir.0).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
    assert_eq!(namespaces(child.id()), Vec::<String>::new());
}
