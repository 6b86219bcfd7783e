//! The report of a standby in words, tables and HTML. SYNTHETIC: nothing here was ever measured.

use std::collections::BTreeMap;

use pgcalm_lab::document::Document;
use pgcalm_lab::replica::report::{Case, Guard, Heartbeat, Lag, Link, ReceiverError, Report, Sample, Silence};
use pgcalm_lab::report::{Host, Shown};

use super::support;

const MIB: u64 = 1 << 20;

fn sample(time_s: f64, under_load: bool, lag_mib: Option<u64>, place: &str) -> Sample {
    let lag = Lag { bytes: lag_mib.map(|mib| mib * MIB), s: lag_mib.map(|_| 2.5) };
    Sample {
        time_s,
        under_load,
        wal_bytes_per_s: Some(50.0 * MIB as f64),
        unflushed_bytes: Some(MIB),
        sent: lag,
        write: lag,
        flush: lag,
        replay: lag,
        link_bytes_per_s: Some(9e6),
        receiver: "streaming".into(),
        bottleneck: Some(place.into()),
        ..Sample::default()
    }
}

fn case(name: &str) -> Case {
    Case {
        name: name.into(),
        description: "SYNTHETIC <example>".into(),
        link_limited: true,
        primary_settings: BTreeMap::from([("max_wal_size".into(), "64MB".into())]),
        standby_settings: BTreeMap::new(),
        load_s: 2.0,
        cut_short: None,
        wal_bytes: 100 * MIB,
        received_bytes: 20 * MIB,
        catch_up_s: Some(7.25),
        watched_s: 7.25,
        receiver_error: None,
        segments_restored: 0,
        caps_lifted_s: None,
        level_s: None,
        heartbeat: None,
        guard: None,
        samples: vec![
            sample(0.0, true, Some(0), "unknown"),
            sample(1.0, true, Some(40), "network"),
            sample(2.1, true, Some(80), "network"),
            // A gap, then two in one second.
            sample(4.0, false, None, "disconnected"),
            sample(4.2, false, Some(0), "idle"),
        ],
    }
}

fn silence(longest_s: f64, failover_s: Option<f64>) -> Silence {
    Silence { longest_s, ended_s: 50.0, failover_s, behind_bytes: failover_s.map(|_| 70 * MIB) }
}

fn report() -> Report {
    let removed = Case {
        catch_up_s: None,
        cut_short: Some("the WAL device was nearly full".into()),
        receiver_error: Some(ReceiverError {
            time_s: 1.5,
            message: "requested WAL segment 1 has already been removed".into(),
            count: 3,
        }),
        ..case("recycled")
    };
    let governed = Case {
        guard: Some(Guard {
            limit_bytes: 64 * MIB,
            reached_s: Some(1.0),
            samples: 10,
            samples_held: 10,
            lag_min_bytes: Some(60 * MIB),
            lag_mean_bytes: Some(62.0 * MIB as f64),
            lag_max_bytes: Some(66 * MIB),
            received_bytes_per_s: Some(9.2e6),
            link_bytes_per_s: Some(9.6e6),
        }),
        ..case("governed")
    };
    let uncapped = Case {
        link_limited: false,
        caps_lifted_s: Some(20.0),
        level_s: Some(6.5),
        heartbeat: Some(Heartbeat {
            patience_s: 30.0,
            written: 39,
            primary: silence(2.5, None),
            standby: silence(40.0, Some(33.0)),
            age: silence(45.0, Some(31.0)),
            sender_timeouts: 2,
            receiver_timeouts: 0,
        }),
        ..case("uncapped")
    };
    let governed_capped = Case {
        link_limited: false,
        caps_lifted_s: Some(20.0),
        ..Case { name: "governed-capped".into(), ..governed.clone() }
    };
    Report {
        scenario: "replica".into(),
        host: Host { cap_mechanism: "cgroup-v1-root".into(), ..support::host() },
        settings: BTreeMap::from([("seconds".to_string(), 2.into())]),
        link: Link { bytes_per_s: 1e7, generation_bytes_per_s: Some(2e7) },
        cases: vec![case("slow-link"), removed, governed, uncapped, governed_capped],
    }
}

