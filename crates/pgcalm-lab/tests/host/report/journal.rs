//! The report of layouts in words, tables and HTML. SYNTHETIC: nothing here was ever measured.

use std::collections::BTreeMap;

use pgcalm_lab::document::Document;
use pgcalm_lab::interference::report::{DeviceRates, Hang, Layout, Phase, Report};
use pgcalm_lab::report::{Host, Latency, Shown};

use super::support;

fn phase(tps: f64, files: f64, zero: u32) -> Phase {
    Phase {
        tps_mean: tps,
        tps_min: 0.0,
        seconds_zero: zero,
        latency_ms: Latency { p50: 1.0, p99: 9.0, p999: 10.0, max: 4321.0 },
        connects_per_s: 30.0,
        connect_max_ms: 44.0,
        cold_connects_per_s: 8.0,
        cold_connect_max_ms: 5678.0,
        files_per_s: files,
        file_max_ms: 7.0,
        databases: 3,
        cap_lifted: zero > 0,
        devices: vec![DeviceRates {
            device: "data".into(),
            writes_per_s: 101.0,
            write_bytes_per_s: 2.5e6,
            reads_per_s: 3.0,
            read_bytes_per_s: 4e6,
        }],
        tps: vec![tps, 0.0],
    }
}

fn layout(name: &str, noisy: Phase) -> Layout {
    Layout {
        name: name.into(),
        description: "SYNTHETIC <example>".into(),
        mount_options: String::new(),
        alone: phase(500.0, 400.0, 0),
        noisy,
        hangs: vec![
            Hang {
                who: "victim".into(),
                process: "client backend".into(),
                call: Some("fsync".into()),
                file: Some("new WAL segment".into()),
                stack: vec!["jbd2_log_wait_commit".into(), "ext4_sync_file".into()],
                samples: 321,
            },
            Hang {
                who: "login".into(),
                process: "client backend".into(),
                call: Some("openat".into()),
                file: Some("relation cache file".into()),
                stack: vec!["add_transaction_credits".into()],
                samples: 12,
            },
        ],
    }
}

fn report() -> Report {
    Report {
        scenario: "journal".into(),
        host: Host { cap_mechanism: "cgroup-v1".into(), ..support::host() },
        settings: BTreeMap::from([("seconds".to_string(), 20.into())]),
        server_settings: BTreeMap::new(),
        layouts: vec![
            layout("gone", phase(0.0, 1.0, 20)),
            layout("stuck", phase(490.0, 2.0, 0)),
            layout("slow", phase(100.0, 390.0, 0)),
            layout("fine", phase(510.0, 380.0, 0)),
        ],
    }
}

#[test]
fn a_collapse_is_told_from_a_loss_and_from_none() {
    let text = report().text().replace('\n', " ");
    assert!(text.contains("gone collapses"), "{text}");
    assert!(text.contains("(to nothing)"), "{text}");
    assert!(text.contains("stuck holds up whoever needs the journal"), "{text}");
    assert!(text.contains("slow suffers"), "{text}");
    assert!(text.contains("fine holds"), "{text}");
    assert!(text.contains("client backend in fsync of a new WAL segment, jbd2_log_wait_commit"), "{text}");
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn the_devices_rates_stand_beside_the_hang() {
    let text = report().text();
    let table = text.lines().find(|line| line.starts_with("gone") && line.contains("noisy")).unwrap();
    assert_eq!(table.split_whitespace().collect::<Vec<_>>(), ["gone", "noisy", "data", "101", "2.50", "3", "4"]);
    assert!(text.replace('\n', " ").contains("devices with the neighbour: data 101 and 2.50 MB."), "{text}");
}

#[test]
fn a_login_with_a_cold_relcache_has_its_own_figure_and_place() {
    let text = report().text().replace('\n', " ");
    assert!(text.contains("cold relcache 5678 ms and 5678 ms"), "{text}");
    assert!(
        text.contains("Logins: client backend in openat of a relation cache file, add_transaction_credits"),
        "{text}"
    );
    let html = report().html();
    assert!(html.contains("longest, cold relcache ms"), "{html}");
}

#[test]
fn html_shows_every_layout_and_escapes_what_it_is_given() {
    let html = report().html();
    for name in ["gone", "stuck", "slow", "fine"] {
        assert!(html.contains(&format!("<h3>{name}</h3>")));
    }
    assert!(html.contains("SYNTHETIC &lt;example&gt;"));
    assert_eq!(html.matches("<svg").count(), 8);
    assert!(!html.contains("NaN"));
}

#[test]
fn a_document_reads_back_as_what_was_written() {
    let document = pgcalm_render::json::to_json_pretty(&report()).unwrap();
    assert_eq!(pgcalm_lab::document::read(&document).unwrap(), Document::Journal(Box::new(report())));
}
