//! Loads of the lab, for real: each kind once, and how they fail. Needs root; says so and passes otherwise.

use crate::lab_run;

use std::fs;
use std::path::Path;
use std::process::Output;

use pgcalm_host::{postgres, process};
use pgcalm_lab::contest::report::{Report, TransactionSource};
use pgcalm_testkit::need;
use rustix::process::Signal;

use lab_run::{Dir, host, lab, patiently, signal, start_until, words};

/// Whether they can run here; if not, says why not.
fn can_run() -> bool {
    need::met("loads of the lab", &[need::ROOT, need::ANY_SERVER])
}

/// A run of stock PostgreSQL for five seconds; without caps, so that nothing is left to be drained.
fn run(dir: &Path, load: &[&str]) -> Output {
    let fixed = "run checkpoint --contestants stock --seconds 5 --rows 20000 --wal-size 512MB --cap none --drain none";
    let mut arguments = words(fixed);
    arguments.extend(load);
    patiently(&mut lab(&arguments, dir))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The report of such a run, which must have gone well, and its text.
fn report(dir: &Path, load: &[&str]) -> (Report, String) {
    let json = dir.join("report.json");
    let mut arguments = load.to_vec();
    arguments.extend(["--json", json.to_str().unwrap()]);
    let output = run(dir, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = pgcalm_lab::document::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    let run = &report.contestants[0].runs[0];
    assert!(run.tps_mean > 0.0, "{run:?}");
    (report, text(&output.stdout))
}

/// The one line that a run that fails says last, and its exit code.
fn failure(dir: &Path, load: &[&str]) -> (i32, String) {
    let output = run(dir, load);
    let stderr = text(&output.stderr);
    let last = stderr.lines().last().unwrap_or_default().to_string();
    (output.status.code().unwrap(), last)
}

fn templates(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir.join("pgcalm-templates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const SYSBENCH: &str = "sysbench oltp_write_only --db-driver=pgsql --pgsql-host={host} --pgsql-port={port} \
                        --pgsql-user={user} --pgsql-db={database} --tables=1 --table-size={rows} \
                        --threads={clients} --time={seconds}";

#[test]
fn sysbench_is_prepared_once_and_counted_in_the_server() {
    let Some(dir) = can_run().then(|| Dir::new("sysbench")) else { return };
    let prepare = format!("{SYSBENCH} prepare");
    let load = format!("{SYSBENCH} --report-interval=1 run");
    let (report, shown) = report(&dir.0, &["--prepare", &prepare, "--load", &load, "--keep"]);
    let run = &report.contestants[0].runs[0];
    assert_eq!(run.transactions_from, TransactionSource::Server);
    assert_eq!(run.latency_ms, None);
    assert!(shown.contains("counted in the server"), "{shown}");
    assert_eq!(templates(&dir.0).len(), 1);

    // `[ 2s ] thds: 4 tps: 402.81 qps: ...`: each of them writes. Its last words may not come, as the lab counts the
    // time from the first transaction, and stops it then.
    let output = fs::read_to_string(dir.0.join("pgcalm-kept/stock-1/load.out")).unwrap();
    let told: Vec<f64> =
        output.lines().filter_map(|line| line.split_once(" tps: ")?.1.split(' ').next()?.parse().ok()).collect();
    assert!(told.len() >= 2, "{output}");
    let told = told.iter().sum::<f64>() / told.len() as f64;
    // The seconds are not the same, and some of a slow disk have a third of others. Statements would be six times as many.
    let ratio = run.tps_mean / told;
    assert!((0.2..5.0).contains(&ratio), "{} of {told}", run.tps_mean);
    let mean = run.latency_server_ms.unwrap().mean;
    assert!(mean > 0.0, "{mean}");
}

#[test]
fn tpcb_makes_whole_branches() {
    let Some(dir) = can_run().then(|| Dir::new("tpcb")) else { return };
    let (report, shown) = report(&dir.0, &["--load", "tpcb"]);
    assert_eq!(report.settings["load"], "tpcb");
    assert_eq!(report.settings["rows"], 100_000);
    assert!(report.contestants[0].runs[0].latency_ms.is_some());
    assert!(shown.contains("load tpcb") && !shown.contains("keys"), "{shown}");
    assert_eq!(templates(&dir.0), ["pg15-tpcb1-v1".replace("15", &major())]);
}

/// Of the newest server, which the lab takes.
fn major() -> String {
    let bindir = postgres::bindirs(&host()).remove(0);
    let output = std::process::Command::new(bindir.join("postgres")).arg("--version").output().unwrap();
    let version = postgres::version_name(&text(&output.stdout)).unwrap();
    postgres::major_version(&version).unwrap().to_string()
}

#[test]
fn tpcc_and_read70_pass() {
    let Some(dir) = can_run().then(|| Dir::with_tables("tpcc")) else { return };
    for load in ["tpcc", "read70"] {
        let (report, _) = report(&dir.0, &["--load", load]);
        assert_eq!(report.settings["load"], load);
        let run = &report.contestants[0].runs[0];
        assert_eq!(run.transactions_from, TransactionSource::Pgbench);
    }
}

#[test]
fn a_script_has_the_tables_of_its_preparation() {
    let Some(dir) = can_run().then(|| Dir::new("script")) else { return };
    let script = dir.0.join("mine.sql");
    fs::write(&script, "\\set id random(1, :rows)\nupdate mine set n = n + 1 where id = :id;\n").unwrap();
    let arguments = ["--load", script.to_str().unwrap()];
    // Without it there is the standard table only.
    let (code, last) = failure(&dir.0, &arguments);
    assert_eq!(code, 1, "{last}");
    assert!(last.contains("\"mine\" does not exist") || last.contains("pgbench failed"), "{last}");

    fs::write(
        dir.0.join("mine.prepare.sql"),
        "create table mine as select generate_series(1, :rows) id, 0 n;\nalter table mine add primary key (id);\n",
    )
    .unwrap();
    report(&dir.0, &arguments);
    let names = templates(&dir.0);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].contains("-mine-rows20000-"), "{names:?}");
}

#[test]
fn a_command_that_fails_or_does_nothing_is_named_with_its_last_words() {
    let Some(dir) = can_run().then(|| Dir::with_tables("fails")) else { return };
    for (load, code, words) in [
        (
            "sh -c 'echo first >&2; echo \"no such scenario\" >&2; exit 4'",
            1,
            "sh failed (exit status: 4): no such scenario",
        ),
        ("sh -c 'psql -qc \"create table a ()\"; echo done >&2'", 1, "sh ended after 0 of 5 s: done"),
        ("sleep 600", 1, "sleep made no transaction that writes in 5 s: no message"),
        ("no-such-program x", 3, "--load: program no-such-program not found"),
        ("/etc/passwd", 3, "can't start passwd"),
        ("/nonexistent/mix.sql", 2, "--load /nonexistent/mix.sql"),
        ("sh -c 'open", 2, "a quote is not closed"),
    ] {
        let (got, last) = failure(&dir.0, &["--load", load]);
        assert_eq!(got, code, "{load}: {last}");
        assert!(last.contains(words) || code == 2, "{load}: {last}");
        // What the server's log complains of last may be between: another test may ask any server for what it has not.
        assert!(last.contains("stock: ") || code != 1, "{load}: {last}");
    }
    let (code, last) = failure(&dir.0, &["--load", "sleep 9", "--prepare", "ls /nonexistent"]);
    assert_eq!(code, 1, "{last}");
    assert!(last.contains("--prepare: ls failed") && last.contains("No such file"), "{last}");
}

/// Processes whose command line holds `mark`.
fn marked(mark: &str) -> Vec<i32> {
    let root = host();
    process::table(&root)
        .unwrap()
        .iter()
        .map(|process| process.pid)
        .filter(|pid| {
            process::command_line(&root, *pid).is_ok_and(|line| line.starts_with("sleep") && line.contains(mark))
        })
        .collect()
}

#[test]
fn clean_ends_a_command_that_kill_9_left() {
    let Some(dir) = can_run().then(|| Dir::with_tables("left")) else { return };
    // What it starts goes elsewhere, to a session of its own.
    let mark = format!("86{}", std::process::id());
    let load = format!("sh -c 'cd /; setsid sleep {mark} & wait'");
    let mut arguments = vec!["run", "checkpoint", "--contestants", "stock", "--seconds", "60", "--rows", "20000"];
    arguments.extend(["--wal-size", "256MB", "--load", &load]);
    let mut child = start_until(&mut lab(&arguments, &dir.0), || !marked(&mark).is_empty());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(marked(&mark).len(), 1);
    let output = patiently(&mut lab(&["clean"], &dir.0));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(marked(&mark), Vec::<i32>::new());
}
