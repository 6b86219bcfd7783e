use std::collections::BTreeMap;

use pgcalm_monitor::model::{
    Blocked, Checkpoint, CheckpointPhase, CheckpointSource, Cpu, Group, Maintenance, Memory, Pressure, Standby,
    WaitCause,
};

use super::*;
use crate::baseline::Usual;
use crate::incident::Stuck;
use crate::second::{Answer, CapUse, Disk, Second};
use crate::stuck::Looks;

const MB: u64 = 1 << 20;

/// A second of even load: four sessions, a disk with room.
fn even() -> Second {
    let disk = || Disk {
        name: "sda".to_string(),
        path: "/data".to_string(),
        is_shared: true,
        reads: 10.0,
        read_bytes: 80_000.0,
        writes: 200.0,
        write_bytes: 4e6,
        busy: 0.3,
        cap: Some(CapUse { what: "write operations", used: 200.0, allowed: 1000.0, source: "io.max".to_string() }),
        ..Disk::default()
    };
    Second {
        commits: Some(100.0),
        wal_bytes: 1e6,
        logins: 1.0,
        active: 4,
        connections: 20,
        max_connections: 100,
        uptime: Some(1e6),
        waits: waiting(&[(WaitCause::Cpu, 2), (WaitCause::Wal, 1), (WaitCause::Client, 1)]),
        checkpoint: Some(checkpoint(CheckpointPhase::Idle)),
        data: Some(disk()),
        wal: Some(disk()),
        memory: Memory {
            dirty_bytes: 20 * MB,
            background_threshold_bytes: Some(800 * MB),
            dirty_threshold_bytes: Some(1600 * MB),
            ..Memory::default()
        },
        cpu: Some(Cpu { busy: 0.3, steal: 0.0 }),
        pressure: Some(Pressure::default()),
        group: Some(Group { throttled: Some(0.0), memory_limit_hits_per_second: Some(0.0), pressure: None }),
        ..Second::default()
    }
}

fn waiting(waits: &[(WaitCause, u64)]) -> BTreeMap<WaitCause, u64> {
    waits.iter().copied().collect()
}

fn checkpoint(phase: CheckpointPhase) -> Checkpoint {
    Checkpoint {
        phase,
        source: CheckpointSource::WaitEvent,
        kind: None,
        reason: None,
        running_seconds: None,
        buffers_written: None,
        files_synced: None,
        wal_since_redo_bytes: None,
        max_wal_size_bytes: None,
        timeout_seconds: None,
        since_last_seconds: None,
        last: None,
    }
}

fn full(disk: &mut Option<Disk>) {
    let disk = disk.as_mut().unwrap();
    disk.writes = 980.0;
    disk.write_bytes = 2e7;
    disk.busy = 1.0;
    disk.cap.as_mut().unwrap().used = 980.0;
}

fn runs(kind: &str, phase: &str) -> Vec<Maintenance> {
    vec![Maintenance { kind: kind.to_string(), object: None, phase: Some(phase.to_string()) }]
}

/// The causes that are told of ten bad seconds like this one after ten even ones.
fn causes(stuck: &[Stuck], change: impl Fn(&mut Second)) -> Vec<Cause> {
    let mut second = even();
    second.commits = Some(3.0);
    change(&mut second);
    causes_of(stuck, &times(&second, 10))
}

/// The causes that are told of these bad seconds after ten even ones.
fn causes_of(stuck: &[Stuck], during: &[Second]) -> Vec<Cause> {
    verdicts(stuck, during).into_iter().map(|verdict| verdict.cause).collect()
}

fn verdicts(stuck: &[Stuck], during: &[Second]) -> Vec<Verdict> {
    let before = times(&even(), 10);
    let usual = Usual { commits: 100.0, active: 4.0, logins: 1.0, ..Usual::default() };
    judge(&Window { during: during.iter().collect(), before: before.iter().collect(), usual, stuck })
}

fn times(second: &Second, count: usize) -> Vec<Second> {
    vec![second.clone(); count]
}

fn stuck(process: &str, frame: &str) -> Vec<Stuck> {
    let mut looks = Looks::default();
    (0..9).for_each(|_| looks.add(process, vec!["io_schedule".to_string(), frame.to_string()]));
    looks.all()
}

