//! `pgcalm targets` on a real server's WAL. Needs root (to become the server's user) and PostgreSQL; says so and passes otherwise.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use pgcalm_doctor::targets::report::Report;
use pgcalm_testkit::need;
use pgcalm_testkit::programs::{self, Programs, bindir};
use pgcalm_testkit::server::Server;

fn targets(program: &Path, server: &Server, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["targets", "--connect", &server.conninfo(), "--iops", "100", "--json"]).args(more);
    command
}

fn report(output: &Output) -> Report {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// 3000 transactions, each of which changes one row of the first ones; what the WAL of these tells.
fn load(server: &Server, dir: &Path, rows: u32) -> Report {
    let from = server.sql("SELECT pg_current_wal_insert_lsn()");
    let script = dir.join("load.sql");
    fs::write(&script, format!("\\set n random(1, {rows})\nUPDATE t SET changed = changed + 1 WHERE n = :n;\n"))
        .unwrap();
    let made = server.client("pgbench").args(["-n", "-t", "3000", "-f"]).arg(&script).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let bytes = server.sql(&format!("SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '{from}')"));
    let mut command = targets(Path::new(env!("CARGO_BIN_EXE_pgcalm")), server, &["--wal", &format!("{bytes}B")]);
    report(&command.output().unwrap())
}

#[test]
fn what_is_changed_again_and_again_is_few_blocks_and_what_is_not_is_many() {
    let Some(bindir) = need::met("targets", &[need::ROOT, need::SERVER]).then(bindir).flatten() else { return };
    let dir = programs::directory("pgcalm-targets");
    let server = Server::create(&Programs::new(&bindir, dir.path()), "autovacuum = off\nfsync = off\n");
    // Two rows in a block, and room for a new version of each.
    server.sql(
        "CREATE TABLE t (n int PRIMARY KEY, changed int, filler text) WITH (fillfactor = 50); \
         INSERT INTO t SELECT n, 0, repeat('x', 1900) FROM generate_series(1, 6000) n",
    );
    server.sql("CHECKPOINT");
    let most = |report: &Report| *report.observed.curve.0.last().unwrap();
    // Side by side: 50 blocks, each of which is changed some 60 times.
    let few = load(&server, dir.path(), 100);
    assert!((45.0..60.0).contains(&most(&few).blocks) && most(&few).runs < 5.0, "{few:?}");
    assert!((3000..6000).contains(&few.observed.changes), "{few:?}");
    // 3000 * (1 - 1 / e) of 3000 in all, and about as many first changes after a checkpoint; one in three has a neighbour.
    let many = load(&server, dir.path(), 6000);
    assert!((600.0..1900.0).contains(&most(&many).blocks) && most(&many).runs > 300.0, "{many:?}");
    assert!((1500..2100).contains(&many.observed.images), "{many:?}");
    assert_eq!((many.stop.len(), many.recovery.len(), many.write_iops), (6, 6, Some(100)), "{many:?}");

    // Who may not see the server's files is told so.
    let copy = dir.path().join("pgcalm");
    fs::copy(env!("CARGO_BIN_EXE_pgcalm"), &copy).unwrap();
    let output = targets(&copy, &server, &[]).uid(65534).gid(65534).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(said.lines().count() == 1 && said.contains("as root"), "{said}");
}
