//! Few small instances on one device, for real. Needs root and cgroup v1; says so and passes otherwise.

use crate::lab_run;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::cgroup::{Hierarchy, Version};
use pgcalm_host::throttle::Kind;
use pgcalm_host::{block_device, cgroup, mounts, process};
use pgcalm_lab::document::Document;
use pgcalm_testkit::need;
use rustix::process::{Pid, Signal};

use lab_run::{BUSY_TIMEOUT, Dir, host, lab, patiently};

fn blkio() -> Option<Hierarchy> {
    Hierarchy::of_block_io(&host()).unwrap().filter(|hierarchy| hierarchy.version == Version::V1)
}

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("tenants", &[need::ROOT, need::ANY_SERVER, need::BLOCK_CGROUP])
}

fn tenants(dir: &Path, more: &[&str]) -> Command {
    let mut arguments = vec!["run", "tenants", "--instances", "2", "--rows", "20000"];
    arguments.extend(["--contestants", "stock"]);
    arguments.extend(more);
    lab(&arguments, dir)
}

/// Starts it with its messages in a file, again and again while another lab is at work on this host.
#[allow(clippy::zombie_processes, reason = "the caller waits for the child that is returned")]
fn start(mut command: Command, messages: &Path) -> Child {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mut child = command.stdout(Stdio::null()).stderr(fs::File::create(messages).unwrap()).spawn().unwrap();
        loop {
            let text = fs::read_to_string(messages).unwrap();
            if text.contains("another pgcalm lab") {
                child.wait().unwrap();
                break;
            }
            if !text.is_empty() {
                return child;
            }
            assert!(Instant::now() < end, "nothing is said");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(Instant::now() < end, "another lab does not end");
        thread::sleep(Duration::from_secs(1));
    }
}

