//! Why users were held: a table of causes, each with a condition on the bad seconds and those before.
//!
//! The first that can be shown is the verdict, so causes that show themselves plainly stand before those that are told by what
//! the disks did. All others that can be shown are named beside it, but for those that a cause brings with it.

use pgcalm_monitor::model::{CheckpointPhase, WaitCause};
use pgcalm_render::number::{bytes, percent, short};

use crate::baseline::median;
use crate::incident::{Cause, Cure, Evidence, Verdict};
use crate::second::{Answer, CapUse, Disk, Second};
use crate::stuck::Place;

mod window;

use window::LOCK_SHARE;
pub use window::Window;

/// A cause, how it is shown, and what cures it.
pub struct Rule {
    /// The cause.
    pub cause: Cause,
    /// Causes that it brings with it, and that are not named beside it.
    pub covers: &'static [Cause],
    /// The rule of `pgcalm doctor` that is about it.
    pub doctor: Option<&'static str>,
    /// What cures it, in a sentence.
    pub cure: &'static str,
    condition: fn(&Window) -> Option<Found>,
}

/// A sentence, and what shows that it is so.
type Found = (String, Vec<Evidence>);

use Cause::*;

const BY_DISK: &[Cause] = &[DeviceAtCap, KernelFlusher, CheckpointWrite];

