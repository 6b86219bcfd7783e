//! Causes made on purpose, each on a server with devices of its own: each has to be the verdict of the incident that it brings, and
//! the recorder is told nothing of it. `make test-long` runs them, in a quarter of an hour. Need root; say so and pass otherwise.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use pgcalm_lab::Size;
use pgcalm_lab::cap::Caps;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::journal::Change;
use pgcalm_record::incident::{Cause, Incident};
use pgcalm_record::report::card;
use pgcalm_record::store::Reader;
use pgcalm_testkit::programs::{Running, give_to_server};
use pgcalm_testkit::wait_for;
use pgcalm_trace::why::report::Stack;
use rustix::process::{Pid, Signal, kill_process};

use crate::arena::{self, Arena, Setup};
use crate::control_group::Group;
use crate::{Recorder, incidents, lock_holder, samples};

/// Samples of even load: from twenty good seconds on it is known what is usual.
const EVEN: usize = 27;

/// How long trouble lasts that does not end by itself. New limits are seen after five seconds.
const TROUBLE: Duration = Duration::from_secs(16);

/// A server that can be held up; `None` if none can be run here.
fn arena(setup: &Setup) -> Option<Arena> {
    arena::can_run().then(|| Arena::new(setup))
}

/// One with pgbench's tables of that scale.
fn arena_of(scale: u32) -> Option<Arena> {
    arena(&Setup { scale, ..Setup::default() })
}

fn recorder(arena: &Arena, directory: &Path) -> Recorder {
    let (socket, port) = arena.server.address();
    Recorder::start(directory, &format!("host={} port={port} user=postgres", socket.display()))
}

/// Stops the server and starts it again, with `meanwhile` between.
fn restart(arena: &Arena, meanwhile: impl FnOnce()) {
    arena.server.stop().unwrap();
    wait_for("its end", || arena.server.has_ended().unwrap());
    meanwhile();
    arena.server.start_again().unwrap();
    wait_for("its start", || arena.server.is_ready(&Interrupt::default()));
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The incident that `trouble` brings, the worst if there are several. It lasts as long as what `trouble` gives.
fn incident_of<T>(arena: &Arena, trouble: impl FnOnce(&Arena) -> T) -> Incident {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(arena, directory.path());
    wait_for("what is usual", || samples(directory.path(), |_| true) > EVEN);
    let begin = now_ms();
    // Builds beside this may have been one, too.
    let brought = || incidents(directory.path()).into_iter().filter(|it| it.ended_ms >= begin).collect::<Vec<_>>();
    let trouble = trouble(arena);
    thread::sleep(TROUBLE);
    drop(trouble);
    // It is told when it is over; a server goes on for a while for a client that has gone.
    let come = (0..2400).any(|_| {
        thread::sleep(Duration::from_millis(50));
        !brought().is_empty()
    });
    if !come {
        let _ = Reader::open(directory.path()).and_then(|reader| {
            reader.samples(0, u64::MAX, |host| {
                let seen = host
                    .instances
                    .first()
                    .map(|it| (it.rates, &it.reachability, it.activity.as_ref().map(|a| &a.waits)));
                eprintln!("{} {seen:?}", host.time_ms);
            })
        });
        panic!("the incident did not come");
    }
    drop(recorder);
    for incident in brought() {
        eprintln!("{}", card::document(&incident).text());
    }
    brought().into_iter().max_by(|a, b| a.lost_commits.total_cmp(&b.lost_commits)).unwrap()
}

fn expect(incident: &Incident, cause: Cause, parts: &[&str]) {
    let also: Vec<Cause> = incident.also.iter().map(|verdict| verdict.cause).collect();
    assert_eq!(incident.cause, cause, "{}, also {also:?}", incident.sentence);
    assert!(parts.iter().all(|part| incident.sentence.contains(part)), "{}", incident.sentence);
}

/// Clients with a script, with these options of pgbench. Sessions of PostgreSQL 15 tell of their commits with what they did to tables
/// only.
fn clients(arena: &Arena, script: &str, options: &[&str]) -> Running {
    let file = tempfile::Builder::new().suffix(".sql").tempfile_in(arena.directory.path()).unwrap();
    let (mut file, path) = file.keep().unwrap();
    file.write_all(script.as_bytes()).unwrap();
    give_to_server(&path);
    let mut command = arena.server.client("pgbench");
    // Until it is killed.
    command.args(["-n", "-T", "86400", "-f"]).arg(&path).args(options).arg("postgres");
    Running::start(&mut command)
}

/// Updates of random rows of that many.
fn updates(rows: u32) -> String {
    format!("\\set aid random(1, {rows})\nupdate pgbench_accounts set abalance = abalance + 1 where aid = :aid;\n")
}

fn reads(rows: u32) -> String {
    format!("\\set aid random(1, {rows})\nselect abalance from pgbench_accounts where aid = :aid;\n")
}

/// A process that is stopped until this is dropped.
struct Stopped(i32);

impl Stopped {
    fn new(pid: i32) -> Self {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_raw(self.0).unwrap(), Signal::CONT);
    }
}

