//! `pgcalm lab volume`, for real: FUSE, a loop device, ext4 and fio. Needs root and FUSE; says so and passes otherwise.

use crate::lab_run;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_host::{block_device, mounts};
use pgcalm_testkit::{need, programs};
use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use serde_json::Value;

use lab_run::{Dir, host, lab, signal};

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("volumes", &[need::ROOT, need::FUSE])
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn is_mounted(target: &Path) -> bool {
    let mounts = mounts::read(&host()).unwrap();
    mounts.iter().any(|mount| mount.target == target)
}

fn has_loop_device(file: &Path) -> bool {
    let devices = block_device::loop_devices(&host()).unwrap();
    devices.iter().any(|device| device.backing_file == file)
}

/// A volume that the test steers.
struct Controlled {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    mount: PathBuf,
}

impl Controlled {
    fn start(dir: &Dir, profile: &str) -> Self {
        let (image, mount) = (dir.0.join("image"), dir.0.join("mount"));
        if !image.exists() {
            File::create(&image).unwrap().set_len(256 << 20).unwrap();
            fs::create_dir(&mount).unwrap();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
            .args(["lab", "volume", "--control", "--profile", profile, "--image"])
            .arg(&image)
            .arg("--mount")
            .arg(&mount)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut controlled =
            Self { input: child.stdin.take(), output: BufReader::new(child.stdout.take().unwrap()), child, mount };
        let ready = controlled.line();
        assert_eq!(ready, format!("ready {}", controlled.file().display()));
        controlled
    }

    fn file(&self) -> PathBuf {
        self.mount.join("volume")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{question}").unwrap();
        self.line()
    }

    fn stats(&mut self) -> Value {
        serde_json::from_str(&self.ask("stats")).unwrap()
    }

    fn count(&mut self, name: &str) -> u64 {
        self.stats()[name].as_u64().unwrap()
    }

    /// Unmounts it; the process must end well by itself.
    fn end(mut self) {
        rustix::mount::unmount(&self.mount, UnmountFlags::NOFOLLOW).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        // For the case that the test has failed half-way.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = rustix::mount::unmount(&self.mount, UnmountFlags::DETACH);
    }
}

/// A loop device of the test's own.
struct Loop(String);

impl Loop {
    fn on(file: &Path) -> Self {
        let file = file.to_str().unwrap();
        let output = run("losetup", &["--find", "--show", "--direct-io=on", file]);
        Self(output.trim().to_string())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn with_ext4(device: &Loop, dir: &Dir, work: impl FnOnce(&Path)) {
    let target = dir.0.join("ext4");
    let target_text = target.to_str().unwrap();
    fs::create_dir_all(&target).unwrap();
    run("mount", &[&device.0, target_text]);
    work(&target);
    run("umount", &[target_text]);
}

#[test]
fn what_is_written_is_read_back_by_the_next_volume_on_the_image() {
    let Some(dir) = can_run().then(|| Dir::new("volume-data")) else { return };
    let text: Vec<u8> = (0..3_000_001_u32).map(|n| (n / 7) as u8).collect();
    let mut volume = Controlled::start(&dir, "gp3");
    assert_eq!(volume.ask("limits on"), "ok");
    let device = Loop::on(&volume.file());
    run("mkfs.ext4", &["-q", &device.0]);
    with_ext4(&device, &dir, |target| {
        fs::write(target.join("file"), &text).unwrap();
    });
    drop(device);
    volume.end();

    let volume = Controlled::start(&dir, "pd-balanced:size=10GB");
    let device = Loop::on(&volume.file());
    with_ext4(&device, &dir, |target| {
        assert!(fs::read(target.join("file")).unwrap() == text);
    });
    run("e2fsck", &["-fn", &device.0]);
    drop(device);
    volume.end();
}

#[test]
fn requests_count_as_the_provider_counts_them() {
    let Some(dir) = can_run().then(|| Dir::new("volume-counts")) else { return };
    let mut volume = Controlled::start(&dir, "gp3");
    assert_eq!(volume.ask("limits on"), "ok");
    let file = OpenOptions::new().read(true).write(true).open(volume.file()).unwrap();
    // On page boundaries, as the kernel's own requests are: FUSE passes 256 pages at once, which 1 MiB elsewhere exceeds.
    let memory = vec![1; (1 << 20) + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let data = &memory[start..start + (1 << 20)];
    file.write_all_at(data, 0).unwrap();
    assert_eq!(volume.count("write_operations"), 4);
    file.write_all_at(&data[..8192], 4096).unwrap();
    // Neither a sector nor aligned to one.
    file.write_all_at(&data[..3], 100_001).unwrap();
    assert_eq!(volume.count("write_operations"), 6);
    assert_eq!(volume.count("written_bytes"), (1 << 20) + 8192 + 3);
    let mut buffer = vec![0; 300 << 10];
    file.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(volume.count("read_operations"), 2);
    assert_eq!(volume.count("read_bytes"), 300 << 10);
    assert!(buffer.iter().all(|byte| *byte == 1));
    file.sync_all().unwrap();
    assert_eq!(volume.count("flushes"), 1);
    assert_eq!(volume.count("errors"), 0);
    assert!(volume.ask("what").starts_with("error: there are limits on"));
    assert_eq!(volume.ask("limits off"), "ok");
    drop(file);
    volume.end();
}

/// Those that give the answers, too: a load with more CPU than they get would slow the volume that it waits for.
#[test]
fn all_threads_of_a_volume_have_the_same_priority() {
    let Some(dir) = can_run().then(|| Dir::new("volume-nice")) else { return };
    let mut volume = Controlled::start(&dir, "gp3");
    // A thread names itself, and this one has by the time that it has given an answer.
    assert_eq!(volume.ask("limits on"), "ok");
    OpenOptions::new().write(true).open(volume.file()).unwrap().write_all_at(b"x", 0).unwrap();
    let mut nice: Vec<(String, String)> = Vec::new();
    for task in fs::read_dir(format!("/proc/{}/task", volume.child.id())).unwrap() {
        let text = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let (name, fields) = text.rsplit_once(") ").unwrap();
        let name = name.split_once('(').unwrap().1;
        // Field 19 (proc_pid_stat(5)), of which the state is the third.
        nice.push((name.to_string(), fields.split(' ').nth(16).unwrap().to_string()));
    }
    assert!(nice.iter().any(|(name, _)| name == "completions"), "{nice:?}");
    assert!(nice.iter().all(|(_, of_one)| *of_one == nice[0].1), "{nice:?}");
    volume.end();
}

#[test]
fn a_volume_goes_on_when_nobody_steers_it_any_more_and_ends_when_unmounted() {
    let Some(dir) = can_run().then(|| Dir::new("volume-orphan")) else { return };
    let mut volume = Controlled::start(&dir, "gp3");
    assert_eq!(volume.ask("limits on"), "ok");
    drop(volume.input.take());
    signal(&volume.child, Signal::INT);
    signal(&volume.child, Signal::HUP);
    let file = OpenOptions::new().read(true).write(true).open(volume.file()).unwrap();
    file.write_all_at(b"still there", 0).unwrap();
    let mut text = [0; 11];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"still there");
    // It is asked to end, but not before the file is closed.
    signal(&volume.child, Signal::TERM);
    let end = Instant::now() + PATIENCE;
    while is_mounted(&volume.mount) {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(10));
    }
    file.read_exact_at(&mut text, 0).unwrap();
    drop(file);
    assert!(volume.child.wait().unwrap().success());
}

#[test]
fn a_profile_that_there_is_not_is_answered_with_those_that_there_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    let text = programs::refused(command.args(["lab", "volume", "--profile", "gp9", "--size", "1GB"]), 2);
    assert!(text.contains("there are gp2, gp3, io2"), "{text}");
    let list = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "list"]).output().unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    assert!(text.contains("azure-premium-ssd-v2"), "{text}");
}