/// The causes, in the order in which they are tried.
pub const RULES: &[Rule] = &[
    Rule {
        cause: VolumeHung,
        covers: &[
            CheckpointSync,
            CheckpointWrite,
            WalAtCap,
            DeviceAtCap,
            KernelFlusher,
            ColdCache,
            LockPileUp,
            LwlockConvoy,
            Journal,
            BackupReads,
            DirtyLimit,
            BackupCheckpoint,
        ],
        doctor: None,
        cure: "Ask whoever runs the volume what happened to it then; the database could not have done better.",
        condition: volume_hung,
    },
    Rule {
        cause: MemoryReclaim,
        covers: &[DeviceAtCap, ColdCache, KernelFlusher],
        doctor: Some("memory-too-small"),
        cure: "Give the server more memory, or less to shared_buffers and autovacuum.",
        condition: memory_reclaim,
    },
    Rule {
        cause: CpuQuota,
        covers: &[CpuBusy, LwlockConvoy],
        doctor: None,
        cure: "Raise the CPU quota of its control group (CPUQuota= of the unit, limits.cpu of the pod), or lift it.",
        condition: cpu_quota,
    },
    Rule {
        cause: CpuSteal,
        covers: &[CpuBusy],
        doctor: None,
        cure: "Move the machine to a host that is not overcommitted, or buy one with processors of its own.",
        condition: cpu_steal,
    },
    Rule {
        cause: LockPileUp,
        covers: &[],
        doctor: None,
        cure: "Find out why that session kept its lock; idle_in_transaction_session_timeout and lock_timeout bound such waits.",
        condition: lock_pile_up,
    },
    Rule {
        cause: SlowSynchronousStandby,
        covers: &[],
        doctor: Some("standby-falls-behind"),
        cure: "See where the standby is held up, or let commits wait for one of several (synchronous_standby_names = 'ANY 1 (...)').",
        condition: synchronous_standby,
    },
    Rule {
        cause: ArchiveBlocks,
        covers: &[WalAtCap, DeviceAtCap, KernelFlusher],
        doctor: Some("archive-backlog"),
        cure: "Mend the archive, or let it take more files at once.",
        condition: archive_blocks,
    },
    Rule {
        cause: ConnectionStorm,
        covers: &[CpuBusy, LwlockConvoy],
        doctor: None,
        cure: "Put a connection pooler in front of the server, and let clients wait before they try again.",
        condition: connection_storm,
    },
    Rule {
        cause: TemporaryFiles,
        covers: &[DeviceAtCap, KernelFlusher, DirtyLimit],
        doctor: None,
        cure: "Give these statements more work_mem, or put temp_tablespaces on another disk; log_temp_files tells which they are.",
        condition: temporary_files,
    },
    Rule {
        cause: BackupCheckpoint,
        covers: &[CheckpointSync, CheckpointWrite, DeviceAtCap, KernelFlusher, WalAtCap, BackupReads, DirtyLimit],
        doctor: None,
        cure: "Let the backup wait for a spread checkpoint: pg_basebackup --checkpoint=spread, or fast => false.",
        condition: backup_checkpoint,
    },
    Rule {
        cause: CheckpointSync,
        covers: &[CheckpointWrite, DeviceAtCap, KernelFlusher, WalAtCap, DirtyLimit, ColdCache],
        doctor: Some("checkpoint-sync-long"),
        cure: "Let what checkpoints write reach the disk before their fsync: pg_calm does that, checkpoint_flush_after in part.",
        condition: checkpoint_sync,
    },
    Rule {
        cause: WalAtCap,
        covers: BY_DISK,
        doctor: Some("device-at-cap"),
        cure: "Make less WAL (wal_compression, longer checkpoints), or give pg_wal a disk with more operations.",
        condition: wal_at_cap,
    },
    Rule {
        cause: DirtyLimit,
        covers: BY_DISK,
        doctor: Some("dirty-limit-beyond-checkpoint"),
        cure: "Lower vm.dirty_background_bytes, so that the kernel begins to write long before it has to hold writers.",
        condition: dirty_limit,
    },
    Rule {
        cause: Journal,
        covers: BY_DISK,
        doctor: Some("shared-journal"),
        cure: "Give each instance that has limits a file system of its own.",
        condition: journal,
    },
    Rule {
        cause: BackupReads,
        covers: &[DeviceAtCap, ColdCache],
        doctor: Some("device-at-cap"),
        cure: "Slow the backup down (pg_basebackup --max-rate), take it from a standby, or at another time.",
        condition: backup_reads,
    },
    Rule {
        cause: ColdCache,
        covers: &[DeviceAtCap],
        doctor: Some("shared-buffers-small"),
        cure: "Warm the cache after a restart (pg_prewarm with autoprewarm), or give it more memory.",
        condition: cold_cache,
    },
    Rule {
        cause: CheckpointWrite,
        covers: &[DeviceAtCap, KernelFlusher],
        doctor: Some("max-wal-size"),
        cure: "Let checkpoints come by time and be spread: a larger max_wal_size, and no CHECKPOINT by hand under load.",
        condition: checkpoint_write,
    },
    Rule {
        cause: KernelFlusher,
        covers: &[DeviceAtCap],
        doctor: Some("dirty-limit-beyond-checkpoint"),
        cure: "Let the kernel write earlier and less at once: lower vm.dirty_background_bytes; pg_calm writes before it comes.",
        condition: kernel_flusher,
    },
    Rule {
        cause: LwlockConvoy,
        covers: &[],
        doctor: None,
        cure: "See which lock it is: fewer sessions at once (a pooler) ends most such queues.",
        condition: lwlock_convoy,
    },
    Rule {
        cause: DeviceAtCap,
        covers: &[],
        doctor: Some("device-at-cap"),
        cure: "Raise the cap, or find out who used it up.",
        condition: device_at_cap,
    },
    Rule {
        cause: CpuBusy,
        covers: &[],
        doctor: None,
        cure: "Find the statements that took the processors (pg_stat_statements), or give the host more of them.",
        condition: cpu_busy,
    },
];

/// All that can be shown, the verdict first; nothing if the cause is unknown.
pub fn judge(window: &Window) -> Vec<Verdict> {
    let mut covered: Vec<Cause> = Vec::new();
    let mut verdicts = Vec::new();
    for rule in RULES {
        if covered.contains(&rule.cause) {
            continue;
        }
        if let Some((sentence, evidence)) = (rule.condition)(window) {
            covered.extend(rule.covers);
            verdicts.push(Verdict { cause: rule.cause, sentence, evidence });
        }
    }
    verdicts
}

