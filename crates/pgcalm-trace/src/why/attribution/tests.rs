use super::*;

fn backend(what: What, ns: u64) -> Spent {
    Spent { role: Role::Backend, what, ns }
}

fn wal_sync(role: Role, throttled: bool, ns: u64) -> Spent {
    Spent {
        role,
        what: What::Uninterruptible {
            frames: vec!["io_schedule".into()],
            operation: Operation::Sync,
            file: FileKind::Wal,
            throttled,
        },
        ns,
    }
}

fn event(event: u32, ns: u64) -> Spent {
    backend(What::WaitEvent { event: Some(event), operation: Operation::Other, polls: true }, ns)
}

fn sum(attribution: &Attribution) -> f64 {
    attribution.shares.iter().map(|share| share.seconds).sum()
}

fn seconds(attribution: &Attribution, cause: Cause) -> f64 {
    attribution.shares.iter().filter(|share| share.cause == cause).map(|share| share.seconds).sum()
}

#[test]
fn shares_add_up_to_what_is_neither_running_nor_the_clients() {
    let spent = [
        backend(What::OnCpu, 100),
        event(EVENT_CLIENT, 50),
        event(EVENT_TIMEOUT | 3, 7),
        event(0, 5),
        backend(What::RunQueue, 20),
        backend(What::HeavyweightLock(5), 30),
        backend(What::Lwlock("BufferContent".into()), 11),
        wal_sync(Role::Backend, false, 40),
        // Not a backend's time.
        wal_sync(Role::WalWriter, false, 1000),
    ];
    let result = attribute(&spent, &WalLoad::default());
    assert_eq!(result.on_cpu_ns, 100);
    assert_eq!(result.client_ns, 50);
    assert_eq!(result.lost_ns, 113);
    assert!((sum(&result) * 1e9 - 113.0).abs() < 1e-6);
    assert!((seconds(&result, Cause::Unknown) * 1e9 - 5.0).abs() < 1e-6);
    let lock = result.shares.iter().find(|s| s.cause == Cause::Lock).unwrap();
    assert_eq!(lock.object.as_deref(), Some("transactionid"));
    let parts: f64 = result.shares.iter().map(|share| share.share).sum();
    assert!((parts - 1.0).abs() < 1e-9);
}

#[test]
fn who_waits_for_a_wal_lock_is_charged_what_its_holders_wait_for() {
    let spent = [
        backend(What::Lwlock("WALWrite".into()), 1000),
        wal_sync(Role::WalWriter, true, 30),
        wal_sync(Role::Backend, false, 10),
    ];
    let result = attribute(&spent, &WalLoad::default());
    let through = |cause| {
        let share = result.shares.iter().find(|share| share.cause == cause && share.through.is_some()).unwrap();
        assert_eq!(share.through.as_deref(), Some("WALWrite"));
        share.seconds * 1e9
    };
    assert!((through(Cause::BlockThrottling) - 750.0).abs() < 1e-6);
    assert!((through(Cause::WalWrite) - 250.0).abs() < 1e-6);
    assert!((sum(&result) * 1e9 - 1010.0).abs() < 1e-6);
}

#[test]
fn where_only_a_long_call_called_for_a_verdict_its_cause_is_named_and_not_that_of_the_others() {
    // 2238 commits went well, with one processor for many, while one call was held by a control group.
    let spent = [backend(What::RunQueue, 550), wal_sync(Role::Backend, true, 450)];
    let result = attribute(&spent, &WalLoad::default());
    let lost_s = 1000.0 / 1e9;
    let of = |calls: Option<&[Spent]>| {
        let (cause, share) = decisive(&result.shares, lost_s, calls).unwrap();
        (cause, (share * 100.0).round())
    };
    assert_eq!(of(None), (Cause::Cpu, 55.0));
    let mut calls = spent.clone();
    calls[0].role = Role::Unknown;
    assert_eq!(of(Some(&calls)), (Cause::BlockThrottling, 45.0));
    // It waited for a lock; what its holder waited for is told by the others' time.
    let write = |role, frame: &str, ns| Spent {
        role,
        what: What::Uninterruptible {
            frames: vec![frame.into()],
            operation: Operation::Write,
            file: FileKind::Data,
            throttled: false,
        },
        ns,
    };
    let calls =
        [write(Role::Backend, "rwsem_down_write_slowpath", 900), write(Role::Unknown, "balance_dirty_pages", 900)];
    assert_eq!(of(Some(&calls)).0, Cause::DirtyThrottling);
    // Ended before any sample of this second.
    assert_eq!(of(Some(&[])), (Cause::Cpu, 55.0));
}

