//! The lab on tiny tables, for real: loop devices, caps, PostgreSQL. Needs root; says so and passes otherwise.

use crate::lab_run;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::throttle::Kind;
use pgcalm_host::{block_device, process, vm_sysctl};
use pgcalm_lab::contest::report::CapKind;
use pgcalm_testkit::programs::refused;
use pgcalm_testkit::wait_for;
use rustix::process::{Pid, Signal};

use lab_run::{Dir, Running, can_run, host, lab, leftovers, sysctls, words};

/// A run of stock PostgreSQL on a tiny table. Devices are written over before, and for each second of load there is room.
fn tiny_run(dir: &Path, more: &[&str]) -> Command {
    let mut arguments = words("run checkpoint --rows 20000 --wal-size 256MB --contestants stock");
    arguments.extend(more);
    lab(&arguments, dir)
}

/// Numbers of the loop devices of a lab in `dir`.
fn device_numbers(dir: &Path) -> Vec<String> {
    let root = host();
    block_device::loop_devices(&root)
        .unwrap()
        .iter()
        .filter(|device| device.backing_file.starts_with(dir))
        .map(|device| block_device::number(&root, &device.name).unwrap())
        .collect()
}

/// The caps that are set on any of `numbers`, where caps of cgroup v1 are.
fn caps(numbers: &[String]) -> Vec<String> {
    let root = host();
    let Some(hierarchy) = Hierarchy::of_block_io(&root).unwrap() else { return Vec::new() };
    if hierarchy.version == Version::V2 {
        return Vec::new();
    }
    Kind::ALL
        .iter()
        .flat_map(|kind| {
            let text = root.read(hierarchy.mountpoint.join(kind.v1_file())).unwrap_or_default();
            text.lines().map(String::from).collect::<Vec<_>>()
        })
        .filter(|line| line.split_once(' ').is_some_and(|(device, _)| numbers.iter().any(|number| number == device)))
        .collect()
}

fn assert_clean(dir: &Path, numbers: &[String]) {
    assert_eq!(leftovers(dir), Vec::<String>::new());
    assert_eq!(caps(numbers), Vec::<String>::new());
}

#[test]
fn a_run_feels_its_caps_and_reports_what_it_measured() {
    let Some(dir) = can_run().then(|| Dir::with_tables("report")) else { return };
    let (json, html) = (dir.0.join("report.json"), dir.0.join("report.html"));
    let running = Running::start(tiny_run(
        &dir.0,
        &words(&format!("--seconds 6 --clients 1 --wal-iops 100 --json {} --html {}", json.display(), html.display())),
    ));
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0, &[]);

    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report.scenario, "checkpoint");
    assert_eq!(report.settings["wal-iops"], 100);
    let run = &report.contestants[0].runs[0];
    assert_eq!(run.series.tps.len(), 5);
    assert_eq!(run.series.wal_write_ops.len(), 5);
    assert_eq!(run.series.cpu_steal_percent.len(), 5);
    let busy = run.series.cpu_busy_percent.iter().sum::<f64>() / 5.0;
    assert!(busy > 0.0 && busy <= 100.0, "{busy}");
    // Each commit of the only client is at least one write to the WAL device, of which the cap lets 100/s through.
    // Its writes and their flushes.
    let wal_ops = run.series.wal_write_ops.iter().sum::<f64>() / 5.0;
    assert!(wal_ops > 50.0, "{wal_ops}");
    assert!(wal_ops < 120.0, "{wal_ops}");
    assert!(run.tps_mean > 10.0 && run.tps_mean < 120.0, "{}", run.tps_mean);
    // The cap lets a tenth of a second's writes through at once, then makes the next one wait.
    assert!(run.latency_ms.unwrap().p99 > 20.0, "{:?}", run.latency_ms);
    let wal = run.wal_device.unwrap();
    let flushes = wal.flush_ops_per_s.unwrap();
    assert!(flushes > 10.0, "{wal:?}");
    assert!((wal.write_ops_per_s - (wal_ops - flushes)).abs() < 1e-9, "{wal:?}");
    assert!(wal.write_mib_per_s > 0.0, "{wal:?}");
    assert_eq!(run.series.data_flush_ops.len(), 5);
    // Each commit waits for a flush of WAL.
    let server = &run.series.server;
    let syncs: f64 = server.wal_syncs.iter().flatten().sum();
    assert!(syncs > 50.0, "{server:?}");
    assert!(server.wal_mib.iter().all(|mib| mib.is_some_and(|mib| mib > 0.0)), "{server:?}");
    assert!(server.client_waits.iter().flatten().any(|waits| waits.contains_key("WALSync")), "{server:?}");
    assert!(server.module.is_empty(), "{server:?}");
    // Held by the throttle before they count as queued (block/blk-throttle.c), so how many are is chance.
    assert_eq!(run.series.wal_in_flight_max.len(), 5);
    assert_eq!(run.series.data_in_flight_mean.len(), 5);
    assert_eq!(report.settings["drain"], 60);
    assert_eq!(report.cap.kind, CapKind::ControlGroup);

    let backlog = run.backlog.as_ref().unwrap();
    assert_eq!(backlog.shared_buffers_unknown, None);
    // The load has dirtied buffers, and no checkpoint has been due.
    assert!(backlog.end.dirty_shared_buffers_mib > Some(0.0), "{backlog:?}");
    assert!(backlog.last_minute_s > 1.0, "{backlog:?}");
    assert_eq!(backlog.drain_bound_s, Some(60.0));
    assert!(backlog.drain_s.is_some_and(|seconds| seconds > 0.0), "{backlog:?}");
    assert!(fs::read_to_string(&html).unwrap().contains("<svg"));
}

