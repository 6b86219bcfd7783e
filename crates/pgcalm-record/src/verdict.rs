//! Why users were held: a table of causes, each with a condition on the bad seconds and those before.
//!
//! The first that can be shown is the verdict, so causes that show themselves plainly stand before those that are told by what
//! the disks did. All others that can be shown are named beside it, but for those that a cause brings with it. The conditions are in
//! the folder beside, by what they look at.

use crate::incident::{Cause, Cure, Evidence, Verdict};

mod backup;
mod checkpoint;
mod cpu;
mod disk;
mod evidence;
mod memory;
mod sessions;
mod wal;
mod window;

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
        cause: ServerRestarted,
        covers: &[],
        doctor: None,
        cure: "See in the server's log why it went down; max_wal_size bounds how much WAL a recovery has to read.",
        condition: sessions::server_restarted,
    },
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
        condition: disk::volume_hung,
    },
    Rule {
        cause: MemoryReclaim,
        covers: &[DeviceAtCap, ColdCache, KernelFlusher],
        doctor: Some("memory-too-small"),
        cure: "Give the server more memory, or less to shared_buffers and autovacuum.",
        condition: memory::memory_reclaim,
    },
    Rule {
        cause: CpuQuota,
        covers: &[CpuBusy, LwlockConvoy],
        doctor: None,
        cure: "Raise the CPU quota of its control group (CPUQuota= of the unit, limits.cpu of the pod), or lift it.",
        condition: cpu::cpu_quota,
    },
    Rule {
        cause: CpuSteal,
        covers: &[CpuBusy],
        doctor: None,
        cure: "Move the machine to a host that is not overcommitted, or buy one with processors of its own.",
        condition: cpu::cpu_steal,
    },
    Rule {
        cause: LockPileUp,
        covers: &[],
        doctor: None,
        cure: "The record names who held it: find that process in the server's log; idle_in_transaction_session_timeout and \
               lock_timeout bound such waits, and log_lock_waits logs the next.",
        condition: sessions::lock_pile_up,
    },
    Rule {
        cause: SlowSynchronousStandby,
        covers: &[],
        doctor: Some("standby-falls-behind"),
        cure: "See where the standby is held up, or let commits wait for one of several (synchronous_standby_names = 'ANY 1 (...)').",
        condition: wal::synchronous_standby,
    },
    Rule {
        cause: ArchiveBlocks,
        covers: &[WalAtCap, DeviceAtCap, KernelFlusher],
        doctor: Some("archive-backlog"),
        cure: "Mend the archive, or let it take more files at once.",
        condition: wal::archive_blocks,
    },
    Rule {
        cause: ConnectionStorm,
        covers: &[CpuBusy, LwlockConvoy],
        doctor: None,
        cure: "Put a connection pooler in front of the server, and let clients wait before they try again.",
        condition: sessions::connection_storm,
    },
    Rule {
        cause: TemporaryFiles,
        covers: &[DeviceAtCap, KernelFlusher, DirtyLimit],
        doctor: None,
        cure: "Give these statements more work_mem, or put temp_tablespaces on another disk; log_temp_files tells which they are.",
        condition: sessions::temporary_files,
    },
    Rule {
        cause: BackupCheckpoint,
        covers: &[CheckpointSync, CheckpointWrite, DeviceAtCap, KernelFlusher, WalAtCap, BackupReads, DirtyLimit],
        doctor: None,
        cure: "Let the backup wait for a spread checkpoint: pg_basebackup --checkpoint=spread, or fast => false.",
        condition: backup::backup_checkpoint,
    },
    Rule {
        cause: CheckpointSync,
        covers: &[CheckpointWrite, DeviceAtCap, KernelFlusher, WalAtCap, DirtyLimit, ColdCache],
        doctor: Some("checkpoint-sync-long"),
        cure: "Let what checkpoints write reach the disk before their fsync: pg_calm does that, checkpoint_flush_after in part.",
        condition: checkpoint::checkpoint_sync,
    },
    Rule {
        cause: WalAtCap,
        covers: BY_DISK,
        doctor: Some("device-at-cap"),
        cure: "Make less WAL (wal_compression, longer checkpoints), or give pg_wal a disk with more operations.",
        condition: wal::wal_at_cap,
    },
    Rule {
        cause: DirtyLimit,
        covers: BY_DISK,
        doctor: Some("dirty-limit-beyond-checkpoint"),
        cure: "Lower vm.dirty_background_bytes, so that the kernel begins to write long before it has to hold writers.",
        condition: memory::dirty_limit,
    },
    Rule {
        cause: Journal,
        covers: BY_DISK,
        doctor: Some("shared-journal"),
        cure: "Give each instance that has limits a file system of its own.",
        condition: disk::journal,
    },
    Rule {
        cause: BackupReads,
        covers: &[DeviceAtCap, ColdCache],
        doctor: Some("device-at-cap"),
        cure: "Slow the backup down (pg_basebackup --max-rate), take it from a standby, or at another time.",
        condition: backup::backup_reads,
    },
    Rule {
        cause: ColdCache,
        covers: &[DeviceAtCap],
        doctor: Some("shared-buffers-small"),
        cure: "Warm the cache after a restart (pg_prewarm with autoprewarm), or give it more memory.",
        condition: memory::cold_cache,
    },
    Rule {
        cause: CheckpointWrite,
        covers: &[DeviceAtCap, KernelFlusher],
        doctor: Some("max-wal-size"),
        cure: "Let checkpoints come by time and be spread: a larger max_wal_size, and no CHECKPOINT by hand under load.",
        condition: checkpoint::checkpoint_write,
    },
    Rule {
        cause: KernelFlusher,
        covers: &[DeviceAtCap],
        doctor: Some("dirty-limit-beyond-checkpoint"),
        cure: "Let the kernel write earlier and less at once: lower vm.dirty_background_bytes; pg_calm writes before it comes.",
        condition: memory::kernel_flusher,
    },
    Rule {
        cause: LwlockConvoy,
        covers: &[],
        doctor: None,
        cure: "See which lock it is: fewer sessions at once (a pooler) ends most such queues.",
        condition: sessions::lwlock_convoy,
    },
    Rule {
        cause: DeviceAtCap,
        covers: &[],
        doctor: Some("device-at-cap"),
        cure: "Raise the cap, or find out who used it up.",
        condition: disk::device_at_cap,
    },
    Rule {
        cause: CpuBusy,
        covers: &[],
        doctor: None,
        cure: "Find the statements that took the processors (pg_stat_statements), or give the host more of them.",
        condition: cpu::cpu_busy,
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
            text: "See below who waited for whom; next time, `trace why` beside the record tells WAL and commits, too."
                .to_string(),
            command: "sudo pgcalm trace why".to_string(),
        };
    };
    let command = match (rule.doctor, cause) {
        // Whoever reads this comes after the stall: its sessions wait no more.
        (_, LockPileUp) => r#"psql -c "ALTER SYSTEM SET log_lock_waits = on" -c "SELECT pg_reload_conf()""#.to_string(),
        (Some(_), SlowSynchronousStandby) => "pgcalm lag".to_string(),
        // Of these rules it is the only one that doctor can apply itself.
        (Some("max-wal-size"), _) => "sudo pgcalm doctor --apply --only max-wal-size".to_string(),
        _ => "sudo pgcalm doctor".to_string(),
    };
    Cure { rule: rule.doctor.map(str::to_string), text: rule.cure.to_string(), command }
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