/// What cures it.
pub fn cure(cause: Cause) -> Cure {
    let Some(rule) = RULES.iter().find(|rule| rule.cause == cause) else {
        return Cure {
            rule: None,
            text: "Next time, `trace why` beside the record shows what processes did in the kernel.".to_string(),
            command: "sudo pgcalm trace why".to_string(),
        };
    };
    let command = match (rule.doctor, cause) {
        (_, LockPileUp) => "sudo pgcalm trace locks".to_string(),
        (Some(_), SlowSynchronousStandby) => "pgcalm lag".to_string(),
        // Of these rules it is the only one that doctor can apply itself.
        (Some("max-wal-size"), _) => "sudo pgcalm doctor --apply --only max-wal-size".to_string(),
        _ => "sudo pgcalm doctor".to_string(),
    };
    Cure { rule: rule.doctor.map(str::to_string), text: rule.cure.to_string(), command }
}

fn data(second: &Second) -> Option<&Disk> {
    second.data.as_ref()
}

fn wal(second: &Second) -> Option<&Disk> {
    second.wal.as_ref()
}

fn evidence(what: impl Into<String>, during: String, before: String) -> Evidence {
    Evidence { what: what.into(), during, before }
}

fn shares(what: &str, during: f64, before: f64) -> Evidence {
    evidence(what, percent(during), percent(before))
}

/// What a disk did against its cap.
fn disk_evidence(window: &Window, of: fn(&Second) -> Option<&Disk>) -> Vec<Evidence> {
    let Some(disk) = window.disk(of) else {
        return Vec::new();
    };
    let (operations, before) = window.means(|second| of(second).map(|disk| disk.reads + disk.writes));
    let mut rows = vec![evidence(format!("operations per second of {}", disk.name), short(operations), short(before))];
    match &disk.cap {
        Some(CapUse { what, used, allowed, source }) => rows.push(evidence(
            format!("{what} per second of {}, most", disk.name),
            format!("{} of {} ({source})", short(*used), short(*allowed)),
            String::new(),
        )),
        None => {
            let (busy, before) = window.means(|second| of(second).map(|disk| disk.busy));
            rows.push(shares(&format!("time in which {} was busy", disk.name), busy, before));
        }
    }
    rows
}

fn waits_evidence(window: &Window, causes: &[WaitCause], what: &str) -> Evidence {
    evidence(format!("sessions' time that went into {what}"), percent(window.waiting(causes)), String::new())
}

fn name(disk: Option<&Disk>) -> String {
    disk.map_or_else(|| "the disk".to_string(), |disk| format!("{} ({})", disk.name, disk.path))
}

fn volume_hung(window: &Window) -> Option<Found> {
    use WaitCause::{DataIo, DataSync, OtherIo, Wal, WalLock};
    let is_idle = |disk: &Disk| disk.reads + disk.writes < 1.0;
    type Of = fn(&Second) -> Option<&Disk>;
    let disks: [(Of, &[WaitCause]); 2] = [(data, &[DataIo, DataSync, OtherIo]), (wal, &[Wal, WalLock])];
    for (of, waits) in disks {
        // One that nothing is asked of does nothing, either: sessions wait for it, or, where the server tells nothing, none of its
        // disks does anything.
        let held = |second: &Second| match second.answer {
            Answer::Hung(_) => second.disks().all(is_idle),
            _ => waits.iter().any(|cause| second.waiting(*cause) > 0),
        };
        let hangs = window.share(|second| of(second).is_some_and(|disk| disk.hangs() || is_idle(disk) && held(second)));
        let (_, before) = window.means(|second| of(second).map(|disk| disk.reads + disk.writes));
        let seconds = hangs * window.during.len() as f64;
        if hangs >= 0.5 && seconds >= 2.0 && before >= 5.0 {
            let name = name(window.disk(of));
            return Some((
                format!(
                    "The volume {name} did nothing at all for {} s: no read and no write was completed.",
                    short(seconds)
                ),
                disk_evidence(window, of),
            ));
        }
    }
    None
}