fn wait_for(messages: &Path, text: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    while !fs::read_to_string(messages).unwrap().contains(text) {
        assert!(Instant::now() < end, "no line with {text:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The device on a file in `dir` that volumes are on, and these.
fn devices(dir: &Path) -> (Vec<String>, Vec<String>) {
    let all = block_device::loop_devices(&host()).unwrap();
    let named = |on: &dyn Fn(&Path) -> bool| -> Vec<String> {
        all.iter().filter(|device| on(&device.backing_file)).map(|device| device.name.clone()).collect()
    };
    let pools = named(&|file| file.starts_with(dir));
    let volumes = named(&|file| pools.iter().any(|pool| file == Path::new("/dev").join(pool)));
    (pools, volumes)
}

fn caps(numbers: &[String]) -> usize {
    let mountpoint = blkio().unwrap().mountpoint;
    Kind::ALL
        .iter()
        .map(|kind| {
            let text = host().read(mountpoint.join(kind.v1_file())).unwrap();
            text.lines()
                .filter(|line| {
                    let device = line.split(' ').next().unwrap_or_default();
                    numbers.iter().any(|number| number == device)
                })
                .count()
        })
        .sum()
}

fn assert_clean(dir: &Path, pools: &[String]) {
    let root = host();
    let mounted = mounts::read(&root).unwrap();
    assert!(!mounted.iter().any(|mount| mount.target.starts_with(dir)));
    let (left, volumes) = devices(dir);
    assert!(left.is_empty() && volumes.is_empty(), "{left:?}, {volumes:?}");
    for device in block_device::loop_devices(&root).unwrap() {
        for pool in pools {
            assert_ne!(device.backing_file, Path::new("/dev").join(pool));
        }
    }
    for process in process::table(&root).unwrap() {
        let cwd = process::working_directory(&root, process.pid);
        assert!(!cwd.is_some_and(|cwd| cwd.starts_with(dir)), "{process:?}");
    }
    for name in ["pgcalm-lab.json", "pgcalm-tenants.img", "pgcalm-tenants", "pgcalm-run"] {
        assert!(!dir.join(name).exists(), "{name}");
    }
}

#[test]
fn a_run_reports_every_instance() {
    let Some(dir) = can_run().then(|| Dir::with_tables("tenants")) else { return };
    let (json, html) = (dir.0.join("report.json"), dir.0.join("report.html"));
    let messages = dir.0.join("messages");
    let command =
        tenants(&dir.0, &["--seconds", "6", "--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()]);
    let status = start(command, &messages).wait().unwrap();
    let said = fs::read_to_string(&messages).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_clean(&dir.0, &[]);

    let Document::Tenants(report) = pgcalm_lab::document::read(&fs::read_to_string(&json).unwrap()).unwrap() else {
        panic!("not a document of tenants");
    };
    let [stock] = &report.contestants[..] else { panic!("{} contestants", report.contestants.len()) };
    assert_eq!(stock.instances.len(), 2);
    for instance in &stock.instances {
        assert!(instance.tps_mean > 0.0, "{instance:?}");
    }
    let sum: f64 = stock.instances.iter().map(|i| i.tps_mean).sum();
    assert!((sum - stock.total.tps_mean).abs() < 1e-6, "{sum}");
    // What the WAL volumes wrote has reached the device below them.
    assert!(stock.total.series.wal_write_ops.iter().sum::<f64>() > 0.0);
    assert!(stock.total.data_device.write_ops_per_s > 0.0);
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && page.contains("Instances"));
}

#[test]
fn instances_on_shared_file_systems_are_capped_by_groups_and_told_by_role() {
    if !can_run() {
        return;
    }
    let dir = Dir::with_tables("tenants-shared");
    let (json, messages) = (dir.0.join("report.json"), dir.0.join("messages"));
    let shared = |more: &[&str]| {
        let mount = "--mount-options=data=writeback,nodelalloc,barrier=0";
        let all = ["--file-systems=shared", mount, "--data-iops=20", "--wal-iops=100", "--rate=none"];
        tenants(&dir.0, &[&all[..], more].concat())
    };
    let mut child = start(shared(&["--seconds=600"]), &messages);
    wait_for(&messages, "measuring");
    let pid = child.id();
    let group = |number: u32| blkio().unwrap().mountpoint.join(format!("pgcalm-lab-{pid}-{number}"));
    for number in [1, 2] {
        let caps = || host().read(group(number).join(Kind::WriteIops.v1_file())).unwrap_or_default();
        pgcalm_testkit::wait_for("caps on data and WAL", || caps().lines().count() == 2);
        assert!(!cgroup::members(&host(), &group(number)).unwrap().is_empty());
    }
    rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!host().path(group(1)).exists());
    assert_clean(&dir.0, &[]);

    let command = shared(&["--seconds=6", "--json", json.to_str().unwrap()]);
    let status = start(command, &messages).wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", fs::read_to_string(&messages).unwrap());
    let Document::Tenants(report) = pgcalm_lab::document::read(&fs::read_to_string(&json).unwrap()).unwrap() else {
        panic!("not a document of tenants");
    };
    assert_eq!(report.host.cap_mechanism, "cgroup-v1");
    let stall = report.contestants[0].stall.as_ref().unwrap();
    let role = |name: &str| stall.roles.iter().find(|role| role.name == name).map_or(0, |role| role.samples);
    // One of each per instance and look.
    assert!(role("logger") > 0 && role("logger") == role("checkpointer"), "{stall:?}");
    assert!(role("client backend") > 0, "{stall:?}");
    assert_clean(&dir.0, &[]);
}

/// Limits that the groups of the lab `pid` set each instance, by instance: of memory in bytes and of processor time in microseconds, and
/// the programs of which each group has processes.
fn instance_limits(pid: u32) -> Vec<(String, String, [Vec<String>; 2])> {
    let root = host();
    let memory = Hierarchy::of_memory(&root).unwrap().unwrap();
    let cpu = Hierarchy::of_cpu(&root).unwrap().unwrap();
    let value = |file: PathBuf| root.read(file).unwrap().trim().to_string();
    let programs = |directory: &Path| -> Vec<String> {
        let mut names: Vec<String> = cgroup::members(&root, directory)
            .unwrap()
            .into_iter()
            .filter_map(|pid| root.read(format!("proc/{pid}/comm")).ok())
            .map(|name| name.trim().to_string())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    (1..=2)
        .filter_map(|number| {
            let memory = memory.mountpoint.join(format!("pgcalm-lab-memory-{pid}-{number}"));
            let cpu = cpu.mountpoint.join(format!("pgcalm-lab-cpu-{pid}-{number}"));
            if !memory.exists() && !cpu.exists() {
                return None;
            }
            Some((
                value(memory.join("memory.limit_in_bytes")),
                value(cpu.join("cpu.cfs_quota_us")),
                [programs(&memory), programs(&cpu)],
            ))
        })
        .collect()
}

#[test]
fn sigint_and_kill_9_leave_nothing_behind() {
    let Some(dir) = can_run().then(|| Dir::with_tables("tenants-end")) else { return };
    let messages = dir.0.join("messages");
    for signal in [Signal::INT, Signal::KILL] {
        let options = ["--seconds", "600", "--instance-memory", "96MB", "--instance-cpus", "0.5"];
        let mut child = start(tenants(&dir.0, &options), &messages);
        wait_for(&messages, "measuring");
        let (pools, volumes) = devices(&dir.0);
        let numbers: Vec<String> =
            pools.iter().chain(&volumes).map(|name| block_device::number(&host(), name).unwrap()).collect();
        // Or the rest would prove nothing.
        assert_eq!(volumes.len(), 4, "{pools:?}");
        pgcalm_testkit::wait_for("caps of all", || caps(&numbers) == 8);
        let limits = instance_limits(child.id());
        assert_eq!(limits.len(), 2);
        for (memory, cpu, programs) in limits {
            assert_eq!((memory.as_str(), cpu.as_str()), ("100663296", "50000"));
            // The servers, and not what puts load on them.
            assert_eq!(programs, [["postgres"], ["postgres"]]);
        }
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let status = child.wait().unwrap();
        if signal == Signal::KILL {
            assert_eq!(devices(&dir.0).1.len(), 4);
            let output = patiently(&mut lab(&["clean"], &dir.0));
            assert!(output.status.success(), "{output:?}");
        } else {
            assert_eq!(status.code(), Some(130));
        }
        assert_clean(&dir.0, &pools);
        assert_eq!(caps(&numbers), 0);
        assert!(instance_limits(child.id()).is_empty());
    }
}
