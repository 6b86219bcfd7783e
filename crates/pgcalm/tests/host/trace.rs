//! `pgcalm trace` on a real server. Needs root, eBPF and PostgreSQL with USDT probes; says so and passes otherwise.

use crate::trace_server;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use nix::unistd::User;
use pgcalm_host::postmaster;
use pgcalm_testkit::programs::Running;
use pgcalm_testkit::server::Server;
use pgcalm_testkit::{of_kind, programs, wait_for};
use pgcalm_trace::checkpoint::report as checkpoint;
use pgcalm_trace::locks::report as locks;
use pgcalm_trace::locks::report::LockClass;
use pgcalm_trace::report::EndReason;
use pgcalm_trace::usdt::notes::Notes;
use rustix::process::{Pid, Signal};

use trace_server::{Trace, can_run, host, launch, logged};

fn checkpoints(lines: &[checkpoint::Line]) -> Vec<&checkpoint::Checkpoint> {
    of_kind!(lines, checkpoint::Line::Checkpoint).map(|checkpoint| &**checkpoint).collect()
}

fn assert_nothing_missing_or_dropped(start: &checkpoint::Line, end: &checkpoint::Line) {
    let (checkpoint::Line::Start(start), checkpoint::Line::End(end)) = (start, end) else {
        panic!("{start:?}, {end:?}");
    };
    assert!(start.ebpf);
    assert_eq!(start.missing, []);
    assert_eq!(end.missing, []);
    assert_eq!((end.drops.events, end.drops.entries), (0, 0));
}

#[test]
fn counts_are_those_of_log_checkpoints_and_strace() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    server.sql("CHECKPOINT");
    let before = logged(&server, "checkpoint complete", "wrote ").len();
    let trace = Trace::start(
        &server,
        "checkpoint",
        &["--count", "2", "--around", "0", "--per-buffer", "--files", "--connect", ""],
    );
    let checkpointer = server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let calls = server.directory().join("strace");
    let mut strace = Command::new("strace")
        .args(["-qq", "-e", "trace=fsync,fdatasync,sync_file_range", "-p", &checkpointer, "-o"])
        .arg(&calls)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("strace", || {
        let status = fs::read_to_string(format!("/proc/{checkpointer}/status")).unwrap();
        !status.contains("TracerPid:\t0\n")
    });
    server.sql("CREATE TABLE counted AS SELECT generate_series(1, 100000) AS n");
    server.sql("CHECKPOINT");
    server.sql("UPDATE counted SET n = n + 1 WHERE n % 10 = 0");
    server.sql("CHECKPOINT");
    let (lines, code, stderr) = trace.end::<checkpoint::Line>();
    rustix::process::kill_process(Pid::from_child(&strace), Signal::INT).unwrap();
    strace.wait().unwrap();

    assert_eq!(code, Some(0), "{stderr}");
    assert_nothing_missing_or_dropped(&lines[0], lines.last().unwrap());
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 2);
    let logged = |key: &str| logged(&server, "checkpoint complete", key)[before..].to_vec();
    let values = |value: fn(&checkpoint::Checkpoint) -> u64| -> Vec<u64> {
        found.iter().map(|checkpoint| value(checkpoint)).collect()
    };
    assert_eq!(values(|c| c.buffers.logged.unwrap()), logged("wrote "));
    assert_eq!(values(|c| c.sync.as_ref().unwrap().times.count), logged("sync files="));
    assert_eq!(values(|c| c.wal_segments.unwrap().recycled), logged("removed, "));
    for checkpoint in &found {
        assert_eq!(checkpoint.reason, "requested");
        assert_eq!(checkpoint.buffers.total, Some(2048));
        assert_eq!(checkpoint.buffers.written, checkpoint.buffers.dirty);
        let written = checkpoint.buffers.written.unwrap();
        let per_buffer = checkpoint.per_buffer.as_ref().unwrap();
        for (name, histogram) in per_buffer.list() {
            assert_eq!(histogram.count, written, "{name}");
            assert_eq!(histogram.buckets.iter().sum::<u64>(), written, "{name}");
            let quantiles = [histogram.p50_ms, histogram.p99_ms, histogram.max_ms];
            assert!(quantiles.is_sorted() && quantiles[0].is_some(), "{name}");
        }
        // What lies between two buffers that were written has in it what lies between flush and count of one.
        let sums = [per_buffer.flush_done_to_sync_written.sum_ms, per_buffer.sync_written.sum_ms];
        assert!(sums.is_sorted(), "{sums:?}");
        let phases = checkpoint.phases.list();
        assert!(phases.iter().all(|(_, time)| time.is_some()), "{phases:?}");
        let sum: f64 = phases.iter().filter_map(|(_, time)| *time).sum();
        assert!(sum <= checkpoint.total_s.unwrap(), "{checkpoint:?}");
    }
    let fsyncs: u64 =
        values(|c| c.sync.as_ref().unwrap().times.count + c.other_syncs.as_ref().unwrap().times.count).iter().sum();
    let strace_lines = fs::read_to_string(&calls).unwrap();
    let called = |name: &str| {
        let lines = strace_lines.lines();
        lines.filter(|line| line.contains(name)).count() as u64
    };
    assert_eq!(fsyncs, called("sync("), "{strace_lines}");
    let sum = |value: fn(&checkpoint::FileTimes) -> u64| -> u64 {
        let files = found.iter().flat_map(|c| c.files.iter().flatten());
        files.map(value).sum()
    };
    assert_eq!(sum(|file| file.fsyncs), fsyncs);
    assert_eq!(sum(|file| file.flush_hints), called("sync_file_range("), "{strace_lines}");
    assert!(sum(|file| file.flush_hints) > 0, "{strace_lines}");
    let named = |checkpoint: &checkpoint::Checkpoint| {
        let files = &checkpoint.sync.as_ref().unwrap().slowest;
        files.iter().any(|file| file.relation.as_deref() == Some("postgres: counted"))
    };
    assert!(named(found[1]), "{:?}", found[1].sync);
    // Of one file both are told.
    let both = found[1]
        .files
        .iter()
        .flatten()
        .find(|file| file.relation.as_deref() == Some("postgres: counted") && file.flush_hints > 0);
    assert!(both.is_some_and(|file| file.fsyncs == 1), "{both:?}");
}