fn memory_reclaim(window: &Window) -> Option<Found> {
    let pressure = |second: &Second| second.group.and_then(|group| group.pressure).or(second.pressure);
    let (full, full_before) = window.means(|second| pressure(second).map(|pressure| pressure.memory_full));
    let (some, some_before) = window.means(|second| pressure(second).map(|pressure| pressure.memory_some));
    let (hits, hits_before) = window.means(|second| second.group.and_then(|group| group.memory_limit_hits_per_second));
    let stuck = window.stuck_at(Place::Reclaim);
    let by_pressure = (full >= 0.05 && full >= 3.0 * full_before) || (some >= 0.2 && some >= 3.0 * some_before);
    let by_limit = hits >= 50.0 && hits >= 3.0 * hits_before && (stuck > 0.0 || some >= 0.05);
    let is_short = by_pressure || by_limit || stuck >= 0.3;
    (is_short && !window.waits_for_idle_session()).then(|| {
        let mut rows = vec![shares("time in which tasks waited for memory", some, some_before)];
        if hits > 0.0 {
            rows.push(evidence("times per second that memory stood at its limit", short(hits), short(hits_before)));
        }
        ("Memory ran out: processes had to wait until the kernel had reclaimed some.".to_string(), rows)
    })
}

fn cpu_quota(window: &Window) -> Option<Found> {
    let (throttled, before) = window.means(|second| second.group.and_then(|group| group.throttled));
    (throttled >= 0.2 && throttled >= 2.0 * before && !window.waits_for_idle_session()).then(|| {
        (
            "The control group had used up its quota of CPU: the kernel stopped its processes until the next period."
                .to_string(),
            vec![shares("time in which the quota was used up", throttled, before)],
        )
    })
}

fn cpu_steal(window: &Window) -> Option<Found> {
    let (steal, before) = window.means(|second| second.cpu.map(|cpu| cpu.steal));
    (steal >= 0.15 && steal >= 2.0 * before && !window.waits_for_idle_session()).then(|| {
        (
            "The hypervisor gave this machine's processors to others.".to_string(),
            vec![shares("processors' time that was stolen", steal, before)],
        )
    })
}

fn lock_pile_up(window: &Window) -> Option<Found> {
    let most = window.most(WaitCause::Lock);
    if window.waiting(&[WaitCause::Lock]) < LOCK_SHARE || most < 2 {
        return None;
    }
    let head = window.head_of_lock_queue().map_or(String::new(), |head| {
        let state = if head.by_state.is_empty() { "unknown" } else { &head.by_state };
        format!(" The queue stood behind process {}, whose state was: {state}.", head.by)
    });
    let rows = vec![
        waits_evidence(window, &[WaitCause::Lock], "locks of rows and tables"),
        evidence("sessions that waited for a lock, most", most.to_string(), String::new()),
    ];
    Some((format!("Up to {most} sessions waited for locks that others held.{head}"), rows))
}

fn synchronous_standby(window: &Window) -> Option<Found> {
    let causes = [WaitCause::SynchronousReplication];
    if window.waiting(&causes) < 0.4 {
        return None;
    }
    let standbys = window.during.iter().flat_map(|second| &second.standbys);
    let slowest = standbys
        .filter(|standby| matches!(standby.sync_state.as_str(), "sync" | "quorum"))
        .max_by(|a, b| a.flush_lag_seconds.unwrap_or(0.0).total_cmp(&b.flush_lag_seconds.unwrap_or(0.0)));
    let mut rows = vec![waits_evidence(window, &causes, "waiting for the standby")];
    let name = match slowest {
        None => "A synchronous standby".to_string(),
        Some(standby) => {
            if let Some(lag) = standby.flush_lag_seconds {
                rows.push(evidence("lag of its durable WAL, most", format!("{} s", short(lag)), String::new()));
            }
            if let Some(place) = &standby.held_up_at {
                rows.push(evidence("where WAL was held up", place.clone(), String::new()));
            }
            format!("The synchronous standby {}", standby.name)
        }
    };
    Some((format!("{name} was slow to confirm, and commits waited for it."), rows))
}

fn archive_blocks(window: &Window) -> Option<Found> {
    let guarded = window.share(|second| second.guard.as_deref() == Some("archive"));
    let (queue, before) = window.means(|second| second.archives.then_some(second.archive_queue as f64));
    let fails = window.share(|second| second.archive_fails);
    let grows = queue >= before + 2.0 && (window.is_full(wal) >= 0.5 || fails >= 0.5) && window.waiting_for_io() >= 0.3;
    (guarded >= 0.3 || grows).then(|| {
        let mut rows = vec![evidence("files that waited to be archived", short(queue), short(before))];
        if fails > 0.0 {
            rows.push(shares("seconds after an attempt that failed", fails, 0.0));
        }
        let whom = if guarded >= 0.3 { "pg_calm_guard held writers for it" } else { "it took the disk from commits" };
        (format!("The archive did not keep up with WAL, and {whom}."), rows)
    })
}