#[test]
fn a_backup_is_blamed_for_a_checkpoint_that_hurries_and_not_for_one_that_is_spread() {
    let mut second = even();
    full(&mut second.data);
    full(&mut second.wal);
    second.active = 8;
    second.waits = waiting(&[(WaitCause::WalLock, 7), (WaitCause::Wal, 1)]);
    second.maintenance = runs("base_backup", "waiting for checkpoint to finish");
    let during = |step: u64| -> Vec<Second> {
        let written = |at| Checkpoint { buffers_written: Some(at * step), ..checkpoint(CheckpointPhase::Write) };
        (0..10).map(|at| Second { checkpoint: Some(written(at)), ..second.clone() }).collect()
    };
    assert_eq!(causes_of(&[], &during(0)), [Cause::BackupCheckpoint]);
    assert_eq!(causes_of(&[], &during(300)), [Cause::CheckpointWrite]);
    // It waited before, and held nobody.
    let waits = Second { commits: Some(100.0), waits: even().waits, ..second.clone() };
    let usual = Usual { commits: 100.0, active: 4.0, ..Usual::default() };
    let (before, during) = (times(&waits, 10), during(0));
    let window = Window { during: during.iter().collect(), before: before.iter().collect(), usual, stuck: &[] };
    assert_eq!(judge(&window).first().map(|verdict| verdict.cause), Some(Cause::CheckpointWrite));
}