/// In a mount namespace whose /dev/fuse is a device that no driver has.
#[test]
fn a_host_without_fuse_is_told_in_a_line_and_nothing_stays() {
    let Some(dir) = can_run().then(|| Dir::new("no-fuse")) else { return };
    let (node, work) = (dir.0.join("node"), dir.0.join("work"));
    let script = "mknod \"$1\" c 10 254 && mount --bind \"$1\" /dev/fuse && shift && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&node)
        .arg(env!("CARGO_BIN_EXE_pgcalm"))
        .args(["lab", "volume", "--profile", "gp3", "--size", "64MB"])
        .arg("--dir")
        .arg(&work)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains("FUSE is not to be had here: "), "{text}");
    assert!(!work.exists(), "{text}");
}

/// `lab volume` until it has printed its device.
fn start_verb(dir: &Path, profile: &str) -> (Child, String) {
    let mut child = lab(&["volume", "--profile", profile, "--size", "256MB"], dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let node = line.split(' ').next().unwrap().to_string();
    assert!(node.starts_with("/dev/loop"), "{line}");
    (child, node)
}

fn write_cache(node: &str) -> String {
    let name = node.strip_prefix("/dev/").unwrap();
    let file = Path::new("/sys/block").join(name).join("queue/write_cache");
    fs::read_to_string(file).unwrap().trim().to_string()
}

#[test]
fn the_device_keeps_to_its_limit_and_is_gone_after_sigterm() {
    let Some(dir) = can_run().then(|| Dir::new("volume-verb")) else { return };
    let work = dir.0.join("work");
    let (mut child, node) = start_verb(&work, "custom:iops=500,depth=16");
    assert_eq!(write_cache(&node), "write through");
    if need::met("a volume's limit", &[need::FIO]) {
        let json = run(
            "fio",
            &[
                "--name=volume",
                &format!("--filename={node}"),
                "--direct=1",
                "--ioengine=libaio",
                "--rw=randrw",
                "--bs=8k",
                "--iodepth=64",
                "--ramp_time=1",
                "--runtime=3",
                "--time_based",
                "--output-format=json",
            ],
        );
        let json: Value = serde_json::from_str(&json).unwrap();
        let iops = |mode: &str| json["jobs"][0][mode]["iops"].as_f64().unwrap();
        let sum = iops("read") + iops("write");
        assert!(sum > 0.0 && sum < 500.0 * 1.03, "{sum}");
    }
    signal(&child, Signal::TERM);
    assert!(child.wait().unwrap().success());
    assert!(!work.exists());
    assert!(!has_loop_device(&work.join("pgcalm-volume-mount/volume")));
}

#[test]
fn lab_clean_takes_down_what_a_killed_volume_has_left() {
    let Some(dir) = can_run().then(|| Dir::new("volume-kill")) else { return };
    let work = dir.0.join("work");
    let (mut child, _) = start_verb(&work, "gp3");
    let mount = work.join("pgcalm-volume-mount");
    assert!(is_mounted(&mount));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(has_loop_device(&mount.join("volume")));
    let output = lab(&["clean"], &work).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!is_mounted(&mount));
    assert!(!has_loop_device(&mount.join("volume")));
    assert!(!work.exists());
}