/// Far fewer than the clients ask for.
const FEW_WRITES: Caps = Caps { write_iops: Some(20), write_bps: None, read_iops: None };

/// One volume for all, which takes 400 operations and 8 MB in a second; 90 MB that wait to be written, and nothing that writes
/// them. Without full-page images there is nearly no WAL.
const ONE_VOLUME: Setup = Setup {
    shares_device: true,
    settings: &[
        ("shared_buffers", "256MB"),
        ("bgwriter_lru_maxpages", "0"),
        ("full_page_writes", "off"),
        ("checkpoint_flush_after", "0"),
    ],
    scale: 6,
    data: pgcalm_lab::options::FsType::Ext4,
    mount_options: None,
    initdb: &[],
};

const VOLUME: Caps = Caps { write_iops: Some(400), write_bps: Some(8 << 20), read_iops: None };

/// As many updates as [`VOLUME`] takes with ease.
fn even_updates(arena: &Arena) -> Running {
    clients(arena, &updates(600_000), &["-c", "4", "-R", "60"])
}

/// Makes all pages of the table dirty.
const DIRTY: &str = "update pgbench_accounts set abalance = 1 where aid % 20 = 0";

/// The incident that a checkpoint brings which `trouble` asks for, and the volume that has to write all at once.
fn incident_of_a_checkpoint<T>(trouble: impl FnOnce(&Arena) -> T) -> Option<(Incident, String)> {
    let arena = arena(&ONE_VOLUME)?;
    arena.sql(DIRTY);
    let _cap = arena.cap(&arena.data_device, VOLUME);
    let _load = even_updates(&arena);
    Some((incident_of(&arena, trouble), arena.data_device.name.clone()))
}

#[test]
#[ignore = "long; make test-long"]
fn fsync_of_a_checkpoint() {
    let Some((incident, volume)) = incident_of_a_checkpoint(|arena| arena.psql("checkpoint")) else { return };
    expect(&incident, Cause::CheckpointSync, &["CHECKPOINT", &volume]);
}

#[test]
#[ignore = "long; make test-long"]
fn a_fast_checkpoint_by_a_base_backup() {
    let Some((incident, _)) = incident_of_a_checkpoint(base_backup) else { return };
    expect(&incident, Cause::BackupCheckpoint, &[]);
}

fn base_backup(arena: &Arena) -> Running {
    Running::start(arena.server.client("pg_basebackup").args(["-D", "-", "-F", "t", "-X", "none", "--checkpoint=fast"]))
}

/// The kernel's flusher writes for syncfs, too, all that is dirty, as it does with what is older than 30 s.
#[test]
#[ignore = "long; make test-long"]
fn the_flusher_s_visit() {
    // Backends write their buffers themselves, into the page cache.
    let small = &[("bgwriter_lru_maxpages", "0"), ("full_page_writes", "off"), ("checkpoint_flush_after", "0")];
    let Some(arena) = arena(&Setup { settings: small, ..ONE_VOLUME }) else { return };
    let _cap = arena.cap(&arena.data_device, VOLUME);
    arena.sql(DIRTY);
    let _load = even_updates(&arena);
    let incident = incident_of(&arena, |arena| {
        rustix::fs::syncfs(fs::File::open(arena.data.path()).unwrap()).unwrap();
    });
    expect(&incident, Cause::KernelFlusher, &[]);
}