fn words(report: &Report) -> String {
    report.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_became_of_the_standby_is_said_in_words() {
    let text = words(&report());
    for part in [
        "Link: 80 Mbit/s, of which the load would fill 160 Mbit/s",
        "slow-link: caught up 7.25 s after the load, at most 80 MiB behind, under load held up by the network in 100 % of \
         the samples.",
        "recycled: had not caught up 7.25 s after the load",
        "The receiver failed 3 times, first after 1.50 s: requested WAL segment 1 has already been removed.",
        "The load was ended after 2 s: the WAL device was nearly full.",
        "Lag held within 20 % of the guard's limit of 64 MiB: from 1 s on 10 of 10 samples are, mean 62 MiB, 60 to 66 MiB; \
         92.0 % of the link's rate arrived as WAL, of at most 95.6 %.",
        "The caps were lifted after 20 s: level with the load 6.50 s later.",
        "A failover manager with 30 s of patience: no beat written on the primary 2.50 s at most; no new beat on the standby \
         40 s at most, failover at 33 s with the standby 70 MiB behind; age of the standby's beat 45 s at most, failover at \
         31 s with the standby 70 MiB behind. wal_sender_timeout ended 2 connections, wal_receiver_timeout 0.",
        "not level again while the load was at work",
        "60 to 66 MiB; 8.77 MiB of WAL per second arrived.",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let mut report = report();
    let guard = report.cases[2].guard.as_mut().unwrap();
    guard.samples_held = 9;
    assert!(words(&report).contains("Lag not held within 20 %"));
    let guard = report.cases[2].guard.as_mut().unwrap();
    guard.reached_s = None;
    assert!(words(&report).contains("never came near the guard's limit of 64 MiB"));
}

#[test]
fn the_table_has_a_row_for_each_case() {
    let text = report().text();
    // What is too wide for one table goes on in another.
    let figures = |name: &str| -> Vec<&str> {
        let rows = text.lines().filter(|line| line.split_whitespace().next() == Some(name));
        rows.flat_map(|row| row.split_whitespace().skip(1)).collect()
    };
    let expected = ["50", "10", "90", "80", "80", "80", "80", "2.50", "–", "–", "–", "–", "–", "7.25"];
    assert_eq!(figures("slow-link"), expected, "{text}");
    assert_eq!(figures("recycled").last(), Some(&"–"));
}

#[test]
fn a_document_without_heartbeats_is_read() {
    let mut document = serde_json::to_value(report()).unwrap();
    for case in document["cases"].as_array_mut().unwrap() {
        let case = case.as_object_mut().unwrap();
        for field in ["heartbeat", "caps_lifted_s", "level_s"] {
            case.remove(field).unwrap();
        }
    }
    let Document::Replica(report) = pgcalm_lab::document::read(&document.to_string()).unwrap() else {
        panic!("not a report of a standby");
    };
    assert_eq!(report.cases[3].heartbeat, None);
}

#[test]
fn a_document_reads_back_as_it_was() {
    let report = report();
    let document = pgcalm_render::json::to_json_pretty(&report).unwrap();
    assert_eq!(pgcalm_lab::document::read(&document).unwrap(), Document::Replica(Box::new(report)));
}

#[test]
fn html_draws_each_lag_and_escapes_what_it_is_given() {
    let html = report().html();
    for title in [
        "Lag as the guard sees it, MiB",
        "Sent lag, MiB",
        "Write lag, s",
        "Flush lag, MiB",
        "Replay lag, s",
        "Written to disk by the walwriter, MiB/s",
    ] {
        assert!(html.contains(title), "{title}");
    }
    assert!(html.contains("SYNTHETIC &lt;example&gt;"));
    assert!(!html.contains("<script"));
    // The guard's limit and the link's rate, dashed.
    assert_eq!(html.matches("class=\"limit\" d=").count(), 2);
}

#[test]
fn times_from_elsewhere_do_not_make_it_allocate_without_bounds() {
    let mut report = report();
    report.cases[0].samples[4].time_s = 1e18;
    assert!(report.html().len() < 1 << 20);
}
