//! `trace why` names a cause that was made on purpose. Needs root; says so and passes otherwise.
//!
//! No test asserts how long anything takes: only which cause has the largest share of the time that was lost, and that
//! the shares add up.

use crate::arena;

use std::thread;
use std::time::Duration;

use pgcalm_lab::cap::Caps;
use pgcalm_lab::options::FsType;
use pgcalm_testkit::of_kind;
use pgcalm_trace::report::file_kind::FileKind;
use pgcalm_trace::report::view::Shown;
use pgcalm_trace::why::report::{Cause, Line, Second, Share, Totals, Trigger, Verdict, by_cause};

use arena::{Arena, Setup, Trace};

/// Undisturbed seconds before something goes wrong: the running median needs three.
const CALM: usize = 5;
/// Seconds that it then goes on.
const STALL: usize = 7;

fn is_second(line: &Line) -> bool {
    matches!(line, Line::Second(_))
}

/// Waits for the calm seconds; returns the number of the next.
fn calm(trace: &Trace<Line>) -> u64 {
    trace.wait_for(CALM, is_second);
    CALM as u64
}

/// Waits for the seconds after the first `calm` ones and ends the trace.
fn stall(trace: Trace<Line>, calm: u64) -> Vec<Line> {
    trace.wait_for(calm as usize + STALL, is_second);
    trace.finish()
}

fn seconds(lines: &[Line]) -> Vec<&Second> {
    of_kind!(lines, Line::Second).collect()
}

fn verdicts(lines: &[Line]) -> Vec<&Verdict> {
    of_kind!(lines, Line::Verdict).collect()
}

/// The seconds with a verdict from second `first` on.
fn stalled(lines: &[Line], first: u64) -> Totals {
    let numbers: Vec<u64> =
        verdicts(lines).iter().map(|verdict| verdict.second).filter(|number| *number >= first).collect();
    let mut totals = Totals::default();
    for second in seconds(lines) {
        if numbers.contains(&second.number) {
            totals.add(second);
        }
    }
    assert!(totals.seconds > 0, "no verdict at all");
    totals
}

fn largest(totals: &Totals) -> &Share {
    let (cause, _) = by_cause(&totals.shares)[0];
    totals.shares.iter().find(|share| share.cause == cause).unwrap()
}

/// What must hold of every trace.
fn check_sums(lines: &[Line]) {
    for second in seconds(lines) {
        let sum: f64 = second.shares.iter().map(|share| share.seconds).sum();
        assert!((sum - second.lost_s).abs() < 1e-6, "{sum} is not {}", second.lost_s);
    }
    match lines.last() {
        Some(Line::End(end)) => assert_eq!((end.drops.events, end.drops.entries), (0, 0)),
        other => panic!("the last line is {other:?}"),
    }
}

/// Lines of a trace in which `disturb` holds up `load` after calm seconds, and the sum of those with a verdict; the trace ends first.
fn disturbed<G>(arena: &Arena, load: &str, disturb: impl FnOnce() -> G) -> (Vec<Line>, Totals) {
    let trace = arena.why();
    let _load = arena.pgbench(load);
    let first = calm(&trace);
    let disturbance = disturb();
    let lines = stall(trace, first);
    drop(disturbance);
    check_sums(&lines);
    let totals = stalled(&lines, first);
    (lines, totals)
}

const UPDATE: &str = "\\set aid random(1, 100000 * :scale)\n\
    update pgbench_accounts set abalance = abalance + 1 where aid = :aid;\n";

/// Tables whose files are fsynced at commit with wal_level = minimal.
const NEW_TABLES: &str = "begin;\n\
    create table t:client_id(n int);\n\
    insert into t:client_id select generate_series(1, 100);\n\
    commit;\n\
    drop table t:client_id;\n";

#[test]
fn a_row_that_another_transaction_has_locked() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup::default())) else { return };
    arena.sql("create table t(id int, n int); insert into t values (1, 0)");
    let load = "update t set n = n + 1 where id = 1;\n";
    let hold = || arena.psql("begin; update t set n = 0; select pg_sleep(20)");
    let (_, totals) = disturbed(&arena, load, hold);
    let share = largest(&totals);
    assert_eq!(share.cause, Cause::Lock);
    // The first waiter has the tuple's lock and waits for the transaction; others wait for the tuple's, or for the
    // transaction, too, if they came by an older version of the row (heapam_tuple_lock).
    let objects: Vec<&str> = totals
        .shares
        .iter()
        .filter(|share| share.cause == Cause::Lock)
        .filter_map(|share| share.object.as_deref())
        .collect();
    assert!(objects.contains(&"transactionid"), "{objects:?}");
    assert!(objects.iter().all(|object| ["transactionid", "tuple"].contains(object)), "{objects:?}");
}