#[test]
fn a_wal_lock_whose_holders_never_slept_is_only_a_lock() {
    let result = attribute(&[backend(What::Lwlock("WALWrite".into()), 9)], &WalLoad::default());
    assert_eq!(result.shares.len(), 1);
    assert_eq!(result.shares[0].cause, Cause::Lwlock);
}

#[test]
fn who_waits_for_an_inode_lock_is_charged_what_its_holder_waits_for() {
    let write = |frame: &str, ns| {
        backend(
            What::Uninterruptible {
                frames: vec![frame.to_string()],
                operation: Operation::Write,
                file: FileKind::Data,
                throttled: true,
            },
            ns,
        )
    };
    let locked = [write("rwsem_down_write_slowpath", 30)];
    let result = attribute(&locked, &WalLoad::default());
    assert_eq!(result.shares[0].cause, Cause::KernelLock);

    let held = [
        write("rwsem_down_write_slowpath", 30),
        write("balance_dirty_pages", 10),
        // Of another kind of file.
        wal_sync(Role::WalWriter, false, 1000),
    ];
    let result = attribute(&held, &WalLoad::default());
    assert!((seconds(&result, Cause::DirtyThrottling) * 1e9 - 40.0).abs() < 1e-6);
    assert!((sum(&result) * 1e9 - 40.0).abs() < 1e-6);
}

#[test]
fn who_reads_holds_no_lock_that_others_wait_for() {
    let on = |file, operation, frame: &str, ns| {
        let frames = vec![frame.to_string()];
        Spent { role: Role::Unknown, what: What::Uninterruptible { frames, operation, file, throttled: true }, ns }
    };
    // A walsender that is held back beside a walwriter whose fsync is slow.
    let spent = [
        backend(What::Lwlock("WALWrite".into()), 30),
        wal_sync(Role::WalWriter, false, 10),
        on(FileKind::Wal, Operation::Read, "io_schedule", 1000),
    ];
    let result = attribute(&spent, &WalLoad::default());
    assert!((seconds(&result, Cause::WalWrite) * 1e9 - 30.0).abs() < 1e-6, "{result:?}");
    let locked =
        || Spent { role: Role::Backend, ..on(FileKind::Data, Operation::Write, "rwsem_down_write_slowpath", 30) };
    let read = || on(FileKind::Data, Operation::Read, "io_schedule", 1000);
    let written = attribute(
        &[locked(), read(), on(FileKind::Data, Operation::Write, "balance_dirty_pages", 10)],
        &WalLoad::default(),
    );
    assert!((seconds(&written, Cause::DirtyThrottling) * 1e9 - 30.0).abs() < 1e-6, "{written:?}");
    // Somebody has the lock: where nobody else is seen, it is who reads.
    let only_read = attribute(&[locked(), read()], &WalLoad::default());
    assert!((seconds(&only_read, Cause::BlockThrottling) * 1e9 - 30.0).abs() < 1e-6, "{only_read:?}");
}

