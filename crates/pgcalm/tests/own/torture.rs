//! Crash cycles, for real and few. Needs root and a built module; says so and passes otherwise.

use crate::lab_run;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_lab::document::Document;
use pgcalm_lab::torture::report::{Cycle, Report};
use pgcalm_testkit::programs::bindir;
use pgcalm_testkit::{module_directory, need};
use rustix::process::Signal;

use lab_run::{Dir, all_leftovers, lab, signal};

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("crash cycles", &[need::ROOT, need::SERVER, need::MODULE])
}

fn torture(dir: &Path, more: &[&str]) -> Command {
    let mut command = lab(&["run", "torture", "--rows", "40000", "--size", "600MB"], dir);
    // The table is small, so there must be fewer buffers yet for pages to be written.
    command.args(["--set", "shared_buffers=2MB", "--seconds", "3"]);
    command.arg("--pg-bindir").arg(bindir().unwrap());
    command.arg("--module-dir").arg(module_directory()).args(more);
    command
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until `dir` has `what` often enough among its leftovers.
fn wait_for(dir: &Path, what: &str, count: usize) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let found = all_leftovers(dir);
        if found.iter().filter(|left| left.contains(what)).count() >= count {
            return;
        }
        assert!(Instant::now() < end, "{what}: {found:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The image of the first device is being filled.
fn wait_for_device(dir: &Path) {
    wait_for(dir, ".img", 1);
}

/// A server has more processes than this without the load's connections.
fn wait_for_load(dir: &Path) {
    wait_for(dir, "process", 12);
}

fn read(file: &Path) -> Report {
    match pgcalm_lab::document::read(&fs::read_to_string(file).unwrap()).unwrap() {
        Document::Torture(report) => *report,
        _ => panic!("not a report of crash cycles"),
    }
}

/// Two cycles that find nothing lost, as [`run_two`].
fn two_cycles(dir: &Path, json: &Path, more: &[&str]) -> String {
    let (code, stdout, stderr) = run_two(dir, json, more);
    assert_eq!(code, Some(0), "{stderr}");
    stdout
}

/// Two cycles, after which nothing is left on the host; what they report is in `json`. Returns the exit code and what the run
/// printed.
fn run_two(dir: &Path, json: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let output = torture(dir, &["--cycles", "2", "--fs", "ext4"]).args(more).arg("--json").arg(json).output().unwrap();
    assert_eq!(all_leftovers(dir), Vec::<String>::new());
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// How often [`two_cycles`] may be run until a load has got as far as is wanted before its crash.
const MOST_RUNS: u32 = 10;

#[test]
fn nothing_is_lost_in_crashes_but_by_the_control() {
    let Some(dir) = can_run().then(|| Dir::new("torture")) else { return };
    let json = dir.0.join("report.json");
    let stdout = two_cycles(&dir.0, &json, &["--control"]);
    assert!(stdout.contains("control: detected loss as it must"), "{stdout}");
    let mut report = read(&json);
    assert_eq!(report.controls.len(), 2);
    assert!(report.controls.iter().all(pgcalm_lab::torture::report::Control::detected));

    let shown = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "report"]).arg(&json).output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), stdout);

    // Each crash comes after a second or two, by when a busy machine may not have got to a flush.
    let mut seen = Cycle::default();
    for run in 1.. {
        let crashes: Vec<&str> = report.cycles.iter().map(|c| c.crash.as_str()).collect();
        assert_eq!(crashes, ["shutdown", "kill"]);
        for cycle in &report.cycles {
            assert!(cycle.is_sound(), "{cycle:?}");
            assert!(cycle.rows_compared >= 20_000, "{cycle:?}");
            assert!(cycle.recovery_s.is_some(), "{cycle:?}");
            seen.commits += cycle.commits;
            seen.rows_compared = seen.rows_compared.max(cycle.rows_compared);
            seen.flushed_pages += cycle.flushed_pages;
            seen.bridged_pages += cycle.bridged_pages;
            seen.drained_checkpoints += cycle.drained_checkpoints;
        }
        // Half of the rows are loaded, the others come with the load.
        let all = seen.rows_compared > 20_000 && seen.flushed_pages > 0 && seen.bridged_pages > 0;
        if all && seen.commits > 0 && seen.drained_checkpoints > 0 {
            break;
        }
        assert!(run < MOST_RUNS, "{seen:?}");
        two_cycles(&dir.0, &json, &[]);
        report = read(&json);
    }
}

