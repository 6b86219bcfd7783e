//! `trace io` and `trace connect` count exactly what the server says that it did. Need root; say so and pass otherwise.

use crate::arena;

use std::time::Duration;

use pgcalm_lab::cap::Caps;
use pgcalm_testkit::of_kind;
use pgcalm_trace::connect::report as connect;
use pgcalm_trace::connect::report::{PHASES, PhaseName};
use pgcalm_trace::io::report as io;
use pgcalm_trace::io::report::Operation;
use pgcalm_trace::report::file_kind::FileKind;
use pgcalm_trace::report::view::Shown;
use pgcalm_trace::why::report::Cause;

use arena::{Arena, Setup, Trace};

#[test]
fn the_checkpointers_writes_are_the_buffers_that_the_server_reports() {
    let setup = Setup {
        // Nobody else writes buffers, and all of them fit.
        settings: &[("shared_buffers", "64MB"), ("bgwriter_lru_maxpages", "0")],
        ..Setup::default()
    };
    let Some(arena) = arena::can_run().then(|| Arena::new(&setup)) else { return };
    arena.sql("create table t(a int)");
    arena.sql("checkpoint");
    let written = || -> u64 { arena.sql("select buffers_checkpoint from pg_stat_bgwriter").trim().parse().unwrap() };
    let before = written();
    let trace = Trace::start(arena.target(), |target, stop, take| {
        let options = pgcalm_trace::io::Options { duration: None, interval: Some(Duration::from_secs(1)) };
        pgcalm_trace::io::run(target, &options, stop, &mut |line| {
            take(line);
            Ok(())
        })
    });
    trace.wait_for(1, |line| matches!(line, io::Line::Start(_)));
    arena.sql("insert into t select generate_series(1, 100000)");
    arena.sql("checkpoint");
    let buffers = written() - before;
    let lines = trace.finish();
    assert!(buffers > 100, "{buffers}");

    let total = of_kind!(lines, io::Line::Total).next().unwrap();
    let calls = |interval: &io::Interval| -> (u64, u64) {
        interval
            .processes
            .iter()
            .filter(|process| process.role == "checkpointer")
            .flat_map(|process| &process.operations)
            .filter(|calls| calls.operation == Operation::Write && calls.file == FileKind::Data)
            .map(|calls| (calls.calls, calls.bytes))
            .fold((0, 0), |sum, calls| (sum.0 + calls.0, sum.1 + calls.1))
    };
    // buffers_checkpoint counts SLRU pages, too, which are files of their own here.
    let slru: u64 = total
        .processes
        .iter()
        .filter(|process| process.role == "checkpointer")
        .flat_map(|process| &process.operations)
        .filter(|calls| calls.operation == Operation::Write && calls.file == FileKind::Slru)
        .map(|calls| calls.calls)
        .sum();
    let (writes, bytes) = calls(total);
    assert_eq!(bytes, writes * 8192);
    assert!(
        writes == buffers || writes + slru == buffers,
        "{writes} writes and {slru} of SLRU pages for {buffers} buffers"
    );
    // Flush hints are told from fsync: both on data files.
    let on_data = |operation: Operation| -> u64 {
        total
            .processes
            .iter()
            .filter(|process| process.role == "checkpointer")
            .flat_map(|process| &process.operations)
            .filter(|calls| calls.operation == operation && calls.file == FileKind::Data)
            .map(|calls| calls.calls)
            .sum()
    };
    let (hints, syncs) = (on_data(Operation::SyncRange), on_data(Operation::Sync));
    assert!(hints > 0 && syncs > 0, "{hints} hints, {syncs} fsyncs");
    // The intervals add up to the total.
    let sum: u64 = of_kind!(lines, io::Line::Interval).map(|interval| calls(interval).0).sum();
    assert_eq!(sum, writes);
    // The backend wrote no data file, and WAL somebody did.
    assert!(total.processes.iter().any(|process| {
        process.operations.iter().any(|calls| calls.operation == Operation::Write && calls.file == FileKind::Wal)
    }));
}

fn connect(arena: &Arena, threshold: Duration) -> Trace<connect::Line> {
    let trace = Trace::start(arena.target(), move |target, stop, take| {
        let options = pgcalm_trace::connect::Options { duration: None, count: None, threshold };
        pgcalm_trace::connect::run(target, &options, stop, &mut |line| {
            eprint!("{}", line.text());
            take(line);
            Ok(())
        })
    });
    trace.wait_for(1, |line| matches!(line, connect::Line::Start(_)));
    trace
}

/// The file of the relation cache of psql's database, once whatever the server has to write at first is there.
fn relation_cache(arena: &Arena) -> String {
    arena.sql("select 1");
    let database = arena.sql("select oid from pg_database where datname = 'postgres'");
    format!("{}/base/{}/pg_internal.init", arena.sql("show data_directory").trim(), database.trim())
}

