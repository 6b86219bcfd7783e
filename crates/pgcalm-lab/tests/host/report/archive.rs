//! The report of archivers: who is ranked, and that all renderings take whatever a document holds.

use std::collections::BTreeMap;

use pgcalm_lab::archive::report::{Archiver, Crash, Drain, Loaded, Report, Run, Series};
use pgcalm_lab::document::Document;
use pgcalm_lab::report::{Host, Latency, Shown};

use super::support;

fn drain(files: u64, duration_s: f64) -> Drain {
    Drain {
        files,
        mib: files as f64 * 16.0,
        duration_s,
        wal_writes_per_file: 2.0,
        archive_writes_per_file: 18.0,
        journal_commits_per_file: Some(1.5),
        cpu_s: 0.25,
    }
}

fn archiver(name: &str, duration_s: f64, missing: u64) -> Archiver {
    let latency = Latency { p50: 1.0, p99: 4.0, p999: 8.0, max: 9.0 };
    Archiver {
        name: name.to_string(),
        description: format!("{name}, described."),
        copies: true,
        server_settings: BTreeMap::from([("archive_mode".to_string(), "on".to_string())]),
        runs: vec![Run {
            alone: drain(10, duration_s),
            checkpoint: None,
            loaded: Some(Loaded {
                drain: drain(10, duration_s),
                tps_before: 900.0,
                latency_before_ms: latency,
                tps: 800.0,
                latency_ms: latency,
                series: Series {
                    tps: vec![900.0, 800.0],
                    latency_p99_ms: vec![Some(4.0), None],
                    queue_files: vec![10.0, 5.0],
                },
            }),
            crash: Some(Crash {
                syncs_per_file: 3.0,
                acknowledged: 30,
                missing,
                different: 0,
                first_loss: (missing > 0).then(|| "0000: not there".to_string()),
            }),
            module_status: BTreeMap::new(),
        }],
    }
}

fn report() -> Report {
    Report {
        scenario: "archive".to_string(),
        host: Host { cap_mechanism: "none".into(), ..support::host() },
        settings: BTreeMap::from([("files".to_string(), 10.into())]),
        dd_mib_per_s: vec![200.0],
        archivers: vec![archiver("cp", 0.5, 30), archiver("basic_archive", 2.0, 0), archiver("pg_calm-2", 1.0, 0)],
    }
}

fn row(text: &str, name: &str) -> Vec<String> {
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")))
        .unwrap_or_else(|| panic!("no row of {name} in\n{text}"));
    line.split_whitespace().map(str::to_string).collect()
}

#[test]
fn the_fastest_has_no_rank_if_it_lost_anything() {
    let text = report().text();
    assert_eq!(row(&text, "cp")[1], "lossy");
    assert_eq!(row(&text, "pg_calm-2")[1], "1");
    assert_eq!(row(&text, "basic_archive")[1], "2");
    assert!(text.contains("pg_calm-2: 2.0x the files per second of basic_archive"), "{text}");
    assert!(text.contains("200 MiB/s, pg_calm-2 80 % of it"), "{text}");
    assert!(text.contains("of 30 files 30 were missing"), "{text}");
}

#[test]
fn one_run_that_lost_something_is_enough() {
    let mut report = report();
    let lossy = archiver("pg_calm-2", 1.0, 1).runs.remove(0);
    report.archivers[2].runs.push(lossy);
    let text = report.text();
    assert_eq!(row(&text, "pg_calm-2")[1], "lossy");
    assert_eq!(row(&text, "basic_archive")[1], "1");
}

#[test]
fn one_of_ours_that_lost_something_fails_the_run() {
    // That is what cp does.
    assert_eq!(report().failure(), None);
    let mut report = report();
    report.archivers[2] = archiver("pg_calm-2", 1.0, 1);
    assert_eq!(report.failure().as_deref(), Some("lost what was acknowledged: pg_calm-2"));
    assert_eq!(Shown::failure(&report), report.failure());
    // It was not tried.
    report.archivers[2].runs[0].crash = None;
    assert_eq!(report.failure(), None);
}

#[test]
fn a_power_cut_in_which_nobody_lost_anything_is_doubted() {
    let doubts = |report: &Report| report.text().replace('\n', " ").contains("may have shown nothing");
    let mut report = report();
    assert!(!doubts(&report));
    report.archivers[0] = archiver("cp", 0.5, 0);
    assert!(doubts(&report));
    report.archivers.remove(0);
    assert!(doubts(&report));
    for archiver in &mut report.archivers {
        archiver.runs[0].crash = None;
    }
    assert!(!doubts(&report));
}

#[test]
fn a_document_reads_back_as_what_was_written() {
    let report = report();
    let json = pgcalm_render::json::to_json_pretty(&report).unwrap();
    match pgcalm_lab::document::read(&json).unwrap() {
        Document::Archive(read) => assert_eq!(*read, report),
        other => panic!("{other:?}"),
    }
}

#[test]
fn html_escapes_what_a_report_holds_and_loads_nothing() {
    let mut report = report();
    report.archivers[1].name = "<script>alert(1)</script>".to_string();
    let html = report.html();
    assert!(!html.contains("<script"), "{html}");
    assert!(html.contains("&lt;script&gt;"));
    assert!(html.contains("<svg"));
    for source in ["http://", "https://", "url("] {
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(source), "{source}");
    }
}

#[test]
fn a_report_of_nothing_is_rendered() {
    let mut report = report();
    report.archivers.clear();
    report.dd_mib_per_s.clear();
    assert!(report.text().contains("No run was completed."));
    report.html();
}
