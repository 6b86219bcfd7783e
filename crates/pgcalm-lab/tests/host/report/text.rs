//! The terminal rendering: its structure, and that no report breaks it.

use pgcalm_lab::contest::report::metric::DRAIN;
use pgcalm_lab::contest::report::{Backlog, BacklogAt, Cap, CapKind, ServerFailure, reading};
use pgcalm_lab::report::Shown;
use pgcalm_lab::tenants::report as tenants;
use serde_json::json;

use super::support;

const WIDTH: usize = 110;

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn every_contestant_has_a_row_of_all_figures() {
    let rendered = support::report(150, 1).text();
    for name in ["stock", "stock-tuned", "pg_calm", "stock-uncapped"] {
        let rows: Vec<usize> = rendered
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(name))
            .map(|row| row.split_whitespace().count())
            .collect();
        // Reads in MiB/s, flushes and the backlog are not in this report.
        assert_eq!(rows, [1 + 10, 1 + 3 + 1 + 4, 1 + 5], "{rendered}");
    }
    assert!(rendered.contains("data volume 800 write IOPS + 125 MiB/s"), "{rendered}");
    assert!(rendered.contains("WAL volume 4000 write IOPS"), "{rendered}");
    assert!(rendered.contains("writes capped by the root control group; data volume"), "{rendered}");
    assert!(rendered.contains("roomy sysctls"), "{rendered}");
    assert!(rendered.contains("Linux 6.18.5"), "{rendered}");
    assert!(!rendered.contains("median of the runs"), "{rendered}");
    assert!(widest(&rendered) <= WIDTH, "{rendered}");
}

#[test]
fn repeats_give_median_and_range() {
    let mut report = support::report(60, 3);
    for (run, tps) in report.contestants[0].runs.iter_mut().zip([1500.0, 900.0, 1100.0]) {
        run.tps_mean = tps;
    }
    let rendered = report.text();
    let row: Vec<&str> = rendered.lines().skip_while(|line| !line.starts_with("stock ")).take(2).collect();
    assert!(row[0].contains(" 1100 "), "{rendered}");
    assert_eq!(row[1].trim(), "[900..1500]", "{rendered}");
    assert!(rendered.contains("median of the runs"), "{rendered}");
    assert!(widest(&rendered) <= WIDTH, "{rendered}");
}

#[test]
fn stays_within_the_width() {
    let mut report = support::report(60, 2);
    for contestant in &mut report.contestants {
        contestant.name = format!("{}-with-a-name-that-nobody-should-give", contestant.name);
        for run in &mut contestant.runs {
            run.tps_mean = 1_234_567.0;
            run.tps_median = 98_765.4;
            run.tps_min = 98_765.4;
            run.tps_p5 = 98_765.4;
            run.latency_ms.as_mut().unwrap().max = 98_765.4;
            run.data_device.write_ops_per_s = 98_765.4;
            run.data_device.write_mib_per_s = 12_345.6;
        }
    }
    let rendered = report.text();
    assert!(widest(&rendered) <= WIDTH, "{rendered}");
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut report = support::report(10, 1);
    report.contestants[0].name = "\u{1b}[31mstock".to_string();
    report.scenario = "a\u{7}b".to_string();
    let rendered = report.text();
    assert!(!rendered.chars().any(|c| c.is_control() && c != '\n'), "{rendered:?}");
}

#[test]
fn readings_are_facts_against_each_rival() {
    let mut report = support::report(60, 1);
    let figures =
        [(1148.0, 44, 0.0, 780.0), (1200.0, 0, 100.0, 780.0), (3559.0, 0, 3500.0, 234.0), (3670.0, 0, 3600.0, 2000.0)];
    for (contestant, (mean, zero, min, ops)) in report.contestants.iter_mut().zip(figures) {
        let run = &mut contestant.runs[0];
        (run.tps_mean, run.seconds_zero, run.tps_min, run.data_device.write_ops_per_s) = (mean, zero, min, ops);
    }
    assert_eq!(
        reading::lines(&report),
        [
            "pg_calm: 3.1x stock's mean TPS, 0 seconds at zero against 44, 0.30x the device write operations",
            "pg_calm: 3.0x stock-tuned's mean TPS, worst second 3500 TPS against 100, 0.30x the device write operations",
            "pg_calm: 97.0 % of the uncapped mean TPS",
        ]
    );
    // The order in which contestants were named does not matter.
    report.contestants.swap(0, 1);
    assert!(reading::lines(&report)[0].contains(" stock's "));
}