#[test]
fn transactions_are_counted_exactly() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    let trace = Trace::start(&server, "checkpoint", &["--around", "300"]);
    let statements: String = (0..50).map(|_| "SELECT 1; ").collect();
    // One transaction per statement, unlike one -c with all.
    let script = server.directory().join("script");
    fs::write(&script, format!("{statements}\nCHECKPOINT;\n")).unwrap();
    let output = Command::new(bindir.join("psql"))
        .args(["-Xq", "-U", "postgres", "-h"])
        .arg(server.directory())
        .arg("-f")
        .arg(&script)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    server.query("SELECT 1/0");
    // Seconds are told of once they are over.
    thread::sleep(Duration::from_millis(2500));
    trace.signal(Signal::INT);
    let lines = trace.lines::<checkpoint::Line>();
    let found = checkpoints(&lines);
    let transactions = found[0].transactions.as_ref().unwrap();
    let sum = |value: fn(&checkpoint::Second) -> u64| -> u64 { transactions.seconds.iter().map(value).sum() };
    // 50 statements, CHECKPOINT; each connection starts with a transaction that reads the catalogs.
    assert_eq!(sum(|second| second.commits), 50 + 1 + 2);
    assert_eq!(sum(|second| second.aborts), 1);
}

#[test]
fn a_wait_for_a_lock_is_told_with_lock_mode_and_process_type() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    server.sql("CREATE TABLE locked (n int)");
    let trace = Trace::start(&server, "locks", &["--all-acquisitions", "--connect", ""]);
    let mut holder =
        server.psql("BEGIN; LOCK TABLE locked; SELECT pg_sleep(2); COMMIT").stdout(Stdio::null()).spawn().unwrap();
    wait_for("the lock", || {
        server.sql("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'locked'::regclass")
            == "1"
    });
    server.sql("INSERT INTO locked VALUES (1)");
    holder.wait().unwrap();
    let oid: u32 = server.sql("SELECT 'locked'::regclass::oid").parse().unwrap();
    trace.signal(Signal::INT);
    let lines = trace.lines::<locks::Line>();
    let total = of_kind!(lines, locks::Line::Total).next().unwrap();
    let waits: Vec<_> =
        total.locks.iter().filter(|lock| lock.class == LockClass::Heavyweight && lock.relation == Some(oid)).collect();
    assert_eq!(waits.len(), 1, "{:?}", total.locks);
    assert_eq!(waits[0].name, "relation");
    assert_eq!(waits[0].relation_name.as_deref(), Some("postgres: locked"));
    assert_eq!(waits[0].mode, "RowExclusiveLock");
    assert_eq!(waits[0].process_type, "client backend");
    assert_eq!(waits[0].waits.count, 1);
    let acquired = |name: &str| {
        let locks = total.locks.iter().filter(|lock| lock.name == name);
        locks.filter_map(|lock| lock.acquisitions).sum::<u64>()
    };
    assert!(acquired("BufferMapping") > 0 && acquired("WALInsert") > 0, "{:?}", total.locks);
}