#[test]
fn each_connection_is_seen_once_with_its_phases_adding_up() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup::default())) else { return };
    let trace = connect(&arena, Duration::from_secs(600));
    for _ in 0..3 {
        arena.sql("select 1");
    }
    let mut refused = arena.server.client("psql");
    refused.args(["-d", "no such database", "-c", "select 1"]);
    assert!(!refused.output().unwrap().status.success());
    trace.wait_for(4, |line| matches!(line, connect::Line::Connection(_)));
    let lines = trace.finish();

    let connections: Vec<&connect::Connection> = of_kind!(lines, connect::Line::Connection).collect();
    let ready: Vec<_> = connections.iter().filter(|c| c.ready).collect();
    assert_eq!((ready.len(), connections.len()), (3, 4));
    for connection in ready {
        let names: Vec<_> = connection.phases.iter().map(|phase| phase.phase).collect();
        assert_eq!(names, PHASES);
        let sum: f64 = connection.phases.iter().map(|phase| phase.ms).sum();
        assert!((sum - connection.total_ms).abs() < 1e-6);
        for phase in &connection.phases {
            let parts = phase.on_cpu_ms + phase.client_ms + phase.lost_ms;
            // Charges and phases are cut by two readings of the clock.
            assert!((parts - phase.ms).abs() < 0.1, "{phase:?}");
            let lost: f64 = phase.shares.iter().map(|share| share.seconds * 1e3).sum();
            assert!((lost - phase.lost_ms).abs() < 1e-6);
        }
        // The relation cache comes from catalogs and from pg_internal.init.
        for file in [FileKind::Data, FileKind::RelationCache] {
            assert!(
                connection.phases[2]
                    .calls
                    .iter()
                    .any(|calls| { calls.operation == Operation::Read && calls.file == file && calls.calls > 0 })
            );
        }
    }
    match lines.last() {
        Some(connect::Line::End(end)) => assert_eq!((end.drops.events, end.drops.entries), (0, 0)),
        other => panic!("the last line is {other:?}"),
    }
}

#[test]
fn a_connection_that_has_to_write_the_relation_cache_shows_its_file() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup::default())) else { return };
    let file = relation_cache(&arena);
    let trace = connect(&arena, Duration::from_secs(600));
    arena.sql("select 1");
    trace.wait_for(1, |line| matches!(line, connect::Line::Connection(_)));
    std::fs::remove_file(&file).unwrap();
    arena.sql("select 1");
    trace.wait_for(2, |line| matches!(line, connect::Line::Connection(_)));
    assert!(std::path::Path::new(&file).exists());
    let lines = trace.finish();

    // Calls on it that succeeded, by operation, of each connection in the phase in which it reads the catalogs.
    let succeeded: Vec<_> = of_kind!(lines, connect::Line::Connection)
        .map(|connection| &connection.phases[2])
        .map(|phase| {
            [Operation::Write, Operation::Name].map(|operation| -> u64 {
                phase
                    .calls
                    .iter()
                    .filter(|calls| calls.operation == operation)
                    .filter(|calls| calls.file == FileKind::RelationCache)
                    .map(|calls| calls.calls - calls.errors)
                    .sum()
            })
        })
        .collect();
    assert_eq!(succeeded[0], [0, 0]);
    let [written, renamed] = succeeded[1];
    assert!(written > 0);
    // Its own and the one in global; what is there of an earlier attempt would be removed before.
    assert_eq!(renamed, 2);
}

/// What the study of logins saw: a neighbour's dirty pages fill the file system's room, which a capped device empties slowly, and a
/// login waits where it writes the relation cache.
#[test]
fn a_login_that_hangs_is_named_while_it_hangs_with_the_file_that_it_writes() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup::default())) else { return };
    let file = relation_cache(&arena);
    // Longer than a login takes to get there on a busy machine, shorter than the hang, which lasts until the limits are lifted.
    let trace = connect(&arena, Duration::from_secs(3));
    let cap = arena.cap(&arena.data_device, Caps { write_iops: Some(1), ..Caps::default() });
    std::fs::write(arena.data.path().join("neighbour"), vec![1; 128 << 20]).unwrap();
    let limits = arena.limit_dirty_data();
    std::fs::remove_file(&file).unwrap();
    let mut login = arena.psql("select 1");
    trace.wait_for(1, |line| matches!(line, connect::Line::Hanging(_)));
    assert!(!std::path::Path::new(&file).exists());
    drop((cap, limits));
    trace.wait_for(1, |line| matches!(line, connect::Line::Connection(_)));
    assert!(login.0.wait().unwrap().success());
    let lines = trace.finish();

    let hanging = of_kind!(lines, connect::Line::Hanging).next().unwrap();
    assert_eq!((hanging.phase, hanging.file), (PhaseName::Database, FileKind::RelationCache));
    assert_eq!(hanging.syscall.as_deref(), Some("write"));
    assert!(hanging.frames.iter().any(|frame| frame.contains("balance_dirty_pages")), "{hanging:?}");
    let connection =
        of_kind!(lines, connect::Line::Connection).find(|connection| connection.pid == hanging.pid).unwrap();
    assert!(connection.ready);
    let most = &connection.phases[2].shares[0];
    assert_eq!((most.cause, most.file), (Cause::DirtyThrottling, FileKind::RelationCache));
}