/// What the report of a steady run says.
fn steady_run(dir: &Dir, name: &str, more: &[&str]) -> pgcalm_lab::contest::report::Report {
    let json = dir.0.join(format!("{name}.json"));
    // With --memory, since other programs of the host may have much dirty.
    let mut arguments = words(
        "run checkpoint --contestants stock --cap none --memory 1GB --shared-buffers 128MB --wal-size 512MB --steady \
         --seconds 3 --rows",
    );
    arguments.extend(more);
    arguments.extend(["--json", json.to_str().unwrap()]);
    let (status, last) = Running::start(lab(&arguments, &dir.0)).end();
    assert_eq!(status.code(), Some(0), "{last}");
    pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap()
}

#[test]
#[ignore = "takes about a minute: make test-long"]
fn a_steady_run_ends_after_three_checkpoints_and_one_without_them_says_so() {
    let Some(dir) = can_run().then(|| Dir::new("steady")) else { return };
    // No checkpoint is due in that time.
    let report = steady_run(&dir, "short", &["200000", "--at-most", "6"]);
    let run = &report.contestants[0].runs[0];
    let steadiness = run.steadiness.as_ref().unwrap();
    assert_eq!(steadiness.objection.as_deref(), Some("no checkpoint ended"));
    assert_eq!(run.series.tps.len(), 5);
    assert!(run.backlog.is_none());
    let headline = &pgcalm_lab::contest::report::reading::lines(&report)[0];
    assert_eq!(headline, "stock: not steady: no checkpoint ended");

    // One checkpoint for each segment of WAL, which full-page images fill in a second or some.
    let often = words(
        "200000 --at-most 600 --set max_wal_size=32MB --set wal_compression=off --set \
     checkpoint_completion_target=0.1",
    );
    let begun = Instant::now();
    let report = steady_run(&dir, "often", &often);
    let run = &report.contestants[0].runs[0];
    let steadiness = run.steadiness.as_ref().unwrap();
    assert_eq!(steadiness.objection, None, "{steadiness:?}");
    assert!(run.checkpoints.len() >= 3, "{:?}", run.checkpoints);
    assert!(steadiness.dirty.len() >= 4, "{steadiness:?}");
    assert!(steadiness.dirty.iter().all(|dirty| dirty.dirty.dirty_shared_buffers_mib.is_some()), "{steadiness:?}");
    // It ended by itself, long before its time, and its clients' last transactions are logged.
    let seconds = run.series.tps.len();
    let load = steadiness.warm_up_s + seconds as f64;
    assert!(seconds >= 3 && load < 580.0, "{steadiness:?}");
    assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
    assert!(run.series.tps.iter().all(|tps| *tps > 0.0), "{:?}", run.series.tps);
    assert_clean(&dir.0, &[]);
}