/// A session waits for a lock of another one, and gets it.
fn make_wait(server: &Server) {
    let mut holder = server.client("psql").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut script = holder.stdin.take().unwrap();
    script.write_all(b"BEGIN; LOCK TABLE locked;\n").unwrap();
    let locks = |state: &str| {
        server.sql(&format!("SELECT count(*) FROM pg_locks WHERE relation = 'locked'::regclass AND {state}"))
    };
    wait_for("the lock", || locks("granted") == "1");
    let mut waiter = server.psql("INSERT INTO locked VALUES (1)").stdout(Stdio::null()).spawn().unwrap();
    wait_for("who waits for it", || locks("NOT granted") == "1");
    // The end of its script ends the session.
    drop(script);
    holder.wait().unwrap();
    assert!(waiter.wait().unwrap().success());
}

#[test]
fn waits_from_a_checkpoints_start_on_are_told_apart_though_it_has_ended() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    server.sql("CREATE TABLE locked (n int)");
    let trace = Trace::start(&server, "locks", &["--first", "5min", "--around", "5min"]);
    make_wait(&server);
    server.sql("CHECKPOINT");
    make_wait(&server);
    make_wait(&server);
    trace.signal(Signal::INT);
    let lines = trace.lines::<locks::Line>();
    let checkpoint = of_kind!(lines, locks::Line::Checkpoint).next().unwrap();
    let waits = |period: &locks::Period| -> u64 {
        let locks = period.locks.iter();
        locks
            .filter(|lock| lock.class == LockClass::Heavyweight && lock.name == "relation")
            .map(|lock| lock.waits.count)
            .sum()
    };
    assert!(checkpoint.complete);
    assert_eq!(waits(&checkpoint.during), 0);
    assert_eq!(waits(&checkpoint.first), 2);
    assert!(checkpoint.first.seconds > checkpoint.during.seconds);
}

/// An installation in `directory` with the same paths below it, of which the server's own program is a copy: the kernel raises
/// the semaphores of a file in all processes that have mapped it, and labs that run beside trace the host's.
fn copied(bindir: &Path, directory: &Path) -> PathBuf {
    let below = |path: &Path| directory.join(path.strip_prefix("/").unwrap());
    // The server looks for its other files where they are as seen from its program.
    for folder in bindir.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if !bindir.starts_with(&entry) {
                fs::create_dir_all(below(folder)).unwrap();
                symlink(&entry, below(&entry)).unwrap();
            }
        }
    }
    fs::create_dir_all(below(bindir)).unwrap();
    for entry in fs::read_dir(bindir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == "postgres" || entry.file_name() == "initdb" {
            fs::copy(entry.path(), below(&entry.path())).unwrap();
        } else {
            symlink(entry.path(), below(&entry.path())).unwrap();
        }
    }
    below(bindir)
}

/// The semaphores of some probes in the postmaster's memory, which the kernel raises while they are traced.
fn semaphores(server: &Server) -> Vec<u16> {
    let pid = server.pid();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let notes = Notes::read(&program).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    ["checkpoint__start", "checkpoint__done", "transaction__commit", "clog__checkpoint__start"]
        .iter()
        .map(|name| {
            let offset = notes.sites(name).next().unwrap().semaphore_offset;
            let address = maps
                .lines()
                .filter(|line| line.ends_with(&*program.to_string_lossy()) && line.contains(" rw-p "))
                .find_map(|line| {
                    let mut words = line.split_whitespace();
                    let (from, to) = words.next()?.split_once('-')?;
                    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
                    let (from, to, start) = (hex(from), hex(to), hex(words.nth(1)?));
                    (start..start + (to - from)).contains(&offset).then(|| from + offset - start)
                })
                .unwrap();
            let mut value = [0; 2];
            memory.read_exact_at(&mut value, address).unwrap();
            u16::from_ne_bytes(value)
        })
        .collect()
}

