//! What `pgcalm trace` reads from processes now and then, instead of by a probe at each event. Needs root, eBPF and
//! PostgreSQL with USDT probes; says so and passes otherwise.

use crate::trace_server;

use std::fs;
use std::process::Stdio;

use pgcalm_testkit::{of_kind, wait_for};
use pgcalm_trace::locks::report as locks;
use pgcalm_trace::why::report as why;
use rustix::process::Signal;

use trace_server::{Trace, can_run, launch};

/// The whole lines of a trace under way.
fn seconds(trace: &Trace) -> Vec<why::Second> {
    let text = fs::read_to_string(&trace.json).unwrap();
    text.lines()
        .filter_map(|line| match serde_json::from_str(line) {
            Ok(why::Line::Second(second)) => Some(second),
            _ => None,
        })
        .collect()
}

/// WAL is what each process counts of its own; this one has ended before most samples could see it.
#[test]
fn wal_of_short_connections_is_counted_once() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    server.sql("CREATE TABLE rows (n int)");
    let trace = Trace::start(&server, "why", &[]);
    // A record for each row, and few others.
    let rows = 1000;
    let connections = 20;
    for _ in 0..connections {
        server.sql(&format!("INSERT INTO rows SELECT generate_series(1, {rows})"));
    }
    let records = |trace: &Trace| -> u64 {
        let seconds = seconds(trace);
        seconds.iter().map(|second| second.wal.records).sum()
    };
    let all = rows * connections;
    wait_for("the WAL", || records(&trace) >= all);
    trace.signal(Signal::INT);
    let lines = trace.lines::<why::Line>();
    let Some(why::Line::End(end)) = lines.last() else { panic!("{lines:?}") };
    assert_eq!((end.drops.events, end.drops.entries), (0, 0));
    let sum = |value: fn(&why::Second) -> u64| -> u64 { of_kind!(lines, why::Line::Second).map(value).sum() };
    let counted = sum(|second| second.wal.records);
    assert!((all..all + all / 10).contains(&counted), "{counted}");
    assert!(sum(|second| second.wal.bytes) > all * 24);
    // One for each INSERT; each connection starts with one that reads the catalogs.
    assert_eq!(sum(|second| second.commits), 2 * connections);
}

#[test]
fn acquisitions_are_estimated_from_slices() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    server.sql("CREATE TABLE rows (n int)");
    let trace = Trace::start(&server, "locks", &["--acquisitions"]);
    // Long enough for it to be drawn.
    let load = "DO $$ BEGIN FOR i IN 1..2147483647 LOOP INSERT INTO rows VALUES (i); \
        IF clock_timestamp() > transaction_timestamp() + interval '8 s' THEN EXIT; END IF; END LOOP; END $$";
    let status = server.psql(load).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    trace.signal(Signal::INT);
    let lines = trace.lines::<locks::Line>();
    let Some(locks::Line::Start(start)) = lines.first() else { panic!("{lines:?}") };
    assert!(start.options.iter().any(|option| option.contains("estimated")), "{:?}", start.options);
    let total = of_kind!(lines, locks::Line::Total).next().unwrap();
    // How near an estimate from a few slices comes depends on what else the machine does: only that there is one.
    let acquired: u64 = total.locks.iter().filter_map(|lock| lock.acquisitions).sum();
    assert!(acquired > 0, "{:?}", total.locks);
}