#[test]
fn readings_without_pg_calm_stock_or_rivals() {
    let full = support::report(60, 1);
    let with = |names: &[&str]| {
        let mut report = full.clone();
        report.contestants.retain(|contestant| names.contains(&contestant.name.as_str()));
        reading::lines(&report)
    };
    assert!(with(&["stock", "stock-tuned"])[0].starts_with("stock-tuned: "));
    assert!(with(&["stock-tuned", "pg_calm"])[0].contains("stock-tuned's mean TPS"));
    for name in ["stock", "pg_calm", "stock-uncapped"] {
        let lines = with(&[name]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("{name}: ")) && lines[0].contains("TPS mean"), "{lines:?}");
    }
    let lines = with(&["pg_calm", "stock-uncapped"]);
    assert!(lines[1].contains("% of the uncapped"), "{lines:?}");
    assert_eq!(with(&[]), ["No run was completed."]);
}

#[test]
fn a_server_that_gave_up_is_told_with_its_words() {
    let mut report = support::report(60, 2);
    for (run, at_s) in report.contestants[0].runs.iter_mut().zip([48.5, 31.25]) {
        run.server_failure = Some(ServerFailure {
            up_again_s: None,
            at_s,
            message: "could not write to file \"pg_wal/xlogtemp.44\": No space left on device".into(),
        });
    }
    let told: Vec<String> = reading::lines(&report).into_iter().filter(|line| line.contains("gave up")).collect();
    assert_eq!(
        told,
        ["stock: the server gave up after 31.2 s: could not write to file \"pg_wal/xlogtemp.44\": No space left on \
             device"]
    );
    assert!(widest(&report.text()) <= WIDTH);
}

#[test]
fn cpu_time_that_the_hypervisor_withheld_is_told() {
    let mut report = support::report(60, 2);
    let told = |report: &_| -> Vec<String> {
        reading::lines(report).into_iter().filter(|line| line.contains("hypervisor")).collect()
    };
    assert_eq!(told(&report), [""; 0]);
    report.contestants[0].runs[0].series.cpu_steal_percent[7] = 5.0;
    assert_eq!(told(&report), [""; 0]);
    report.contestants[0].runs[0].series.cpu_steal_percent[8] = 5.1;
    report.contestants[0].runs[1].series.cpu_steal_percent[3] = 31.24;
    assert_eq!(
        told(&report),
        ["stock: the hypervisor withheld more than 5 % of the CPU time in 2 of 120 seconds, 31.2 % at most"]
    );
    assert!(widest(&report.text()) <= WIDTH);
    // As a report of a version that did not record it is read.
    for run in &mut report.contestants[0].runs {
        run.series.cpu_steal_percent.clear();
    }
    assert_eq!(told(&report), [""; 0]);
}

#[test]
fn what_the_machine_held_up_of_a_volume_is_told() {
    let mut report = support::report(60, 2);
    let told = |report: &_| -> Vec<String> {
        reading::lines(report).into_iter().filter(|line| line.contains("held up")).collect()
    };
    report.contestants[0].runs[1].volume_held_up_s = Some(0.0);
    assert_eq!(told(&report), [""; 0]);
    report.contestants[0].runs[1].volume_held_up_s = Some(0.173);
    assert_eq!(told(&report), ["stock: the machine held up the volume for 0.17 s at most in a run"]);
    report.contestants[0].held_up_runs = 2;
    assert_eq!(
        told(&report),
        ["stock: the machine held up the volume for 0.17 s at most in a run; 2 runs made again for that"]
    );
}

#[test]
fn a_volume_that_was_slower_than_it_was_to_be_is_told() {
    let mut report = support::report(60, 2);
    let told = |report: &_| -> Vec<String> {
        reading::lines(report).into_iter().filter(|line| line.contains("were late")).collect()
    };
    report.contestants[0].runs[0].volume_late_share = Some(0.01);
    assert_eq!(told(&report), [""; 0]);
    report.contestants[0].runs[1].volume_late_share = Some(0.0424);
    assert_eq!(told(&report), ["stock: 4.24 % of the volume's answers in a run were late by more than 0.2 ms"]);
    assert!(widest(&report.text()) <= WIDTH);
}

#[test]
fn a_longest_transaction_that_was_cut_short_is_told() {
    let mut report = support::report(60, 2);
    let told = |report: &_| -> Vec<String> {
        reading::lines(report).into_iter().filter(|line| line.contains("at least")).collect()
    };
    assert_eq!(told(&report), [""; 0]);
    let run = &mut report.contestants[0].runs[1];
    run.caps_lifted = true;
    run.latency_ms.as_mut().unwrap().max = 61_000.0;
    assert_eq!(
        told(&report),
        ["stock: the caps were lifted for clients that were late: the longest transaction is at least 61000 ms"]
    );
    let total = report.contestants[0].runs[1].clone();
    let all = tenants::Report {
        scenario: "tenants".into(),
        host: report.host.clone(),
        settings: report.settings.clone(),
        contestants: vec![tenants::Contestant {
            name: "stock".into(),
            description: String::new(),
            server_settings: report.contestants[0].server_settings.clone(),
            total,
            instances: Vec::new(),
            stall: None,
        }],
    };
    let text = all.text().replace('\n', " ");
    assert!(text.contains("stock: the caps were lifted for clients that were late"), "{text}");
}

