//! Power cuts at the steps of archiving, for real, each step once. Needs root and a built module; says so and passes otherwise.

use crate::lab_run;

use std::fs;
use std::path::Path;
use std::process::Command;

use pgcalm_lab::archive_crash::report::Report;
use pgcalm_lab::document;
use pgcalm_lab::document::Document;
use pgcalm_testkit::programs::bindir;
use pgcalm_testkit::{module_directory, need, wait_for};
use rustix::process::Signal;

use lab_run::{Dir, Running, all_leftovers, lab};

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("power cuts at the steps of archiving", &[need::ROOT, need::SERVER, need::MODULE])
}

fn archive_crash(dir: &Path, more: &[&str]) -> Command {
    let mut command = lab(&["run", "archive-crash"], dir);
    command.arg("--pg-bindir").arg(bindir().unwrap()).arg("--module-dir").arg(module_directory()).args(more);
    command
}

fn read(file: &Path) -> Report {
    match document::read(&fs::read_to_string(file).unwrap()) {
        Ok(Document::ArchiveCrash(report)) => *report,
        other => panic!("not a report of power cuts: {other:?}"),
    }
}

#[test]
fn no_segment_is_lost_at_any_step_but_by_the_control() {
    let Some(dir) = can_run().then(|| Dir::new("archive-crash")) else { return };
    let json = dir.0.join("report.json");
    let output =
        archive_crash(&dir.0, &["--cycles", "10", "--control", "directory"]).arg("--json").arg(&json).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new());

    let report = read(&json);
    let mut points: Vec<&str> = report.cycles.iter().map(|cycle| cycle.point.as_deref().unwrap()).collect();
    points.sort();
    points.dedup();
    assert_eq!(points.len(), 9, "{points:?}");
    assert!(report.cycles.iter().all(pgcalm_lab::archive_crash::report::Cycle::is_sound));
    assert!(report.cycles.iter().all(|cycle| cycle.recovery_s.is_some()));
    assert!(report.stopped() > 0);
    // Seven before each power cut, one after each recovery.
    assert!(report.cycles[9].segments >= 80, "{:?}", report.cycles[9]);
    assert!(report.controls.iter().all(pgcalm_lab::archive_crash::report::Control::detected));
    assert_eq!(report.controls.len(), 1);

    let shown = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "report"]).arg(&json).output().unwrap();
    assert_eq!(shown.stdout, output.stdout);
}

#[test]
fn sigint_in_a_cycle_leaves_the_report_and_neither_stopped_processes_nor_devices() {
    let Some(dir) = can_run().then(|| Dir::new("archive-crash-sigint")) else { return };
    let json = dir.0.join("report.json");
    let mut running = Running::start(archive_crash(&dir.0, &["--cycles", "100", "--json", json.to_str().unwrap()]));
    running.wait_for("cycle 1 of 100");
    // The server of the next cycle, whose archiver is stopped at first.
    wait_for("a server", || {
        let left = all_leftovers(&dir.0);
        left.iter().filter(|left| left.contains("process")).count() >= 8
    });
    running.signal(Signal::INT);
    let (status, last) = running.end();
    assert_eq!(status.code(), Some(130), "{last}");
    assert_eq!(all_leftovers(&dir.0), Vec::<String>::new(), "{last}");
    let report = read(&json);
    assert!(report.interrupted && !report.cycles.is_empty());
}