#[test]
#[ignore = "long; make test-long"]
fn a_journal_shared_with_a_capped_neighbour() {
    let Some(arena) = arena(&Setup {
        mount_options: Some(c"nodelalloc"),
        settings: &[("wal_level", "minimal"), ("max_wal_senders", "0"), ("wal_skip_threshold", "0")],
        ..Setup::default()
    }) else {
        return;
    };
    let script = "begin;\ncreate table t:client_id(n int);\ninsert into t:client_id select generate_series(1, 100);\n\
        commit;\ndrop table t:client_id;\n";
    let _load = clients(&arena, script, &["-c", "4"]);
    let incident = incident_of(&arena, |arena| arena.neighbour(2));
    expect(&incident, Cause::Journal, &[]);
    let in_journal = |one: &pgcalm_record::incident::Stuck| one.waits_for.as_deref() == Some("ext4 journal (jbd2)");
    assert!(incident.stuck.iter().any(in_journal), "{:#?}", incident.stuck);
}

#[test]
#[ignore = "long; make test-long"]
fn wal_at_its_cap() {
    let Some(arena) = arena_of(1) else { return };
    let _load = clients(&arena, &updates(100_000), &["-c", "4"]);
    let incident = incident_of(&arena, |arena| arena.cap(&arena.wal_device, FEW_WRITES));
    expect(&incident, Cause::WalAtCap, &[&arena.wal_device.name]);
}

#[test]
#[ignore = "long; make test-long"]
fn dirty_limit() {
    let Some(arena) = arena(&Setup {
        scale: 10,
        settings: &[("shared_buffers", "1MB"), ("bgwriter_lru_maxpages", "0")],
        ..Setup::default()
    }) else {
        return;
    };
    // On a host that makes all pages dirty before the limit comes nobody is slowed down, and this fails.
    let _load = clients(&arena, &updates(1_000_000), &["-c", "4"]);
    let incident = incident_of(&arena, |arena| (arena.limit_dirty_data(), arena.cap(&arena.data_device, FEW_WRITES)));
    expect(&incident, Cause::DirtyLimit, &[]);
}

/// A session that sleeps with a lightweight lock, as in a debugger: each slot that is made or dropped needs it alone.
#[test]
#[ignore = "long; make test-long"]
fn a_convoy_at_a_lightweight_lock() {
    let Some(arena) = arena_of(1) else { return };
    let script = "select pg_create_physical_replication_slot('s:client_id', true);\n\
        select pg_drop_replication_slot('s:client_id');\nselect bid from pgbench_branches;\n";
    let _load = clients(&arena, script, &["-c", "6"]);
    let incident = incident_of(&arena, |arena| {
        let holder =
            "select pid from pg_stat_activity where wait_event ~ '^ReplicationSlot' and wait_event_type = 'IO' limit 1";
        loop {
            let Ok(pid) = arena.sql(holder).trim().parse::<i32>() else { continue };
            // All others: else it may itself wait in line.
            let queue =
                format!("select count(*) from pg_stat_activity where wait_event_type = 'LWLock' and pid <> {pid}");
            let stopped = Stopped::new(pid);
            thread::sleep(Duration::from_millis(300));
            if arena.sql(&queue).trim() == "5" {
                break stopped;
            }
        }
    });
    expect(&incident, Cause::LwlockConvoy, &["ReplicationSlotAllocation"]);
}

#[test]
#[ignore = "long; make test-long"]
fn memory_reclaim_in_a_control_group() {
    let Some(arena) = arena_of(10) else { return };
    let group = Group::new(&arena, "memory");
    // What the page cache has is charged to whom reads it first.
    arena.forget_data();
    arena.sql("select sum(abalance) from pgbench_accounts");
    arena.sql("set enable_seqscan = off; select sum(aid) from pgbench_accounts");
    let cap = arena.cap(&arena.data_device, Caps { read_iops: Some(50), ..Caps::default() });
    let _load = clients(&arena, &reads(1_000_000), &["-c", "4", "-R", "300"]);
    let incident = incident_of(&arena, |_| (group.limit("memory.limit_in_bytes", "80M"), cap));
    expect(&incident, Cause::MemoryReclaim, &[]);
}