#[test]
fn conditions_that_are_not_the_rule_are_told() {
    let mut report = support::report(60, 1);
    let usual = report.text();
    assert!(!usual.contains("in memory"), "{usual}");
    for (option, value) in [
        ("devices", json!("memory")),
        ("set", json!(["wal_compression=lz4", "work_mem=8MB"])),
        ("set-contestant", json!(["pg_calm:pg_calm.bridge=off"])),
    ] {
        report.settings.insert(option.to_string(), value);
    }
    let rendered = report.text();
    for phrase in ["both in memory", "wal_compression=lz4, work_mem=8MB", "pg_calm:pg_calm.bridge=off"] {
        assert!(rendered.contains(phrase), "{phrase}: {rendered}");
    }
    assert!(widest(&rendered) <= WIDTH, "{rendered}");
}

fn backlog(steady_state: bool, drain_s: Option<f64>) -> Backlog {
    Backlog {
        steady_state,
        minute_before_end: BacklogAt { dirty_shared_buffers_mib: Some(150.0), dirty_kernel_mib: 100.0 },
        end: BacklogAt { dirty_shared_buffers_mib: Some(180.0), dirty_kernel_mib: 32.0 },
        last_minute_s: 60.0,
        written_last_minute_mib: 2400.0,
        drain_s,
        drain_bound_s: Some(60.0),
        left_after_drain_mib: Some(12.0),
        shared_buffers_unknown: None,
    }
}

#[test]
fn what_was_put_off_is_told_first_of_those_that_were_not_steady() {
    let mut report = support::report(60, 2);
    report.contestants[0].runs[0].backlog = Some(backlog(true, Some(14.0)));
    report.contestants[0].runs[1].backlog = Some(backlog(true, Some(9.0)));
    report.contestants[1].runs[0].backlog = Some(backlog(true, Some(9.0)));
    let busy_host = report.contestants[1].runs[0].backlog.as_mut().unwrap();
    busy_host.left_after_drain_mib = Some(163.2);
    report.contestants[2].runs[0].backlog = Some(backlog(true, Some(9.0)));
    report.contestants[2].runs[1].backlog = Some(backlog(false, None));
    report.contestants[3].runs[0].backlog = Some(backlog(true, None));
    let unknown = report.contestants[3].runs[0].backlog.as_mut().unwrap();
    unknown.end.dirty_shared_buffers_mib = None;
    unknown.drain_bound_s = None;
    let told: Vec<String> =
        reading::lines(&report).into_iter().filter(|line| line.contains("dirty at the end")).collect();
    assert_eq!(
        told,
        [
            "pg_calm: not steady: 250 MiB were dirty 60 s before the end, and 2400 MiB written since; 212 MiB dirty at the \
             end, not drained in 60 s",
            "stock: steady; 212 MiB dirty at the end, drained in 14 s",
            "stock-tuned: steady; 212 MiB dirty at the end, drained in 9 s, but for 163 MiB of the host",
            "stock-uncapped: steady; 32 MiB dirty at the end beside shared buffers, which are not known",
        ]
    );
    let rendered = report.text();
    assert!(rendered.contains("dirty"), "{rendered}");
    assert!(widest(&rendered) <= WIDTH, "{rendered}");
}

#[test]
fn a_run_that_was_not_drained_counts_with_the_time_waited() {
    let mut report = support::report(60, 3);
    for (run, drained) in report.contestants[0].runs.iter_mut().zip([None, Some(5.0), None]) {
        run.backlog = Some(backlog(true, drained));
    }
    assert_eq!(DRAIN.median_of(&report.contestants[0]), Some(60.0));
}

#[test]
fn one_volume_like_a_clouds_is_told_as_such() {
    let mut report = support::report(60, 1);
    report.cap = Cap {
        kind: CapKind::CloudVolume,
        description: "one emulated gp3: reads and writes share 3000 operations of 256 KiB".into(),
        memory: Some("server and page cache within 8 GiB".into()),
    };
    for run in report.contestants.iter_mut().flat_map(|c| &mut c.runs) {
        run.wal_device = None;
        run.data_device.read_mib_per_s = 8.5;
        run.data_device.read_ops_per_s = 1042.0;
        run.data_device.flush_ops_per_s = Some(1092.0);
        run.backlog = Some(backlog(true, Some(14.0)));
    }
    let rendered = report.text();
    for phrase in ["one emulated gp3", "within 8 GiB", "flush/s", "read"] {
        assert!(rendered.contains(phrase), "{phrase}: {rendered}");
    }
    for phrase in ["WAL volume", "WAL wr/s", "caps by"] {
        assert!(!rendered.contains(phrase), "{phrase}: {rendered}");
    }
    assert!(widest(&rendered) <= WIDTH, "{rendered}");
}