#[test]
fn page_images_are_charged_their_part_of_the_bytes_but_no_more_than_the_growth() {
    let spent = [wal_sync(Role::Backend, false, 1000)];
    let surge = WalLoad {
        commits: 10,
        page_image_share: 0.9,
        usual_page_image_share: Some(0.1),
        usual_wait_per_commit_ns: Some(20.0),
    };
    let result = attribute(&spent, &surge);
    assert!((seconds(&result, Cause::FullPageImages) * 1e9 - 800.0).abs() < 1e-6);
    assert!((seconds(&result, Cause::WalWrite) * 1e9 - 200.0).abs() < 1e-6);
    assert!((result.wal_ns - 1000.0).abs() < 1e-6);

    let bytes = WalLoad { page_image_share: 0.5, ..surge };
    let result = attribute(&spent, &bytes);
    assert!((seconds(&result, Cause::FullPageImages) * 1e9 - 500.0).abs() < 1e-6);

    let usual = WalLoad { usual_page_image_share: Some(0.95), ..surge };
    let result = attribute(&spent, &usual);
    assert_eq!(seconds(&result, Cause::FullPageImages), 0.0);

    let no_growth = WalLoad { usual_wait_per_commit_ns: Some(100.0), ..surge };
    let result = attribute(&spent, &no_growth);
    assert_eq!(seconds(&result, Cause::FullPageImages), 0.0);
}

#[test]
fn wait_events_tell_of_locks_where_probes_do_not() {
    let spent = [
        event(EVENT_LWLOCK | 8, 10),
        event(EVENT_LWLOCK | 60, 3),
        event(EVENT_LOCK | 5, 2),
        wal_sync(Role::WalWriter, false, 1),
    ];
    let result = attribute(&spent, &WalLoad::default());
    assert!((seconds(&result, Cause::WalWrite) * 1e9 - 10.0).abs() < 1e-6);
    assert!((seconds(&result, Cause::Lwlock) * 1e9 - 3.0).abs() < 1e-6);
    assert!((seconds(&result, Cause::Lock) * 1e9 - 2.0).abs() < 1e-6);
}

/// PostgreSQL 15: 55 is WALInsert, whose holders wait for room in the WAL buffers; 56 BufferContent, IPC 9 CheckpointDone.
#[test]
fn waits_have_the_names_of_the_server_s_version() {
    let of = |event: u32, ns| {
        let what = What::WaitEvent { event: Some(event), operation: Operation::Other, polls: true };
        backend(named(what, 15), ns)
    };
    let spent = [
        of(EVENT_LWLOCK | 55, 10),
        of(EVENT_LWLOCK | 56, 3),
        of(EVENT_IPC | 9, 2),
        of(EVENT_CLIENT, 100),
        wal_sync(Role::WalWriter, true, 1),
    ];
    let result = attribute(&spent, &WalLoad::default());
    let shares: Vec<(Cause, Option<&str>, Option<&str>)> =
        result.shares.iter().map(|share| (share.cause, share.object.as_deref(), share.through.as_deref())).collect();
    assert_eq!(
        shares,
        [
            (Cause::BlockThrottling, None, Some("WALInsert")),
            (Cause::Lwlock, Some("BufferContent"), None),
            (Cause::Ipc, Some("CheckpointDone"), None),
        ]
    );
    assert_eq!(result.client_ns, 100);
}

#[test]
fn who_waits_for_a_read_of_an_io_worker_waits_for_the_data_file() {
    // A call of its own that sleeps so, as on FUSE, may be on any file.
    let own = What::WaitEvent { event: Some(EVENT_IO | 40), operation: Operation::Sync, polls: false };
    let result = attribute(&[event(EVENT_IO | 1, 10), backend(own, 3)], &WalLoad::default());
    let read = &result.shares[0];
    assert_eq!(
        (read.cause, read.file, read.object.as_deref()),
        (Cause::DataRead, FileKind::Data, Some("asynchronous"))
    );
    assert!((read.seconds * 1e9 - 10.0).abs() < 1e-6);
    assert!((seconds(&result, Cause::Unknown) * 1e9 - 3.0).abs() < 1e-6);
}

#[test]
fn before_version_14_polling_without_a_lock_is_the_client() {
    let what = What::WaitEvent { event: None, operation: Operation::Other, polls: true };
    let result = attribute(&[backend(what, 5)], &WalLoad::default());
    assert_eq!(result.client_ns, 5);
}
