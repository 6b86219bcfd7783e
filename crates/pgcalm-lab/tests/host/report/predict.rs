//! The report of predictions in words, tables and HTML. SYNTHETIC: nothing here was ever measured.

use std::collections::BTreeMap;

use pgcalm_lab::document::Document;
use pgcalm_lab::predict::report::{Measured, Point, Report};
use pgcalm_lab::report::{Host, Shown};
use pgcalm_predict::report::{Device, Observation, Outlook, Prediction, Settings};

use super::support;

fn outlook(operations: f64) -> Outlook {
    Outlook {
        sustainable_tps: 1000.0,
        device_operations_per_s: operations,
        device_mib_per_s: 50.0,
        bound_by: "server".into(),
    }
}

fn prediction(helps: Option<bool>) -> Prediction {
    Prediction {
        observation: Observation {
            seconds: 60.0,
            tps: 900.0,
            unhindered_tps: 1000.0,
            checkpointer_pages_per_s: 1.0,
            background_writer_pages_per_s: 2.0,
            backend_pages_per_s: 3.0,
            wal_bytes_per_s: 4.0,
            writes_are_late: false,
            settings: Settings {
                checkpoint_timeout_s: 300.0,
                checkpoint_completion_target: 0.9,
                max_wal_bytes: 1 << 30,
                full_page_writes: true,
                bridge: true,
                page_bytes: 8192,
            },
            device: Device {
                name: "vdb".into(),
                write_iops: Some(800.0),
                write_bytes_per_s: None,
                all_iops: Some(3000.0),
                all_bytes_per_s: None,
                caps_source: "SYNTHETIC".into(),
                counted: true,
                operations_per_s: 700.0,
                mib_per_s: 6.0,
                reads_per_s: 120.0,
                read_mib_per_s: 1.0,
                wal_writes_per_s: 900.0,
                wal_is_uncounted: false,
            },
            shadow: None,
        },
        stock: outlook(790.0),
        pg_calm: helps.is_some().then(|| outlook(110.0)),
        helps,
        reason: "SYNTHETIC <reason>".into(),
        cautions: vec!["SYNTHETIC caution".into()],
    }
}

fn point(name: &str, operations: f64) -> Point {
    Point {
        name: name.into(),
        settings: BTreeMap::from([("rows".to_string(), 5_000_000.into())]),
        prediction: prediction(Some(true)),
        measured: Measured {
            seconds: 2,
            device_operations_per_s: operations,
            device_mib_per_s: 50.0,
            tps: 1250.0,
            tps_series: vec![1200.0, 1300.0],
            operations_series: Vec::new(),
            mib_series: Vec::new(),
            checkpoints: 0,
            written: None,
            module: None,
        },
    }
}

fn report() -> Report {
    Report {
        scenario: "predict".into(),
        host: Host { cap_mechanism: "cgroup-v1".into(), ..support::host() },
        settings: BTreeMap::from([("observe".to_string(), 30.into())]),
        points: vec![point("medium", 110.0), point("tested", 275.0)],
    }
}

#[test]
fn errors_are_those_of_a_transaction_and_their_medians_are_told() {
    // 110 operations for 900 transactions were predicted, 110 and 275 for 1250 came.
    let text = report().text();
    assert!(text.contains("+39 %"), "{text}");
    assert!(text.contains("-44 %"), "{text}");
    let flat = text.replace('\n', " ");
    let median = "median error of 2 points: operations per transaction 42 %, bytes per transaction 39 %, TPS 20 %";
    assert!(flat.contains(median), "{flat}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn a_point_without_a_count_has_no_errors() {
    let mut report = report();
    report.points[0].prediction = prediction(None);
    assert!(report.points[0].errors().iter().all(|error| error.is_nan()));
    assert!(report.text().contains("not known: SYNTHETIC"), "{}", report.text());
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_shows_all_points() {
    let html = report().html();
    for word in ["medium", "tested", "upper bound", "SYNTHETIC &lt;reason&gt;"] {
        assert!(html.contains(word), "{word}");
    }
    assert!(!html.contains("http://") && !html.contains("https://"));
    assert!(!html.contains("<script"));
}

#[test]
fn a_verdict_is_told_either_way() {
    let helps = pgcalm_predict::report::text::render(&prediction(Some(true)));
    assert!(helps.contains("pg_calm helps: SYNTHETIC"), "{helps}");
    assert!(helps.contains("uncertain: SYNTHETIC caution"), "{helps}");
    let flat = helps.replace('\n', " ");
    assert!(flat.contains("takes 3000 (800 for writes) operations and any number of MiB per second"), "{helps}");
    assert!(flat.contains("per second now; reads count, 120 per second, beside 900 writes of WAL"), "{helps}");
    assert!(flat.contains("an upper bound"), "{helps}");
    let not = pgcalm_predict::report::text::render(&prediction(Some(false)));
    assert!(not.contains("it will not help, because SYNTHETIC"), "{not}");
    let unknown = pgcalm_predict::report::text::render(&prediction(None));
    assert!(unknown.contains("load pg_calm in shadow mode"), "{unknown}");
    assert!(!unknown.contains("\npg_calm "), "{unknown}");
}

#[test]
fn a_document_reads_back() {
    let json = pgcalm_render::json::to_json_pretty(&report()).unwrap();
    assert_eq!(pgcalm_lab::document::read(&json).unwrap(), Document::Predict(Box::new(report())));
}