#[test]
#[ignore = "long; make test-long"]
fn cpu_quota() {
    let Some(arena) = arena_of(1) else { return };
    let group = Group::new(&arena, "cpu");
    let _load = clients(
        &arena,
        "select count(*) from pgbench_branches, generate_series(1, 3000);\n",
        &["-c", "4", "-R", "200"],
    );
    // In microseconds of each 100,000; the least that the kernel takes, for hosts are fast.
    let incident = incident_of(&arena, |_| group.limit("cpu.cfs_quota_us", "1000"));
    expect(&incident, Cause::CpuQuota, &[]);
}

#[test]
#[ignore = "long; make test-long"]
fn a_slow_synchronous_standby() {
    let Some(arena) = arena_of(1) else { return };
    let directory = arena.directory.path().join("received");
    fs::create_dir(&directory).unwrap();
    give_to_server(&directory);
    let standby = Running::start(arena.server.client("pg_receivewal").arg("--synchronous").arg("-D").arg(&directory));
    wait_for("the standby", || arena.sql("select count(*) from pg_stat_replication").trim() == "1");
    arena.sql("alter system set synchronous_standby_names = 'pg_receivewal'");
    arena.sql("select pg_reload_conf()");
    let _load = clients(&arena, &updates(100_000), &["-c", "4", "-R", "50"]);
    let incident = incident_of(&arena, |_| Stopped::new(standby.0.id() as i32));
    expect(&incident, Cause::SlowSynchronousStandby, &["pg_receivewal"]);
}

#[test]
#[ignore = "long; make test-long"]
fn a_storm_of_connections() {
    let Some(arena) = arena_of(1) else { return };
    let _load = clients(&arena, "select bid from pgbench_branches;\n", &["-c", "4"]);
    // What a new session does first is dear, and one after the other begins.
    let first = "select count(*) from pgbench_accounts;\n";
    let incident = incident_of(&arena, |arena| clients(arena, first, &["-C", "-c", "60", "-j", "60"]));
    expect(&incident, Cause::ConnectionStorm, &[]);
}

#[test]
#[ignore = "long; make test-long"]
fn a_backup_that_reads() {
    let Some(mut arena) = arena_of(10) else { return };
    // As volumes of clouds are often set up, for backups.
    arena.data_device.read_ahead(&arena.journal, Size(4 << 20)).unwrap();
    let file = PathBuf::from("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device");
    let former = format!("{} 0", arena.data_device.number);
    let _cap = arena.journal.note(Change::Setting { file: file.clone(), former }).unwrap();
    fs::write(file, format!("{} {}", arena.data_device.number, 8 << 20)).unwrap();
    arena.forget_data();
    let _load = clients(&arena, &reads(1_000_000), &["-c", "4", "-R", "30"]);
    let incident = incident_of(&arena, base_backup);
    expect(&incident, Cause::BackupReads, &["base backup"]);
}

#[test]
#[ignore = "long; make test-long"]
fn temporary_files() {
    let Some(arena) = arena(&ONE_VOLUME) else { return };
    let _limit = arena.limit_dirty_data();
    let _cap = arena.cap(&arena.data_device, VOLUME);
    let _load = even_updates(&arena);
    let sort = "set work_mem = '64kB'; select max(i) from (select i from generate_series(1, 1500000) i order by -i offset 1) s";
    let incident = incident_of(&arena, |arena| [arena.psql(sort), arena.psql(sort), arena.psql(sort)]);
    expect(&incident, Cause::TemporaryFiles, &[]);
}

/// It puts each file on the disk of WAL first, and then it fails.
#[test]
#[ignore = "long; make test-long"]
fn an_archive_that_blocks() {
    let Some(arena) = arena(&Setup { initdb: &["--wal-segsize=1"], ..Setup::default() }) else { return };
    let flag = arena.directory.path().join("fails");
    let staged = arena.directory.path().join("wal/pg_wal/staged");
    arena.sql("alter system set archive_mode = on");
    arena.sql(&format!(
        "alter system set archive_command = 'test ! -e {} || (dd if=/dev/zero of={} bs=1M count=32 conv=fsync; false)'",
        flag.display(),
        staged.display()
    ));
    restart(&arena, || ());
    arena.sql("create table t(v text); alter table t alter v set storage external");
    let _cap = arena.cap(&arena.wal_device, Caps { write_bps: Some(16 << 20), ..Caps::default() });
    let _load = clients(&arena, "insert into t values (repeat('x', 30000));\n", &["-c", "4", "-R", "80"]);
    // Removed after the trouble: an incident is told when it is over.
    let fails = |arena: &Arena| tempfile::Builder::new().prefix("fails").rand_bytes(0).tempfile_in(&arena.directory);
    let incident = incident_of(&arena, |arena| fails(arena).unwrap());
    expect(&incident, Cause::ArchiveBlocks, &[]);
}