#[test]
fn each_cause_is_told_by_its_signs() {
    use WaitCause::{DataIo, DataSync, Guard, LightweightLock, Lock, OtherIo, SynchronousReplication, Wal, WalLock};
    let waits = |second: &mut Second, cause, event: &str| {
        second.active = 8;
        second.waits = waiting(&[(cause, 7), (WaitCause::Cpu, 1)]);
        second.events = vec![(event.to_string(), 7), ("cpu".to_string(), 1)];
    };
    let busy_with = |second: &mut Second, cause, event: &str| {
        waits(second, cause, event);
        full(&mut second.data);
        full(&mut second.wal);
    };
    let expect = |cause: Cause, stuck: &[Stuck], change: &dyn Fn(&mut Second)| {
        assert_eq!(causes(stuck, change), [cause], "{cause:?}");
    };
    expect(CheckpointSync, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.checkpoint = Some(checkpoint(CheckpointPhase::Sync));
    });
    expect(CheckpointSync, &stuck("checkpointer", "ext4_sync_file"), &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.checkpoint = Some(checkpoint(CheckpointPhase::Unknown));
    });
    expect(BackupCheckpoint, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.checkpoint = Some(checkpoint(CheckpointPhase::Sync));
        second.maintenance = runs("base_backup", "waiting for checkpoint to finish");
    });
    expect(KernelFlusher, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.memory.writeback_bytes = 90 * MB;
        second.maintenance = runs("base_backup", "waiting for checkpoint to finish");
    });
    expect(CheckpointWrite, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.checkpoint = Some(checkpoint(CheckpointPhase::Write));
    });
    expect(KernelFlusher, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.memory.writeback_bytes = 90 * MB;
    });
    expect(KernelFlusher, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.data.as_mut().unwrap().write_bytes = 4e6;
    });
    expect(WalAtCap, &[], &|second| {
        busy_with(second, WalLock, "LWLock:WALWrite");
        second.wal_bytes = 1.8e7;
    });
    expect(Cause::DirtyLimit, &stuck("client backend", "balance_dirty_pages"), &|second| {
        full(&mut second.data);
        second.memory.dirty_bytes = 1190 * MB;
    });
    // One is slowed down, with the lock of the file that the others write.
    let mut behind = Looks::default();
    (0..2).for_each(|_| behind.add("client backend", vec!["balance_dirty_pages".to_string()]));
    (0..9).for_each(|_| behind.add("client backend", vec!["ext4_buffered_write_iter".to_string()]));
    expect(Cause::DirtyLimit, &behind.all(), &|second| busy_with(second, DataIo, "IO:DataFileWrite"));
    expect(LockPileUp, &[], &|second| {
        waits(second, Lock, "Lock:transactionid");
        let blocked = |pid, by| Blocked { pid, by, by_state: "idle in transaction".to_string(), ..Blocked::default() };
        second.blocked = vec![blocked(12, 11), blocked(11, 10)];
    });
    expect(LwlockConvoy, &[], &|second| waits(second, LightweightLock, "LWLock:ProcArray"));
    // Who holds it may be in an fsync for a moment.
    let mut moment = stuck("client backend", "jbd2_log_wait_commit");
    moment.iter_mut().for_each(|one| one.seconds = 2.0);
    expect(LwlockConvoy, &moment, &|second| waits(second, LightweightLock, "LWLock:ReplicationSlotAllocation"));
    expect(MemoryReclaim, &[], &|second| {
        let pressure = Pressure { memory_some: 0.6, memory_full: 0.4, ..Pressure::default() };
        second.group.as_mut().unwrap().pressure = Some(pressure);
    });
    // The host's, not the group's: it may be that of others.
    let pressed_host = |second: &mut Second| {
        second.pressure = Some(Pressure { memory_some: 0.6, memory_full: 0.4, ..Pressure::default() });
    };
    assert_eq!(causes(&[], pressed_host), []);
    expect(MemoryReclaim, &stuck("client backend", "try_to_free_pages"), &pressed_host);
    expect(CpuQuota, &[], &|second| second.group.as_mut().unwrap().throttled = Some(0.7));
    expect(CpuSteal, &[], &|second| second.cpu = Some(Cpu { busy: 0.5, steal: 0.4 }));
    let short_beside = |change: &dyn Fn(&mut Second)| {
        causes(&[], |second| {
            waits(second, Lock, "Lock:relation");
            let state = "idle in transaction".to_string();
            second.blocked = vec![Blocked { pid: 11, by: 10, by_state: state, ..Blocked::default() }];
            change(second);
        })
    };
    let memory = |second: &mut Second| {
        second.group.as_mut().unwrap().pressure = Some(Pressure { memory_some: 0.6, ..Pressure::default() });
    };
    assert_eq!(short_beside(&memory), [LockPileUp]);
    assert_eq!(short_beside(&|second| second.cpu = Some(Cpu { busy: 0.5, steal: 0.4 })), [LockPileUp]);
    assert_eq!(short_beside(&|second| second.group.as_mut().unwrap().throttled = Some(0.7)), [LockPileUp]);
    let held_by_one_at_work = short_beside(&|second| {
        memory(second);
        second.blocked[0].by_state = "active".to_string();
    });
    assert_eq!(held_by_one_at_work, [MemoryReclaim, LockPileUp]);
    let busy_with_others = causes(&[], |second| {
        waits(second, Lock, "Lock:tuple");
        second.cpu = Some(Cpu { busy: 1.0, steal: 0.0 });
    });
    assert_eq!(busy_with_others, [LockPileUp]);
    expect(CpuBusy, &[], &|second| second.cpu = Some(Cpu { busy: 1.0, steal: 0.0 }));
    expect(SlowSynchronousStandby, &[], &|second| {
        waits(second, SynchronousReplication, "IPC:SyncRep");
        let standby = |name: &str, lag| Standby {
            name: name.to_string(),
            sync_state: "sync".to_string(),
            flush_lag_seconds: Some(lag),
            ..Standby::default()
        };
        second.standbys = vec![standby("a", 0.1), standby("b", 4.0)];
    });
    expect(ConnectionStorm, &[], &|second| {
        second.logins = 90.0;
        second.cpu = Some(Cpu { busy: 1.0, steal: 0.0 });
    });
    let reads = |second: &mut Second| {
        waits(second, DataIo, "IO:DataFileRead");
        let disk = second.data.as_mut().unwrap();
        (disk.reads, disk.read_bytes, disk.busy) = (980.0, 9e7, 1.0);
        disk.cap = Some(CapUse { what: "read operations", used: 980.0, allowed: 1000.0, source: String::new() });
    };
    expect(BackupReads, &[], &|second| {
        reads(second);
        second.maintenance = runs("base_backup", "streaming database files");
    });
    expect(TemporaryFiles, &[], &|second| busy_with(second, OtherIo, "IO:BufFileWrite"));
    expect(ArchiveBlocks, &[], &|second| {
        waits(second, Guard, "Extension:PgCalmGuardHold");
        second.archives = true;
        second.guard = Some("archive".to_string());
    });
    expect(ArchiveBlocks, &[], &|second| {
        busy_with(second, Wal, "IO:WALSync");
        second.archives = true;
        second.archive_queue = 9;
    });
    expect(ColdCache, &[], &|second| {
        reads(second);
        second.uptime = Some(30.0);
    });
    expect(Cause::Journal, &stuck("client backend", "jbd2_log_wait_commit"), &|second| {
        waits(second, Wal, "IO:WALSync");
        second.neighbours = vec!["5433".to_string()];
    });
    // Sessions that sync new tables themselves, without a checkpoint.
    expect(Cause::Journal, &stuck("client backend", "jbd2_log_wait_commit"), &|second| {
        waits(second, DataSync, "IO:DataFileImmediateSync");
    });
    expect(DeviceAtCap, &[], &|second| {
        busy_with(second, DataIo, "IO:DataFileExtend");
        second.wal_bytes = 4e6;
        second.data.as_mut().unwrap().write_bytes = 4e6;
    });
    // WAL has nothing to do while all wait for the data's disk.
    expect(Cause::DirtyLimit, &stuck("client backend", "balance_dirty_pages"), &|second| {
        second.answer = Answer::Hung(4.0);
        second.wal = Some(Disk { name: "sdb".to_string(), ..Disk::default() });
    });
    expect(ServerRestarted, &[], &|second| *second = Second { answer: Answer::Closed, ..Second::default() });
    expect(VolumeHung, &[], &|second| {
        waits(second, Wal, "IO:WALSync");
        for disk in [&mut second.data, &mut second.wal] {
            *disk = Some(Disk { name: "sda".to_string(), ..Disk::default() });
        }
    });
}

