//! Overload of a small WAL volume, for real: stock gives up, and a server with the guard does not. Needs root; says so and
//! passes otherwise.

use crate::lab_run;

use std::fs;
use std::path::Path;
use std::process::Command;

use pgcalm_lab::document;
use pgcalm_lab::document::Document;
use pgcalm_lab::guard::report::{Report, holds};
use pgcalm_testkit::programs::bindir;
use pgcalm_testkit::{module_directory, need};

use lab_run::{Dir, Running, lab, leftovers, words};

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    let needs = [need::ROOT, need::SERVER, need::MODULE, need::ROOT_GROUP_CAPS];
    need::met("overload with the guard and without", &needs)
}

/// Its exit code, what it said last, and its report.
fn guard(dir: &Path, options: &[&str]) -> (Option<i32>, String, Report) {
    let json = dir.join("report.json");
    let mut command = lab(&["run", "guard", "--quick"], dir);
    command
        .arg("--pg-bindir")
        .arg(bindir().unwrap())
        .arg("--module-dir")
        .arg(module_directory())
        .args(options)
        .arg("--json")
        .arg(&json);
    let (status, last) = Running::start(command).end();
    assert_eq!(leftovers(dir), Vec::<String>::new());
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {last}"));
    match document::read(&text) {
        Ok(Document::Guard(report)) => (status.code(), last, *report),
        other => panic!("not a report of overload: {other:?}"),
    }
}

#[test]
fn stock_fills_the_wal_volume_and_a_governed_server_does_not() {
    let Some(dir) = can_run().then(|| Dir::with_tables("guard")) else { return };
    // The table's pages are more than the WAL volume holds: logged whole once after a checkpoint's start, they fill it, unless that
    // checkpoint ends. At 100 operations per second it does not.
    let (code, last, report) = guard(
        &dir.0,
        &words(
            "--rows=3000000 --shared-buffers=32MB --data-iops=100 --wal-size=256MB \
         --max-wal-size=64MB --seconds=40",
        ),
    );
    assert_eq!(code, Some(0), "{last}");
    let names: Vec<&str> = report.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["stock", "governed"]);
    let (stock, governed) = (&report.cases[0].run, &report.cases[1].run);
    let failure = stock.server_failure.as_ref().unwrap();
    assert!(failure.message.contains("No space left"), "{failure:?}");
    assert_eq!(governed.server_failure, None);
    assert!(holds(governed).is_some_and(|holds| holds > 0.0));
    assert!(governed.wal_free_min_mib > stock.wal_free_min_mib);

    let shown = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
        .args(["lab", "report"])
        .arg(dir.0.join("report.json"))
        .output()
        .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("stock: the server gave up after"), "{text}");
}

#[test]
fn a_run_without_overload_fails_and_has_the_other_cases_all_the_same() {
    let Some(dir) = can_run().then(|| Dir::with_tables("guard-idle")) else { return };
    let (code, last, report) = guard(
        &dir.0,
        &words(
            "--cases=stock,paced,idle --rows=20000 --data-iops=none --seconds=3 --rates=50 \
         --paced-seconds=3 --pairs=1 --idle-seconds=3",
        ),
    );
    assert_eq!(code, Some(1), "{last}");
    assert!(last.contains("prove nothing"), "{last}");

    let rates: Vec<Option<u32>> = report.cases.iter().map(|case| case.rate).collect();
    assert_eq!(rates, [None, Some(50)]);
    assert_eq!(report.cases[0].run.pace_ms, None);
    let pace = report.cases[1].run.pace_ms.unwrap();
    assert!(pace.latency_mean >= pace.late_mean, "{pace:?}");
    assert!(pace.late_max >= pace.late_mean, "{pace:?}");
    let pairs = report.idle.unwrap().pairs;
    assert_eq!(pairs.len(), 1);
    assert!(pairs[0].off_tps > 0.0 && pairs[0].on_tps > 0.0, "{pairs:?}");
    assert_eq!(pairs[0].holds, Some(0.0));
}