#[test]
fn caps_in_the_servers_own_group_hold_its_own_writes() {
    let Some(dir) = can_run().then(|| Dir::with_tables("own")) else { return };
    let json = dir.0.join("report.json");
    let mut running = Running::start(tiny_run(
        &dir.0,
        &words(&format!("--seconds 6 --clients 1 --wal-iops 100 --cap-in own --drain none --json {}", json.display())),
    ));
    running.wait_for("measuring");
    thread::sleep(Duration::from_secs(2));
    // The root group, where others' writes would be held as well, has no cap.
    assert_eq!(caps(&device_numbers(&dir.0)), Vec::<String>::new());
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0, &[]);

    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report.settings["cap-in"], "own");
    assert_eq!(report.cap.kind, CapKind::ControlGroup);
    assert!(report.cap.description.contains("below the root"), "{:?}", report.cap);
    let operations = report.contestants[0].runs[0].series.wal_write_ops.clone();
    let mean = operations.iter().sum::<f64>() / operations.len() as f64;
    assert!(mean > 50.0 && mean < 120.0, "{operations:?}");
}

#[test]
fn a_rate_is_what_clients_begin_at_most() {
    let Some(dir) = can_run().then(|| Dir::with_tables("rate")) else { return };
    let json = dir.0.join("report.json");
    let running = Running::start(tiny_run(
        &dir.0,
        &["--seconds", "6", "--rate", "40", "--drain", "none", "--json", json.to_str().unwrap()],
    ));
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0, &[]);

    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report.settings["rate"], 40);
    // Begun at random: 200 are expected in five seconds; without a rate it is some thousands.
    let run = &report.contestants[0].runs[0];
    assert!(run.tps_mean > 0.0 && run.tps_mean < 80.0, "{}", run.tps_mean);
}

#[test]
fn sigint_in_any_phase_takes_everything_down() {
    let Some(dir) = can_run().then(|| Dir::new("sigint")) else { return };
    for phase in ["loading", "making devices", "restoring", "measuring"] {
        let before = sysctls();
        let mut running = Running::start(tiny_run(&dir.0, &["--seconds", "60", "--sysctl", "roomy"]));
        running.wait_for(phase);
        let numbers = device_numbers(&dir.0);
        if phase == "measuring" {
            // Or the rest would prove nothing.
            wait_for("caps", || !caps(&numbers).is_empty());
            assert_eq!(vm_sysctl::read(&host(), "dirty_ratio").unwrap(), "60");
        }
        running.signal(Signal::INT);
        let (status, last) = running.end();
        assert_eq!(status.code(), Some(130), "{phase}: {last}");
        assert!(last.contains("interrupted"), "{phase}: {last}");
        assert_clean(&dir.0, &numbers);
        assert_eq!(sysctls(), before, "{phase}");
        dir.take_tables();
    }
}

#[test]
fn clean_removes_what_kill_9_left() {
    let Some(dir) = can_run().then(|| Dir::new("kill9")) else { return };
    let before = sysctls();
    // With --devices one more mount, below the devices' files.
    let more = words("--seconds 60 --sysctl roomy --data-max-io 64kB --devices memory");
    let mut running = Running::start(tiny_run(&dir.0, &more));
    running.wait_for("measuring");
    let numbers = device_numbers(&dir.0);
    assert_eq!(numbers.len(), 2);
    wait_for("caps", || !caps(&numbers).is_empty());
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    assert!(!caps(&numbers).is_empty());
    let left = leftovers(&dir.0);
    assert!(left.len() > 4, "{left:?}");
    assert!(left.iter().any(|name| name.ends_with("-memory")), "{left:?}");

    let (status, last) = Running::start(lab(&["clean", "--templates"], &dir.0)).end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0, &numbers);
    assert_eq!(sysctls(), before);
    assert!(!dir.0.exists());
}