#[test]
fn a_capped_wal_device() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup { scale: 1, ..Setup::default() })) else { return };
    let cap = || arena.cap(&arena.wal_device, Caps { write_iops: Some(20), ..Caps::default() });
    let (lines, totals) = disturbed(&arena, UPDATE, cap);
    let share = largest(&totals);
    assert_eq!(share.cause, Cause::BlockThrottling);
    assert_eq!(share.file, FileKind::Wal);
    assert!(
        totals
            .shares
            .iter()
            .any(|share| share.cause == Cause::BlockThrottling && share.through.as_deref() == Some("WALWrite"))
    );
    // The stack of who writes is the evidence.
    assert!(
        verdicts(&lines).iter().any(|verdict| {
            verdict.stacks.iter().any(|stack| stack.file == FileKind::Wal && !stack.frames.is_empty())
        })
    );
}

#[test]
fn a_capped_data_device() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup { scale: 4, ..Setup::default() })) else { return };
    let load = "\\set aid random(1, 100000 * :scale)\nselect abalance from pgbench_accounts where aid = :aid;\n";
    let (_, totals) = disturbed(&arena, load, || {
        let cap = arena.cap(&arena.data_device, Caps { read_iops: Some(20), ..Caps::default() });
        arena.forget_data();
        cap
    });
    let share = largest(&totals);
    assert_eq!(share.cause, Cause::BlockThrottling);
    assert_eq!(share.file, FileKind::Data);
}

/// All others go on, with fewer processors than they could use.
#[test]
#[ignore = "long; make test-trace-verdicts"]
fn a_long_call_while_the_others_go_on() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup { scale: 4, ..Setup::default() })) else { return };
    let trace = arena.why();
    let _load = arena.pgbench("select count(*) from generate_series(1, 3000);\n");
    let first = calm(&trace);
    let _cap = arena.cap(&arena.data_device, Caps { read_iops: Some(1), ..Caps::default() });
    arena.forget_data();
    let _scan = arena.psql("select sum(abalance) from pgbench_accounts");
    let lines = stall(trace, first);
    let of_calls: Vec<&Verdict> =
        verdicts(&lines).into_iter().filter(|verdict| verdict.triggers == [Trigger::LongSyscall]).collect();
    let causes: Vec<Option<Cause>> = of_calls.iter().map(|verdict| verdict.cause).collect();
    assert!(!causes.is_empty(), "no long call");
    let throttled = Some(Cause::BlockThrottling);
    assert!(causes.iter().all(|cause| *cause == throttled), "{causes:?}");
    // The largest share of such a second was another one.
    let seconds = seconds(&lines);
    assert!(of_calls.iter().any(|verdict| {
        let second = seconds.iter().find(|second| second.number == verdict.second);
        by_cause(&second.unwrap().shares)[0].0 == Cause::Cpu
    }));
}

#[test]
#[ignore = "long; make test-trace-verdicts"]
fn without_ebpf_samples_tell_of_wal() {
    let Some(arena) = arena::can_run().then(|| Arena::new(&Setup { scale: 1, ..Setup::default() })) else { return };
    let _load = arena.pgbench(UPDATE);
    let _cap = arena.cap(&arena.wal_device, Caps { write_iops: Some(20), ..Caps::default() });
    let trace = Trace::start(arena.target(), |target, stop, take| {
        let options = pgcalm_trace::why::Options {
            duration: None,
            threshold: Duration::from_millis(500),
            probes: true,
            wal_calls: false,
            connect: None,
        };
        pgcalm_trace::why::without_ebpf::run(target, &options, stop, "a test", &mut |line| {
            eprint!("{}", line.text());
            take(line);
            Ok(())
        })
    });
    let lines = stall(trace, 0);
    check_sums(&lines);
    let mut totals = Totals::default();
    for second in seconds(&lines) {
        totals.add(second);
    }
    assert_eq!(largest(&totals).cause, Cause::WalWrite);
}

#[test]
#[ignore = "long; make test-trace-verdicts"]
fn a_surge_of_full_page_images() {
    let setup = Setup { scale: 2, settings: &[("shared_buffers", "128MB")], ..Setup::default() };
    let Some(arena) = arena::can_run().then(|| Arena::new(&setup)) else { return };
    // Ten pages per transaction: images make its WAL more than ten times as large.
    let mut script = String::new();
    for number in 0..10 {
        script.push_str(&format!("\\set aid{number} random(1, 100000 * :scale)\n"));
    }
    script.push_str("begin;\n");
    for number in 0..10 {
        script.push_str(&format!("update pgbench_accounts set abalance = abalance + 1 where aid = :aid{number};\n"));
    }
    script.push_str("commit;\n");
    arena.sql("alter table pgbench_accounts set (fillfactor = 50)");
    arena.sql("vacuum full pgbench_accounts");
    let _cap = arena.cap(&arena.wal_device, Caps { write_bps: Some(8 << 20), ..Caps::default() });
    let _load = arena.pgbench(&script);
    // Until nearly all pages have had their image since the last checkpoint.
    thread::sleep(Duration::from_secs(40));
    let trace = arena.why();
    let first = calm(&trace);
    let _checkpoint = arena.psql("checkpoint");
    let lines = stall(trace, first);
    check_sums(&lines);
    let totals = stalled(&lines, first);
    assert_eq!(largest(&totals).cause, Cause::FullPageImages);
}