#[test]
#[ignore = "long; make test-long"]
fn reads_of_a_cold_cache_after_a_restart() {
    let Some(arena) = arena_of(10) else { return };
    let _cap = arena.cap(&arena.data_device, Caps { read_iops: Some(100), ..Caps::default() });
    let load = |arena: &Arena| clients(arena, &reads(1_000_000), &["-c", "4", "-R", "200"]);
    let _load = load(&arena);
    let incident = incident_of(&arena, |arena| {
        restart(arena, || arena.forget_data());
        let load = load(arena);
        thread::sleep(TROUBLE);
        load
    });
    expect(&incident, Cause::ColdCache, &[]);
}

#[test]
#[ignore = "long; make test-long"]
fn two_at_once_are_both_named() {
    let Some(arena) = arena_of(1) else { return };
    arena.sql("create table t(i int primary key, n int); insert into t select i, 0 from generate_series(0, 9) i");
    let _load = clients(&arena, &updates(100_000), &["-c", "4"]);
    let _other = clients(&arena, "update t set n = n + 1 where i = :client_id;\n", &["-c", "4"]);
    let incident = incident_of(&arena, |arena| (lock_holder(&arena.server), arena.cap(&arena.wal_device, FEW_WRITES)));
    expect(&incident, Cause::LockPileUp, &["idle in transaction"]);
    assert!(incident.also.iter().any(|verdict| verdict.cause == Cause::WalAtCap), "{:#?}", incident.also);
}

/// So few commits tell nothing, but a session that does not come out of its fsync does.
#[test]
#[ignore = "long; make test-long"]
fn a_session_that_sleeps_in_the_kernel_where_few_commits_are_usual() {
    let Some(arena) = arena_of(1) else { return };
    let _load = clients(&arena, &updates(100_000), &["-c", "1", "-R", "2"]);
    let cap = Caps { write_iops: Some(1), ..Caps::default() };
    let incident = incident_of(&arena, |arena| arena.cap(&arena.wal_device, cap));
    assert!(incident.usual_commits_per_second.is_some_and(|usual| usual < 5.0), "{incident:#?}");
    assert!(incident.stuck.iter().any(|one| one.process == "client backend"), "{:#?}", incident.stuck);
    let of_backend = |stack: &Stack| stack.role == "client backend" && stack.frames.len() > 2;
    assert!(incident.samples.as_ref().is_some_and(|it| it.stacks.iter().any(of_backend)), "{:#?}", incident.samples);
}

/// Even load with a checkpoint, autovacuum and a dump beside it is none, for two minutes, or as many as PGCALM_EVEN_MINUTES says.
#[test]
#[ignore = "long; make test-long"]
fn even_load_is_no_incident() {
    let minutes = std::env::var("PGCALM_EVEN_MINUTES").map_or(2, |text| text.parse().unwrap());
    let Some(arena) = arena(&Setup {
        scale: 10,
        settings: &[
            ("shared_buffers", "128MB"),
            ("checkpoint_timeout", "1min"),
            ("autovacuum", "on"),
            ("autovacuum_naptime", "15s"),
            ("autovacuum_vacuum_scale_factor", "0.01"),
        ],
        ..Setup::default()
    }) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut load = clients(&arena, &updates(1_000_000), &["-c", "4", "-R", "100"]);
    let recorder = recorder(&arena, directory.path());
    for _ in 0..2 * minutes {
        let dump = arena.server.client("pg_dump").arg("postgres").stdout(Stdio::null()).status().unwrap();
        assert!(dump.success());
        thread::sleep(Duration::from_secs(25));
    }
    drop(recorder);
    assert!(load.0.try_wait().unwrap().is_none(), "the load ended before the recorder");
    let all = incidents(directory.path());
    all.iter().for_each(|incident| eprintln!("{}", card::document(incident).text()));
    assert_eq!(all.len(), 0);
}