#[test]
fn a_server_that_dies_ends_the_run_with_one_line_and_a_clean_host() {
    let Some(dir) = can_run().then(|| Dir::with_tables("crash")) else { return };
    let mut running = Running::start(tiny_run(&dir.0, &["--seconds", "60"]));
    running.wait_for("measuring");
    thread::sleep(Duration::from_secs(1));
    let numbers = device_numbers(&dir.0);
    let root = host();
    let postmaster = process::table(&root)
        .unwrap()
        .iter()
        .map(|process| process.pid)
        .find(|pid| {
            process::command_line(&root, *pid)
                .is_ok_and(|line| line.contains("postgres -D") && line.contains("pgcalm-test"))
                && process::working_directory(&root, *pid).is_some_and(|cwd| cwd.starts_with(&dir.0))
        })
        .unwrap();
    rustix::process::kill_process(Pid::from_raw(postmaster).unwrap(), Signal::KILL).unwrap();
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(1), "{last}");
    assert!(last.starts_with("pgcalm: stock: "), "{last}");
    assert_clean(&dir.0, &numbers);
}

#[test]
#[ignore = "takes more than a minute: make test-long"]
fn a_wal_volume_that_runs_full_is_a_result_and_no_error() {
    let Some(dir) = can_run().then(|| Dir::new("wal-full")) else { return };
    let json = dir.0.join("report.json");
    // Full-page images of a million rows are as much as the volume holds, and ten operations per second are too few for the first
    // checkpoint to end.
    let arguments = format!(
        "run checkpoint --contestants stock --rows 1000000 --data-iops 10 --wal-iops none --wal-size 128MB --seconds 90 \
         --json {}",
        json.display()
    );
    let running = Running::start(lab(&words(&arguments), &dir.0));
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(0), "{last}");
    assert_clean(&dir.0, &[]);

    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    let run = &report.contestants[0].runs[0];
    let failure = run.server_failure.as_ref().expect("the volume runs full");
    assert!(failure.message.contains("No space left on device"), "{failure:?}");
    assert!(run.checkpoint_under_way_s.is_some());
    assert!(run.tps_mean > 0.0);
    // The last second that was served, and those after it.
    let after = failure.at_s.ceil() as usize;
    assert!(after < run.series.tps.len(), "{failure:?}");
    assert_eq!(run.series.tps[after..].iter().sum::<f64>(), 0.0);
    assert!(run.seconds_zero as usize >= run.series.tps.len() - after, "{failure:?}");
}

#[test]
fn a_setting_that_the_server_refuses_is_shown_in_the_servers_words() {
    let Some(dir) = can_run().then(|| Dir::with_tables("setting")) else { return };
    let (status, last) = Running::start(tiny_run(&dir.0, &["--set", "no_such_setting=1"])).end();
    assert_eq!(status.code(), Some(1), "{last}");
    assert!(last.contains("no_such_setting"), "{last}");
    assert_clean(&dir.0, &[]);
}

#[test]
fn without_root_a_run_says_at_once_what_it_needs() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    if rustix::process::geteuid().is_root() {
        // `nobody` may not enter the build directory: run a copy.
        use std::os::unix::process::CommandExt;
        let dir = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in("/var/tmp")
            .unwrap();
        let copy = dir.path().join("pgcalm");
        fs::copy(env!("CARGO_BIN_EXE_pgcalm"), &copy).unwrap();
        command = Command::new(&copy);
        command.uid(65534).gid(65534).current_dir("/");
        without_root(command);
    } else {
        without_root(command);
    }
}

fn without_root(mut command: Command) {
    assert!(refused(command.args(["lab", "run", "checkpoint", "--quick"]), 3).contains("root"));
}