fn connection_storm(window: &Window) -> Option<Found> {
    let (logins, _) = window.means(|second| Some(second.logins));
    let most = window.during.iter().map(|second| second.logins).fold(0.0, f64::max);
    let (connections, before) = window.means(|second| Some(second.connections as f64));
    let limit = window.during.iter().map(|second| second.max_connections).max().unwrap_or(0) as f64;
    let storm = most >= 20.0 && logins >= 5.0 * (window.usual.logins + 1.0);
    let full = limit > 0.0 && connections >= 0.95 * limit && connections >= 1.2 * before;
    (storm || full).then(|| {
        (
            format!("Clients came all at once: up to {} new sessions per second.", short(most)),
            vec![
                evidence("sessions begun per second", short(logins), short(window.usual.logins)),
                evidence("connections", format!("{} of {}", short(connections), short(limit)), short(before)),
            ],
        )
    })
}

fn temporary_files(window: &Window) -> Option<Found> {
    let spilling = |second: &Second| {
        let events = second.events.iter().filter(|(event, _)| event.to_ascii_lowercase().starts_with("io:buffile"));
        events.map(|(_, sessions)| *sessions).sum::<u64>()
    };
    let spills = window.share(|second| spilling(second) > 0);
    let (written, before) = window.means(|second| Some(second.temporary_bytes));
    let by_bytes = written >= f64::from(20 << 20) && written >= 5.0 * before;
    ((spills >= 0.3 || by_bytes) && (window.is_full(data) >= 0.3 || window.waiting_for_io() >= 0.3)).then(|| {
        let mut rows = vec![shares("seconds in which a session read or wrote temporary files", spills, 0.0)];
        rows.push(evidence("bytes of temporary files per second", bytes(written), bytes(before)));
        rows.extend(disk_evidence(window, data));
        ("Statements spilled into temporary files, and these took the disk.".to_string(), rows)
    })
}

fn backup_checkpoint(window: &Window) -> Option<Found> {
    let waits = window.share(|second| {
        let waits = |phase: &Option<String>| phase.as_ref().is_some_and(|phase| phase.contains("checkpoint"));
        second.maintenance.iter().any(|one| one.kind == "base_backup" && waits(&one.phase))
    });
    // While it waits for a spread one, others hold users.
    (waits >= 0.3 && window.syncs()).then(|| {
        let mut rows = vec![shares("seconds in which a base backup waited for its checkpoint", waits, 0.0)];
        rows.extend(disk_evidence(window, data));
        (
            "A base backup asked for a checkpoint at once, which wrote and synced all it had at full speed."
                .to_string(),
            rows,
        )
    })
}

fn checkpoint_sync(window: &Window) -> Option<Found> {
    let sync = window.phase(&[CheckpointPhase::Sync]);
    // Sessions sync files themselves where the checkpointer does not come to it, but also new tables with wal_level = minimal.
    let idle = window.phase(&[CheckpointPhase::Idle]);
    (window.syncs() || window.waiting(&[WaitCause::DataSync]) >= 0.4 && idle < 0.5).then(|| {
        let mut rows = vec![shares("bad seconds in the checkpoint's sync phase", sync, 0.0)];
        rows.extend(disk_evidence(window, data));
        let disk = name(window.disk(data));
        let checkpoint = window.checkpoint();
        (
            format!(
                "{checkpoint} synced its files: {disk} had to write at once what had gathered, and all others waited."
            ),
            rows,
        )
    })
}