/// A second in which a control group's cap of so many writes holds up sessions that commit, with a checkpoint in this phase.
fn at_cap(allowed: f64, phase: CheckpointPhase) -> Second {
    let mut second = even();
    second.commits = Some(3.0);
    second.active = 8;
    second.waits = waiting(&[(WaitCause::WalLock, 6), (WaitCause::Wal, 1), (WaitCause::Cpu, 1)]);
    second.events = vec![("LWLock:WALWrite".to_string(), 6), ("IO:WALSync".to_string(), 1)];
    second.checkpoint = Some(checkpoint(phase));
    for disk in [&mut second.data, &mut second.wal] {
        let disk = disk.as_mut().unwrap();
        (disk.writes, disk.write_bytes) = (allowed, allowed * 8192.0);
        disk.cap = Some(CapUse { what: "write operations", used: allowed, allowed, source: "io.max".to_string() });
    }
    second.wal_bytes = 0.1 * allowed * 8192.0;
    second
}

/// A stock server tells nothing of its checkpoint's phase but for moments, and what it writes gathers in the page cache.
#[test]
fn a_checkpoint_that_writes_at_a_cap_which_stays_is_not_the_kernel_s_flusher() {
    for phase in [CheckpointPhase::Unknown, CheckpointPhase::Write] {
        let mut second = at_cap(400.0, phase);
        second.memory.writeback_bytes = 30 * MB;
        assert_eq!(causes_of(&[], &times(&second, 22)), [CheckpointWrite], "{phase:?}");
    }
}

#[test]
fn a_cap_that_is_lowered_under_load_is_named_and_not_what_gathers_behind_it() {
    let mut second = at_cap(10.0, CheckpointPhase::Idle);
    second.memory.writeback_bytes = 5_100_000;
    let told = verdicts(&[], &times(&second, 30));
    assert_eq!(told.iter().map(|verdict| verdict.cause).collect::<Vec<_>>(), [DeviceAtCap]);
    let sentence = &told[0].sentence;
    assert!(sentence.contains("limited to 10 per second (io.max), which is less than the 200 before"), "{sentence}");
    // Nor is it WAL, which is all that the disk takes now.
    let wal = Second { wal_bytes: 80_000.0, ..second.clone() };
    assert_eq!(causes_of(&[], &times(&wal, 30)), [DeviceAtCap]);
    // A cap that is given as less than the disk takes is not what holds it.
    for disk in [&mut second.data, &mut second.wal] {
        disk.as_mut().unwrap().writes = 980.0;
    }
    assert_eq!(causes_of(&[], &times(&second, 30)), [KernelFlusher]);
}

#[test]
fn a_checkpoint_s_fsync_is_the_cause_of_the_part_of_a_stall_that_it_took() {
    let stall = |allowed| {
        let phase = |second| match second {
            0..11 => CheckpointPhase::Idle,
            11..176 => CheckpointPhase::Write,
            _ => CheckpointPhase::Sync,
        };
        (0..178).map(|second| at_cap(allowed, phase(second))).collect::<Vec<_>>()
    };
    let fsync = stuck("checkpointer", "ext4_sync_file");
    // The cap was lowered ten seconds before the checkpoint.
    assert_eq!(causes_of(&fsync, &stall(60.0)), [DeviceAtCap]);
    assert_eq!(causes_of(&fsync, &stall(400.0)), [CheckpointWrite]);
    assert_eq!(causes_of(&fsync, &stall(400.0)[163..]), [CheckpointSync]);
}

