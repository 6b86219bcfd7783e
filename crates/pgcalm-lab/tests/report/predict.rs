//! The report of predictions in words, tables and HTML. SYNTHETIC: nothing here was ever measured.

use std::collections::BTreeMap;

use pgcalm_lab::document::Document;
use pgcalm_lab::predict::report::Measured;
use pgcalm_lab::predict::report::Point;
use pgcalm_lab::predict::report::Report;
use pgcalm_lab::report::Host;
use pgcalm_lab::report::Shown;
use pgcalm_predict::report::Device;
use pgcalm_predict::report::Kernel;
use pgcalm_predict::report::Observation;
use pgcalm_predict::report::Outlook;
use pgcalm_predict::report::Possible;
use pgcalm_predict::report::Prediction;
use pgcalm_predict::report::RegionClass;
use pgcalm_predict::report::Settings;

fn outlook(operations: f64) -> Outlook {
    Outlook {
        sustainable_tps: 1000.0,
        device_operations_per_s: operations,
        device_mib_per_s: 50.0,
        bound_by: "server".into(),
    }
}

fn prediction(helps: bool) -> Prediction {
    Prediction {
        observation: Observation {
            source: "shadow".into(),
            seconds: 60.0,
            tps: 900.0,
            unhindered_tps: 1000.0,
            checkpointer_pages_per_s: 1.0,
            background_writer_pages_per_s: 2.0,
            backend_pages_per_s: 3.0,
            wal_bytes_per_s: 4.0,
            settings: Settings {
                server_version: 150_020,
                checkpoint_timeout_s: 300.0,
                checkpoint_completion_target: 0.9,
                max_wal_bytes: 1 << 30,
                shared_buffers_bytes: 1 << 27,
                checkpoint_flush_after_bytes: 1 << 18,
                bgwriter_flush_after_bytes: 1 << 19,
                backend_flush_after_bytes: 0,
                full_page_writes: true,
                flush_age_s: 0.0,
                unflushed_limit_bytes: 0,
                bridge: true,
                clean_buffers: true,
            },
            kernel: Kernel { background_bytes: 1 << 31, limit_bytes: 1 << 32, expire_s: 30.0, interval_s: 5.0 },
            device: Device {
                name: "vdb".into(),
                write_iops: Some(800.0),
                write_bytes_per_s: None,
                all_iops: Some(3000.0),
                all_bytes_per_s: None,
                operation_bytes: 1 << 18,
                max_segments: 128,
                caps_source: "SYNTHETIC".into(),
                operations_per_s: 700.0,
                mib_per_s: 6.0,
                reads_per_s: 120.0,
                read_mib_per_s: 1.0,
                wal_writes_per_s: 900.0,
                other_mib_per_s: 0.0,
                counted_times: 1,
            },
            checkpoint_pages: 5.0,
            regions: vec![RegionClass { regions: 10.0, pages_first_second: 1.5, exponent: 0.5, checkpoint_pages: 0.5 }],
            files: 0.0,
            shadow: None,
        },
        stock: outlook(790.0),
        pg_calm: outlook(110.0),
        possible: Some(Possible {
            tps: 1000.0,
            volume_tps: Some(800.0),
            pages_per_operation: 14.2,
            holds_writers: !helps,
        }),
        helps,
        reason: "SYNTHETIC <reason>".into(),
        cautions: vec!["SYNTHETIC caution".into()],
    }
}

fn point(name: &str, held_back: bool, operations: f64) -> Point {
    Point {
        name: name.into(),
        held_back,
        settings: BTreeMap::from([("rows".to_string(), 5_000_000.into())]),
        prediction: prediction(true),
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
        host: Host {
            kernel: "6.18".into(),
            cpus: 2,
            memory_mib: 24_000,
            postgres: "PostgreSQL 15".into(),
            pgcalm: "0".into(),
            module: None,
            started_at: "SYNTHETIC".into(),
            sysctls: BTreeMap::new(),
            cap_mechanism: "cgroup-v1".into(),
        },
        settings: BTreeMap::from([("observe".to_string(), 30.into())]),
        points: vec![point("medium", false, 100.0), point("tested", true, 220.0)],
    }
}

#[test]
fn errors_and_their_medians_are_told_with_those_held_back_apart() {
    let text = report().text();
    assert!(text.contains("tested*"), "{text}");
    assert!(text.contains("measured 125 % of it"), "{text}");
    assert!(text.contains("+10 %"), "{text}");
    assert!(text.contains("-50 %"), "{text}");
    let flat = text.replace('\n', " ");
    // 10 % and 50 %.
    assert!(flat.contains("all points (2): device operations 30 %, bandwidth 0 %, TPS 20 %"), "{flat}");
    assert!(flat.contains("held back from the model (1): device operations 50 %"), "{flat}");
    assert!(flat.contains("made with (1): device operations 10 %"), "{flat}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_shows_all_points() {
    let html = report().html();
    for word in [
        "medium",
        "tested",
        "held back",
        "SYNTHETIC &lt;reason&gt;",
        "physically possible: 1000 TPS",
        "measured 125 % of it",
    ] {
        assert!(html.contains(word), "{word}");
    }
    assert!(!html.contains("http://") && !html.contains("https://"));
    assert!(!html.contains("<script"));
}

#[test]
fn a_verdict_is_told_either_way() {
    let helps = pgcalm_predict::report::text::render(&prediction(true));
    assert!(helps.contains("pg_calm helps: SYNTHETIC"), "{helps}");
    assert!(helps.contains("uncertain: SYNTHETIC caution"), "{helps}");
    let flat = helps.replace('\n', " ");
    assert!(flat.contains("takes 3000 operations and any number of MB per second"), "{helps}");
    assert!(flat.contains("per second now; reads count, 120 per second, beside 900 writes of WAL"), "{helps}");
    assert!(flat.contains("physically possible: 1000 TPS; the volume sustains 800 at 14.2 dirty pages"), "{helps}");
    assert!(flat.contains("writers need not be held"), "{helps}");
    let not = pgcalm_predict::report::text::render(&prediction(false));
    assert!(not.replace('\n', " ").contains("writers have to be held"), "{not}");
    assert!(not.contains("it will not help, because SYNTHETIC"), "{not}");
}

#[test]
fn a_document_reads_back() {
    let json = pgcalm_render::json::to_json_pretty(&report()).unwrap();
    assert_eq!(pgcalm_lab::document::read(&json).unwrap(), Document::Predict(Box::new(report())));
}