#[test]
fn nothing_stays_attached_even_if_killed() {
    let Some(bindir) = can_run() else { return };
    let installation = programs::directory("pgcalm-trace-programs");
    let server = launch(&copied(&bindir, installation.path()));
    assert_eq!(semaphores(&server), [0; 4]);
    for signal in [Signal::INT, Signal::KILL] {
        let trace = Trace::start(&server, "checkpoint", &[]);
        let said = fs::read_to_string(&trace.json).unwrap();
        assert_eq!(semaphores(&server), [1; 4], "{said}");
        trace.signal(signal);
        let mut child = trace.child;
        child.wait().unwrap();
        // The kernel takes down what a killed process has left soon after it, not before its end.
        wait_for("the end of the probes", || semaphores(&server) == [0; 4]);
    }
    server.sql("CHECKPOINT");
}

#[test]
fn a_server_that_ends_ends_the_trace() {
    let Some(bindir) = can_run() else { return };
    let mut server = launch(&bindir);
    let trace = Trace::start(&server, "checkpoint", &["--count", "9"]);
    server.stop();
    let (lines, code, stderr) = trace.end::<checkpoint::Line>();
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("ended while it was traced"), "{stderr}");
    let found = checkpoints(&lines);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason, "shutdown");
    let Some(checkpoint::Line::End(end)) = lines.last() else { panic!("{lines:?}") };
    assert_eq!(end.reason, EndReason::ServerEnded);
}

#[test]
fn a_trace_whose_reader_has_gone_ends() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    let pid = server.pid().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(["trace", "io", "--interval", "0.1", "--duration", "1h", "--json", "--instance", &pid]);
    let mut trace = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(trace.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"type\":\"start\""), "{line}");
    let mut ended = None;
    wait_for("the end of the trace", || {
        ended = trace.0.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[test]
fn what_can_not_be_printed_is_in_the_files() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    let json = server.directory().join("io.jsonl");
    let html = server.directory().join("io.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command
        .args(["trace", "io", "--instance", &server.pid().to_string(), "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&html);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = fs::read_to_string(&json).unwrap();
    assert!(lines.lines().last().unwrap().contains("\"type\":\"end\""), "{lines}");
    assert!(fs::read_to_string(&html).unwrap().ends_with("</html>"));
}

/// Runs a trace that is refused; its only line on standard error.
fn refused(arguments: &[&str], code: i32, as_user: Option<u32>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(["trace", "checkpoint", "--duration", "1"]).args(arguments);
    if let Some(user) = as_user {
        command.uid(user).current_dir("/");
    }
    programs::refused(&mut command, code)
}

#[test]
fn the_wrong_process_is_refused_with_the_way_out() {
    let Some(bindir) = can_run() else { return };
    let mut server = launch(&bindir);
    let pid = server.pid().to_string();
    let checkpointer = server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let own = std::process::id().to_string();
    let message = refused(&["--instance", &checkpointer], 4, None);
    assert!(message.contains(&format!("of the server with pid {pid}")), "{message}");
    let message = refused(&["--instance", &own], 4, None);
    assert!(message.contains("no such server"), "{message}");
    let data = server.directory().join("data");
    let missing = data.join("missing");
    let missing = missing.to_str().unwrap();
    for name in [missing, "65535"] {
        let message = refused(&["--instance", name], 4, None);
        assert!(message.contains(&format!("--instance {name}: no such server")), "{message}");
    }
    let user = User::from_name("postgres").unwrap().unwrap();
    let message = refused(&["--instance", &pid], 3, Some(user.uid.as_raw()));
    assert!(message.contains("root"), "{message}");
    server.stop();
    let message = refused(&["--instance", &pid], 4, None);
    assert!(message.contains("no such server"), "{message}");
}

#[test]
fn running_servers_are_found() {
    let Some(bindir) = can_run() else { return };
    let server = launch(&bindir);
    let running = postmaster::running(&host()).unwrap();
    let found = running.iter().find(|found| found.process.pid == server.pid()).unwrap();
    assert_eq!(found.data_directory, server.directory().join("data"));
    assert_eq!(found.socket_directory.as_deref(), Some(server.directory()));
}