fn wal_at_cap(window: &Window) -> Option<Found> {
    let causes = [WaitCause::Wal, WaitCause::WalLock];
    let (written, before) = window.means(|second| Some(second.wal_bytes));
    let (on_disk, _) = window.means(|second| second.wal.as_ref().map(|disk| disk.write_bytes));
    // On a disk that data pages fill, WAL is who suffers.
    let is_wal = written >= 0.4 * on_disk;
    let alone = window.disk(wal).is_some_and(|disk| !disk.is_shared);
    (window.waiting(&causes) >= 0.4 && window.is_full(wal) >= 0.5 && (is_wal || alone)).then(|| {
        let mut rows = vec![waits_evidence(window, &causes, "WAL")];
        rows.push(evidence("WAL per second", bytes(written), bytes(before)));
        let (images, images_before) = window.means(|second| Some(second.page_images));
        rows.push(evidence("full-page images per second", short(images), short(images_before)));
        rows.extend(disk_evidence(window, wal));
        let disk = name(window.disk(wal));
        (format!("WAL was more than {disk} takes: commits queued for its flush."), rows)
    })
}

fn dirty_limit(window: &Window) -> Option<Found> {
    // Writers are slowed down from halfway between both thresholds on (mm/page-writeback.c, dirty_freerun_ceiling()).
    let ceiling = |second: &Second| {
        let memory = &second.memory;
        Some((memory.background_threshold_bytes? + memory.dirty_threshold_bytes?) as f64 / 2.0)
    };
    let dirty = |second: &Second| (second.memory.dirty_bytes + second.memory.writeback_bytes) as f64;
    let above =
        window.share(|second| ceiling(second).is_some_and(|ceiling| ceiling > 0.0 && dirty(second) >= 0.9 * ceiling));
    let stuck = window.stuck_at(Place::DirtyLimit);
    (stuck >= 0.3 || above >= 0.5 && window.is_full(data) >= 0.3).then(|| {
        let (during, before) = window.means(|second| Some(dirty(second)));
        let mut rows = vec![evidence("dirty memory of the host", bytes(during), bytes(before))];
        let ceiling = median(window.during.iter().filter_map(|second| ceiling(second)).collect());
        rows.push(evidence("from where on writers are slowed down", bytes(ceiling), String::new()));
        if stuck > 0.0 {
            rows.push(shares("stuck processes' time in balance_dirty_pages()", stuck, 0.0));
        }
        ("Dirty memory had reached the kernel's limit: whoever wrote a page was made to wait.".to_string(), rows)
    })
}

fn journal(window: &Window) -> Option<Found> {
    let stuck = window.stuck_at(Place::Journal);
    (stuck >= 0.4).then(|| {
        let neighbours: Vec<String> = window.during.iter().flat_map(|second| second.neighbours.clone()).collect();
        let whose = match neighbours.first() {
            Some(neighbour) => format!(", which instance {neighbour} has on the same disk"),
            None => String::new(),
        };
        (
            format!("Processes waited for the journal of their file system{whose}: one that is held up holds up all."),
            vec![shares("stuck processes' time in the journal", stuck, 0.0)],
        )
    })
}

fn backup_reads(window: &Window) -> Option<Found> {
    let runs = window.share(|second| second.runs("base_backup") || second.runs("dump"));
    let (read, before) = window.means(|second| second.data.as_ref().map(|disk| disk.read_bytes));
    let takes = window.is_full(data) >= 0.5 || window.waiting(&[WaitCause::DataIo]) >= 0.4;
    let (total, _) = window.means(|second| second.data.as_ref().map(|disk| disk.read_bytes + disk.write_bytes));
    (runs >= 0.5 && takes && read >= 0.4 * total && read > 0.0).then(|| {
        let mut rows = vec![evidence("bytes read per second from the data's disk", bytes(read), bytes(before))];
        rows.extend(disk_evidence(window, data));
        let kind = if window.share(|second| second.runs("base_backup")) > 0.0 { "base backup" } else { "dump" };
        (format!("A {kind} read from {} as fast as it could.", name(window.disk(data))), rows)
    })
}

fn cold_cache(window: &Window) -> Option<Found> {
    let reads = window.share(|second| {
        let most = second.events.iter().filter(|(event, _)| event != "cpu").max_by_key(|(_, sessions)| *sessions);
        most.is_some_and(|(event, _)| event.eq_ignore_ascii_case("IO:DataFileRead") || event.starts_with("IO:Aio"))
    });
    let (blocks, before) = window.means(|second| Some(second.blocks_read));
    let young = window.share(|second| second.uptime.is_some_and(|uptime| uptime < 900.0));
    let more = blocks >= 2.0 * before && blocks >= 100.0 || young >= 0.5;
    (reads >= 0.5 && more && window.waiting(&[WaitCause::DataIo]) >= 0.4).then(|| {
        let mut rows = vec![evidence("blocks read per second", short(blocks), short(before))];
        rows.extend(disk_evidence(window, data));
        let why = if young >= 0.5 { "the server had just been started" } else { "they were not cached" };
        (format!("Statements waited for pages to be read from {}: {why}.", name(window.disk(data))), rows)
    })
}