#[test]
#[ignore = "long; make test-trace-verdicts"]
fn a_journal_that_a_capped_neighbour_holds_up() {
    // With these settings a backend fsyncs a new table's file itself, at commit.
    let setup = Setup {
        // Blocks are allocated when written, as in ext3: the neighbour's data belong to the journal's transaction at once.
        mount_options: Some(c"nodelalloc"),
        settings: &[("wal_level", "minimal"), ("max_wal_senders", "0"), ("wal_skip_threshold", "0")],
        ..Setup::default()
    };
    let Some(arena) = arena::can_run().then(|| Arena::new(&setup)) else { return };
    let (_, totals) = disturbed(&arena, NEW_TABLES, || arena.neighbour(20));
    assert_eq!(largest(&totals).cause, Cause::Journal);
}

#[test]
#[ignore = "long; make test-trace-verdicts"]
fn dirty_page_throttling() {
    // Backends write their buffers themselves: few of them, and nobody else does.
    let setup =
        Setup { scale: 10, settings: &[("shared_buffers", "1MB"), ("bgwriter_lru_maxpages", "0")], ..Setup::default() };
    let Some(arena) = arena::can_run().then(|| Arena::new(&setup)) else { return };
    let (_, totals) = disturbed(&arena, UPDATE, || {
        (arena.limit_dirty_data(), arena.cap(&arena.data_device, Caps { write_iops: Some(20), ..Caps::default() }))
    });
    assert_eq!(largest(&totals).cause, Cause::DirtyThrottling);
}

#[test]
#[ignore = "long; make test-trace-verdicts"]
fn the_log_of_xfs_on_a_capped_device() {
    let setup = Setup {
        data: FsType::Xfs,
        settings: &[("wal_level", "minimal"), ("max_wal_senders", "0"), ("wal_skip_threshold", "0")],
        ..Setup::default()
    };
    let Some(arena) = arena::can_run().then(|| Arena::new(&setup)) else { return };
    let cap = || arena.cap(&arena.data_device, Caps { write_iops: Some(20), ..Caps::default() });
    let (_, totals) = disturbed(&arena, NEW_TABLES, cap);
    let log: f64 = totals.shares.iter().filter(|share| share.cause == Cause::XfsLog).map(|share| share.seconds).sum();
    assert!(log > 0.0, "{:?}", totals.shares);
}

/// A lightweight lock whose holder sleeps: a checkpoint fsyncs the file of each prepared transaction with TwoPhaseState
/// held (`CheckPointTwoPhase` of twophase.c), and every PREPARE TRANSACTION needs that lock alone.
#[test]
#[ignore = "long; make test-trace-verdicts"]
fn a_convoy_at_a_lightweight_lock() {
    let setup = Setup { settings: &[("max_prepared_transactions", "220")], ..Setup::default() };
    let Some(arena) = arena::can_run().then(|| Arena::new(&setup)) else { return };
    arena.sql("create table t(n int)");
    let held: String = (0..200)
        .map(|number| format!("begin; insert into t values (1); prepare transaction 'held {number}';\n"))
        .collect();
    assert!(arena.psql_file("held", &held).0.wait().unwrap().success());
    let trace = arena.why();
    let _load = arena.pgbench(
        "begin; insert into t values (1); prepare transaction 'client :client_id';\n\
         commit prepared 'client :client_id';\n",
    );
    let first = calm(&trace);
    let _cap = arena.cap(&arena.data_device, Caps { write_iops: Some(10), ..Caps::default() });
    let _checkpoint = arena.psql("checkpoint");
    // First the checkpoint writes and syncs its data files; at the lock everything stands still.
    let stands_still = |second: &Second| second.number >= first && second.commits == 0;
    trace.wait_for(4, |line| matches!(line, Line::Second(second) if stands_still(second)));
    let lines = trace.finish();
    check_sums(&lines);
    let mut totals = Totals::default();
    for second in seconds(&lines) {
        let has_verdict = verdicts(&lines).iter().any(|v| v.second == second.number);
        if stands_still(second) && has_verdict {
            totals.add(second);
        }
    }
    let share = largest(&totals);
    assert_eq!(share.cause, Cause::Lwlock, "{:?}", totals.shares);
    assert_eq!(share.object.as_deref(), Some("TwoPhaseState"));
    assert_eq!(share.through, None);
}