#[test]
fn the_checkpointer_s_flushes_of_wal_and_its_writeback_are_no_fsync_of_a_checkpoint() {
    let during = times(&at_cap(400.0, CheckpointPhase::Write), 10);
    for (of, call) in [("ext4_sync_file", "__x64_sys_fdatasync"), ("blk_mq_get_tag", "__x64_sys_sync_file_range")] {
        let mut looks = Looks::default();
        let stack = ["io_schedule", of, call].map(str::to_string).to_vec();
        (0..20).for_each(|_| looks.add("checkpointer", stack.clone()));
        assert_eq!(causes_of(&looks.all(), &during), [CheckpointWrite], "{call}");
    }
}

#[test]
fn the_cure_of_a_queue_for_a_lock_is_of_use_after_it() {
    let cure = cure(LockPileUp);
    assert!(cure.text.contains("who held it") && cure.command.contains("log_lock_waits"), "{cure:?}");
    // Which shows those that wait at this moment.
    assert!(!cure.command.contains("pg_stat_activity"), "{cure:?}");
}

#[test]
fn two_at_once_are_both_named_and_what_one_brings_with_it_is_not() {
    let both = causes(&[], |second| {
        second.active = 8;
        second.waits = waiting(&[(WaitCause::Lock, 4), (WaitCause::Wal, 4)]);
        full(&mut second.data);
        full(&mut second.wal);
        second.checkpoint = Some(checkpoint(CheckpointPhase::Sync));
    });
    assert_eq!(both, [LockPileUp, CheckpointSync]);
}

#[test]
fn a_server_that_was_stopped_is_none_whose_volume_hangs() {
    let hangs = |second: &mut Second| {
        second.answer = Answer::Hung(4.0);
        second.data = Some(Disk { name: "sda".to_string(), ..Disk::default() });
        second.wal = second.data.clone();
    };
    assert_eq!(causes(&stuck("checkpointer", "blk_mq_get_tag"), hangs), [VolumeHung]);
    assert_eq!(causes(&[], hangs), []);
}

#[test]
fn what_nothing_shows_is_unknown() {
    assert_eq!(causes(&[], |_| {}), []);
    let cure = cure(Unknown);
    assert!(cure.rule.is_none() && cure.command.contains("trace why"));
}

#[test]
fn sentences_name_who_it_was() {
    let before = [even()];
    let mut second = even();
    second.waits = waiting(&[(WaitCause::Lock, 4)]);
    second.blocked = vec![Blocked {
        pid: 12,
        by: 11,
        by_state: "idle in transaction".to_string(),
        seconds: 9.0,
        ..Blocked::default()
    }];
    let told = |second: &Second| {
        let window =
            Window { during: vec![second], before: before.iter().collect(), usual: Usual::default(), stuck: &[] };
        judge(&window).remove(0).sentence
    };
    let sentence = told(&second);
    assert!(sentence.contains("process 11") && sentence.contains("idle in transaction"), "{sentence}");
    // Who has prepared a transaction may be gone.
    (second.blocked[0].by, second.blocked[0].by_state) = (0, "prepared transaction".to_string());
    let sentence = told(&second);
    assert!(sentence.contains("pg_prepared_xacts") && !sentence.contains("process"), "{sentence}");
}

/// Rules that doctor has no more would send readers into nothing.
#[test]
fn each_cure_names_a_rule_that_doctor_has() {
    let rules = include_str!("../../../../docs/reference/doctor-rules.md");
    for rule in RULES {
        if let Some(doctor) = rule.doctor {
            assert!(rules.contains(&format!("\n| `{doctor}` |")), "{:?}: {doctor}", rule.cause);
        }
        assert!(rule.cure.ends_with('.'), "{:?}", rule.cause);
        assert!(!rule.covers.contains(&rule.cause), "{:?}", rule.cause);
    }
}

#[test]
fn a_cap_of_bytes_has_the_unit_that_it_was_given_in() {
    let cap = |what| CapUse { what, ..CapUse::default() };
    assert_eq!(cap("bytes written").amount((125 * MB) as f64), "125 MB");
    assert_eq!(cap("read operations").amount(3000.0), "3000");
}