fn checkpoint_write(window: &Window) -> Option<Found> {
    let writes = window.phase(&[CheckpointPhase::Write, CheckpointPhase::Prepare, CheckpointPhase::Drain]);
    (writes >= 0.5 && window.is_full(data) >= 0.5 && window.waiting_for_io() >= 0.2).then(|| {
        let mut rows = vec![shares("bad seconds in the checkpoint's write phase", writes, 0.0)];
        rows.extend(disk_evidence(window, data));
        let checkpoint = window.checkpoint();
        (format!("{checkpoint} wrote more than {} takes beside the users' work.", name(window.disk(data))), rows)
    })
}

fn kernel_flusher(window: &Window) -> Option<Found> {
    let (writeback, before) = window.means(|second| Some(second.memory.writeback_bytes as f64));
    let (written, written_before) = window.means(|second| second.data.as_ref().map(|disk| disk.write_bytes));
    let idle = window.phase(&[CheckpointPhase::Idle, CheckpointPhase::Write, CheckpointPhase::Unknown]);
    // Scattered pages take operations, not bytes; WAL that grows takes them itself.
    let (writes, writes_before) = window.means(|second| second.data.as_ref().map(|disk| disk.writes));
    let (wal, wal_before) = window.means(|second| Some(second.wal_bytes));
    let comes = writeback >= 3.0 * before + f64::from(4 << 20)
        || written >= 3.0 * written_before + f64::from(4 << 20)
        || writes >= 2.0 * writes_before && wal <= 1.5 * wal_before;
    (idle >= 0.5 && comes && window.is_full(data) >= 0.5 && window.waiting_for_io() >= 0.2).then(|| {
        let mut rows = vec![evidence("page cache being written", bytes(writeback), bytes(before))];
        rows.extend(disk_evidence(window, data));
        (format!("The kernel's flusher wrote dirty pages to {} all at once.", name(window.disk(data))), rows)
    })
}

fn lwlock_convoy(window: &Window) -> Option<Found> {
    let causes = [WaitCause::LightweightLock];
    (window.waiting(&causes) >= 0.4 && window.most(WaitCause::LightweightLock) >= 2).then(|| {
        let events = window.during.iter().flat_map(|second| &second.events);
        let lock = events.filter(|(event, _)| event.starts_with("LWLock:")).max_by_key(|(_, sessions)| *sessions);
        let lock = lock.map_or("a lock", |(event, _)| event.trim_start_matches("LWLock:"));
        (
            format!("Sessions queued for the server's lightweight lock {lock}."),
            vec![waits_evidence(window, &causes, "lightweight locks")],
        )
    })
}

fn device_at_cap(window: &Window) -> Option<Found> {
    let of = [data, wal].into_iter().find(|of| window.is_full(*of) >= 0.5)?;
    (window.waiting_for_io() >= 0.3).then(|| {
        let disk = name(window.disk(of));
        (format!("{disk} had as much to do as it can, and sessions waited for it."), disk_evidence(window, of))
    })
}

fn cpu_busy(window: &Window) -> Option<Found> {
    let (busy, before) = window.means(|second| second.cpu.map(|cpu| cpu.busy));
    let (some, some_before) = window.means(|second| second.pressure.map(|pressure| pressure.cpu_some));
    // Others may keep the processors busy while sessions wait for something else.
    let runs = window.waiting(&[WaitCause::Cpu]);
    (busy >= 0.95 && busy >= before + 0.1 && runs >= 0.4).then(|| {
        (
            "All processors were busy, and tasks waited for one.".to_string(),
            vec![
                shares("processors' time in use", busy, before),
                shares("time in which a task waited for a processor", some, some_before),
            ],
        )
    })
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
