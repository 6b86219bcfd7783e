//! `lab run suite` on tiny tables, for real. Needs root; says so and passes otherwise.

use crate::lab_run;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use pgcalm_lab::document::Document;
use pgcalm_lab::suite::report::Report;
use pgcalm_testkit::{need, programs, wait_for};
use rustix::process::Signal;

use lab_run::{Dir, patiently, signal};

const SUITE: &str = r#"
title = "Tiny rows"
[defaults]
rows = 20000
wal-size = "512MB"
contestants = ["stock"]
cap = "none"
drain = "none"
[[matrix]]
[matrix.axes]
seconds = [3, 4]
[[row]]
name = "broken"
seconds = 3
set = ["max_wal_size=nonsense"]
"#;

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("suites", &[need::ROOT, need::ANY_SERVER])
}

fn suite(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command
        .args(["lab", "run", "suite"])
        .arg(dir.join("suite.toml"))
        .arg("--dir")
        .arg(dir)
        .arg("--results")
        .arg(dir.join("results"))
        .args(more);
    command
}

fn end(dir: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = patiently(&mut suite(dir, more));
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A plan of many rows takes its time, which a signal ends.
#[test]
fn a_signal_ends_the_plan_of_a_long_suite() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..100_000).map(|row| format!("[[row]]\nname = 'r{row}'\nseconds = 3\n")).collect();
    fs::write(dir.path().join("suite.toml"), format!("title = 'Long'\n{rows}")).unwrap();
    let mut running = suite(dir.path(), &["--plan"]).stdout(Stdio::null()).spawn().unwrap();
    wait_for("its handler of signals", || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 14) != 0
    });
    signal(&running, Signal::TERM);
    assert_eq!(running.wait().unwrap().code(), Some(130));
}

fn document(file: &Path) -> Report {
    match pgcalm_lab::document::read(&fs::read_to_string(file).unwrap()).unwrap() {
        Document::Suite(report) => *report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn results_stay_and_only_what_is_missing_is_run() {
    let Some(dir) = can_run().then(|| Dir::with_tables("suite")) else { return };
    let at = |name: &str| dir.0.join(name);
    let (json, html, markdown) = (at("suite.json"), at("suite.html"), at("suite.md"));
    fs::write(at("suite.toml"), SUITE).unwrap();
    let files =
        ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap(), "--markdown", markdown.to_str().unwrap()];
    // The rows of the matrix come after the one that fails.
    let (code, said) = end(&dir.0, &files);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("pgcalm: suite: 1 of 3 rows failed: broken\n"), "{said}");
    let report = document(&json);
    let names: Vec<(&str, bool, bool)> =
        report.rows.iter().map(|row| (row.name.as_str(), row.report.is_some(), row.failure.is_some())).collect();
    assert_eq!(names, [("broken", false, true), ("3", true, false), ("4", true, false)]);
    let failure = report.rows[0].failure.as_deref().unwrap();
    assert!(failure.contains("server did not start"), "{failure}");
    assert!(fs::read_to_string(&html).unwrap().contains("id=\"row-4\""));
    let sections = fs::read_to_string(&markdown).unwrap();
    assert_eq!(sections.matches("\n## ").count(), 2, "{sections}");

    // Again: nothing is run of what is there; another option makes it another run.
    let written = |name: &str| fs::metadata(at("results").join(name)).unwrap().modified();
    let before = (written("3.json").unwrap(), written("4.json").unwrap());
    let (code, said) = end(&dir.0, &["--rows", "3,4"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("its result is there").count(), 2, "{said}");
    let (code, said) = end(&dir.0, &["--rows", "3", "--option", "clients=2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("its result is there"), "{said}");
    let (code, said) = end(&dir.0, &["--rows", "4", "--again"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(written("3.json").unwrap() > before.0);
    assert!(written("4.json").unwrap() > before.1);

    // Row 3 has now a result of other options.
    let (code, said) = end(&dir.0, &["--show", "--json", json.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    let shown: Vec<bool> = document(&json).rows.iter().map(|row| row.report.is_some()).collect();
    assert_eq!(shown, [false, false, true]);
    let output = suite(&dir.0, &["--plan"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.contains("4: its result is there\n"), "{listed}");
    assert!(listed.contains("2 rows to run, about "), "{listed}");
}

#[test]
fn an_interrupt_ends_the_suite_and_what_is_there_stays() {
    let Some(dir) = can_run().then(|| Dir::with_tables("suite-sigint")) else { return };
    let text = SUITE
        .replace("[3, 4]", "[3, 60]")
        .replace("[[row]]\nname = \"broken\"\nseconds = 3\nset = [\"max_wal_size=nonsense\"]\n", "");
    fs::write(dir.0.join("suite.toml"), text).unwrap();
    let (code, said) = end(&dir.0, &["--rows", "3"]);
    assert_eq!(code, Some(0), "{said}");
    let mut child =
        suite(&dir.0, &["--json", "/dev/null"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Row 3 is there, so this is in row 60, whatever it is at.
    thread::sleep(Duration::from_secs(4));
    signal(&child, Signal::INT);
    let status = child.wait().unwrap();
    // 1: another lab was at work all the time.
    assert!(matches!(status.code(), Some(130 | 1)), "{status}");
    assert!(dir.0.join("results/3.json").exists());
    assert!(!dir.0.join("results/60.json").exists());
    for left in ["pgcalm-lab.json", "pgcalm-data.img", "pgcalm-run"] {
        assert!(!dir.0.join(left).exists(), "{left}");
    }
}

/// Of files that need no lab, since they cannot be run.
fn refused(text: &str, more: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("suite.toml"), text).unwrap();
    let said = programs::refused(&mut suite(dir.path(), more), 2);
    assert!(!dir.path().join("results").exists());
    said
}

#[test]
fn mistakes_are_told_with_file_and_row_before_anything_is_run() {
    let said = refused(&SUITE.replace("set =", "sett ="), &[]);
    assert!(said.contains("suite.toml: row broken: ") && said.contains("--sett"), "{said}");
    let said = refused(&SUITE.replace("title", "titel"), &[]);
    assert!(said.contains("suite.toml: line 2: "), "{said}");
    let said = refused(SUITE, &["--rows", "none"]);
    assert!(said.contains("--rows none: no such row; there are broken, 3, 4"), "{said}");
    let said = refused(SUITE, &["--option", "secs=3"]);
    assert!(said.contains("--secs"), "{said}");
}

#[test]
fn the_projects_own_suites_can_be_read() {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/suites");
    for entry in fs::read_dir(suites).unwrap() {
        let file = entry.unwrap().path();
        let suite = pgcalm_lab::suite::Suite::read(&file).unwrap();
        assert!(!suite.rows.is_empty(), "{}", file.display());
        // Their options, too.
        let output = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
            .args(["lab", "run", "suite", "--plan"])
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}