/// Blocks that showed a deleted file's data in two power cuts: in files that nobody synced, and in all others. Where there are some, a
/// table may be damaged.
fn stale_blocks(dir: &Path, json: &Path, mount_options: &str) -> (u64, u64) {
    let (code, stdout, stderr) =
        run_two(dir, json, &["--crash", "shutdown", "--stale-blocks", "--mount-options", mount_options]);
    assert!(stdout.contains("a deleted file's data"), "{stdout}");
    let report = read(json);
    let found = || report.cycles.iter().map(|cycle| cycle.stale.as_ref().unwrap());
    let in_unsynced = found().map(|stale| stale.in_unsynced_files).sum();
    let in_server = found().map(|stale| stale.before_recovery + stale.after_recovery).sum();
    let sound = report.cycles.iter().all(Cycle::is_sound);
    assert!(sound || in_server > 0, "{stderr}");
    assert_eq!(code, Some(if sound { 0 } else { 1 }), "{stderr}");
    (in_unsynced, in_server)
}

#[test]
fn what_is_not_synced_may_show_deleted_files_on_ext4_with_data_writeback_only() {
    let Some(dir) = can_run().then(|| Dir::new("torture-stale")) else { return };
    let json = dir.0.join("report.json");
    assert_eq!(stale_blocks(&dir.0, &json, "data=ordered,nodelalloc"), (0, 0));
    // On a busy machine there may be no commit of the journal before the crash.
    let shown = (0..MOST_RUNS).any(|_| stale_blocks(&dir.0, &json, "data=writeback,nodelalloc").0 > 0);
    assert!(shown);
}

#[test]
fn sigint_takes_everything_down() {
    let Some(dir) = can_run().then(|| Dir::new("torture-sigint")) else { return };
    for wait in [wait_for_device, wait_for_load] {
        let mut child = start(torture(&dir.0, &["--fs", "xfs"]));
        wait(&dir.0);
        signal(&child, Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
    }
}

#[test]
fn an_interrupted_run_reports_the_cycles_that_were_done() {
    let Some(dir) = can_run().then(|| Dir::new("torture-part")) else { return };
    let json = dir.0.join("report.json");
    let mut command = torture(&dir.0, &["--fs", "ext4", "--cycles", "99", "--json"]);
    let mut child = command.arg(&json).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(notes.any(|note| note.contains("cycle 1 of 99") && note.contains("as they must be")));
    signal(&child, Signal::INT);
    let rest: Vec<String> = notes.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("interrupted: 1 of 99 crashes"));
    assert_eq!(read(&json).cycles.len(), 1);
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
}

#[test]
fn clean_removes_what_kill_9_left() {
    let Some(dir) = can_run().then(|| Dir::new("torture-kill9")) else { return };
    let mut child = start(torture(&dir.0, &["--fs", "ext4"]));
    wait_for_load(&dir.0);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(all_leftovers(&dir.0).len() > 4, "{:?}", all_leftovers(&dir.0));
    let output = lab(&["clean"], &dir.0).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!dir.0.exists(), "{:?}", all_leftovers(&dir.0));
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());
}

#[test]
fn one_directory_takes_one_run() {
    let Some(dir) = can_run().then(|| Dir::new("torture-lock")) else { return };
    let mut first = start(torture(&dir.0, &["--fs", "ext4"]));
    wait_for_device(&dir.0);
    let output = torture(&dir.0, &["--cycles", "1"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("another --dir"), "{stderr}");
    signal(&first, Signal::INT);
    assert_eq!(first.wait().unwrap().code(), Some(130));
}
