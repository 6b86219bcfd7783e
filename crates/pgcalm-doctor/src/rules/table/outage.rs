//! Rules of things that end the server, its data or its replication.

use crate::report::Severity;
use crate::rules::{Rule, archive, checkpoint, disk, memory, replication, stop, wal};

/// In the order of findings.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "fsync-off",
        severity: Severity::Outage,
        problem: "Nothing that is committed is durable.",
        looks_at: "`fsync`",
        applies: "off",
        reason: "a crash of the host leaves a cluster that can't be trusted (documentation of the setting)",
        cure: "Set it on, and write out what was not synced so far: `sync` after the reload.",
        effect: "Commits survive a crash, and wait for the disk.",
        reversible: true,
        condition: checkpoint::fsync_off,
    },
    Rule {
        id: "full-page-writes-off",
        severity: Severity::Outage,
        problem: "A page that is half written in a crash can't be repaired.",
        looks_at: "`full_page_writes`, file systems of the data directory and tablespaces",
        applies: "off, and not all on ZFS or btrfs without nodatacow (files with `chattr +C` are not looked for)",
        reason: "ext4 and XFS overwrite in place, and a disk writes 8 kB as several sectors; only copy-on-write file systems \
                 write a page whole or not",
        cure: "Set it on.",
        effect: "Torn pages are repaired by recovery; more WAL after each checkpoint. pg_calm bridges gaps only then.",
        reversible: true,
        condition: checkpoint::full_page_writes_off,
    },
    Rule {
        id: "unwritten-blocks-shown",
        severity: Severity::Outage,
        problem: "A crash of the host can leave a deleted file's data in a table.",
        looks_at: "`/proc/fs/ext4/*/options`",
        applies: "data=writeback with nodelalloc or dioread_lock",
        reason: "the journal gives a block to a file before its data is written, and the server does not write pages anew by which a \
                 table has grown while their WAL was not flushed (`RelationAddExtraBlocks`); docs/internals/data-safety.md",
        cure: "Mount with data=ordered, or with delalloc and dioread_nolock, all of them the defaults.",
        effect: "Such a block reads as zeros, which is an empty page.",
        reversible: false,
        condition: disk::shows_unwritten,
    },
    Rule {
        id: "archive-goes-nowhere",
        severity: Severity::Outage,
        problem: "WAL is kept for an archive that nothing brings it to.",
        looks_at: "`archive_mode`, `archive_library`, `archive_command`",
        applies: "archive_mode is on or always, and of the others neither is set, or, from PostgreSQL 16 on, both",
        reason: "archiving is then suspended and WAL accumulates (documentation of archive_command); with both the archiver ends \
                 with an error again and again, and counts no failure (`LoadArchiveLibrary`); a full disk ends the server with a \
                 PANIC (`XLogWrite`)",
        cure: "Set archive_command or archive_library, the other to ''; or archive_mode = off, with a restart.",
        effect: "WAL is recycled again.",
        reversible: false,
        condition: archive::goes_nowhere,
    },
    Rule {
        id: "archiver-failing",
        severity: Severity::Outage,
        problem: "The archive takes no files: WAL accumulates until its disk is full.",
        looks_at: "`pg_stat_archiver`, `archive_mode`",
        applies: "the last failure is later than the last success",
        reason: "the archiver goes through the queue in order and tries the same file again and again (`pgarch_ArchiverCopyLoop`)",
        cure: "Find the error in the server's log and mend the archive.",
        effect: "The queue is worked off and WAL recycled.",
        reversible: false,
        condition: archive::failing,
    },
    Rule {
        id: "archiver-hangs",
        severity: Severity::Outage,
        problem: "The archiver neither archives nor fails: WAL accumulates until its disk is full.",
        looks_at: "`pg_ls_archive_statusdir()`, `pg_stat_archiver`, `pg_postmaster_start_time()`, `pg_stat_activity`",
        applies: "a file has waited for over 120 s in which none was archived and no attempt failed",
        reason: "the archiver handles one file after another and waits for archive_command without a limit (`shell_archive_file`); it \
                 looks for files at least each 60 s (PGARCH_AUTOWAKE_INTERVAL). A command that ends with over 125 or by a signal ends \
                 the archiver, too, and counts as no failure",
        cure: "If the archiver is started again and again, see the server's log. Else find out what the command waits for, end it, and \
               give it a time limit, as timeout(1) does; an attempt that fails is made again.",
        effect: "The queue is worked off and WAL recycled.",
        reversible: false,
        condition: archive::hangs,
    },
    Rule {
        id: "archive-backlog",
        severity: Severity::Outage,
        problem: "The archive does not keep up.",
        looks_at: "`pg_ls_archive_statusdir()`, `wal_segment_size`, `max_wal_size`",
        applies: "the queue is larger than max_wal_size, and the archiver neither fails nor hangs",
        reason: "max_wal_size is what the disk of pg_wal was planned for; files in the queue come on top of it",
        cure: "A faster archiver, e.g. with several files at once (docs/guides/archiving.md), or a faster place for the archive.",
        effect: "The queue is worked off. `pgcalm lab run archive` compares archivers.",
        reversible: false,
        condition: archive::backlog,
    },
    Rule {
        id: "wal-disk-small",
        severity: Severity::Outage,
        problem: "The disk of pg_wal is full before max_wal_size is reached.",
        looks_at: "`max_wal_size`, `wal_keep_size`, size of pg_wal, room on its file system",
        applies: "both settings together are more than pg_wal can grow to",
        reason: "max_wal_size is a soft limit that is used up in normal operation; a full disk ends the server with a PANIC \
                 (`XLogWrite`)",
        cure: "Give pg_wal a larger disk, or lower max_wal_size to half of what wal_keep_size leaves.",
        effect: "Checkpoints begin earlier and WAL stays below the limit as long as they keep up; they are more frequent, \
                 with more full-page images.",
        reversible: true,
        condition: wal::disk_small,
    },
    Rule {
        id: "slot-inactive",
        severity: Severity::Outage,
        problem: "A replication slot that nobody reads keeps WAL.",
        looks_at: "`pg_replication_slots` (not a standby's copies of the primary's), `max_wal_size`",
        applies: "inactive, and holds more than max_wal_size",
        reason: "WAL from the slot's position on is not removed; max_wal_size is what the disk was planned for",
        cure: "Bring its reader back, or drop the slot if that is gone for good.",
        effect: "WAL is recycled at the next checkpoint. Dropping can't be undone: a standby has to be made anew.",
        reversible: false,
        condition: archive::slot_inactive,
    },
    Rule {
        id: "slot-lost",
        severity: Severity::Outage,
        problem: "A replication slot loses the WAL that it needs.",
        looks_at: "`pg_replication_slots.wal_status`",
        applies: "`unreserved` or `lost`",
        reason: "unreserved: the next checkpoint may remove it; lost: it is gone (`GetWALAvailability`)",
        cure: "unreserved: let the reader catch up or raise max_slot_wal_keep_size now. lost: drop the slot and make the \
               standby or subscription anew.",
        effect: "The reader goes on.",
        reversible: false,
        condition: archive::slot_lost,
    },
    Rule {
        id: "slot-unbounded",
        severity: Severity::Outage,
        problem: "A standby that stays away can fill the disk of pg_wal.",
        looks_at: "`pg_replication_slots`, `max_slot_wal_keep_size`, `pg_calm_guard.wal_space`",
        applies: "a slot holds WAL, the setting is -1, and the guard leaves no space free",
        reason: "-1 is no limit; half of what pg_wal can grow to leaves the other half to checkpoints and the archive",
        cure: "Set max_slot_wal_keep_size. pg_calm_guard slows writers down instead (docs/guides/guard.md).",
        effect: "The server survives; a reader that is farther behind loses its slot, so it is for you to decide.",
        reversible: false,
        condition: archive::slot_unbounded,
    },
    Rule {
        id: "standby-without-slot",
        severity: Severity::Outage,
        problem: "A standby that falls behind is refused the WAL that it needs, and never comes back.",
        looks_at: "`pg_stat_replication`, `pg_replication_slots`, `wal_keep_size`, `max_wal_size`, `archive_mode`, \
                   `pg_calm_guard.max_lag`",
        applies: "a standby without a slot is connected, wal_keep_size is less than max_wal_size, nothing is archived, and the \
                  guard has no limit of lag",
        reason: "WAL goes at the end of the next checkpoint, half of max_wal_size or more after it was made, whoever needs it \
                 (`KeepLogSeg`); a smaller wal_keep_size adds nothing to that",
        cure: "A slot, with max_slot_wal_keep_size; or wal_keep_size, as large as the standby may fall behind; or an archive \
               that it restores from; or pg_calm_guard (docs/guides/guard.md).",
        effect: "The standby catches up when the load ends. What is kept takes room on the disk of pg_wal.",
        reversible: false,
        condition: replication::standby_without_slot,
    },
    Rule {
        id: "standby-falls-behind",
        severity: Severity::Outage,
        problem: "A standby falls behind: a failover to it loses all that it lacks.",
        looks_at: "`pg_stat_replication` and WAL during `--duration`",
        applies: "at the end a standby lacks more WAL than was made meanwhile, and more than at the beginning",
        reason: "one that keeps up lacks a part of a second's. What it shows is as old as the WAL that it lacks; the evidence says when \
                 that is 30 s, Patroni's default ttl",
        cure: "`pgcalm lag` tells where WAL is held up. pg_calm_guard holds writers at a lag that you choose \
               (docs/guides/guard.md).",
        effect: "A failover loses less. `pgcalm lab run replica` measures it. Not measured here.",
        reversible: false,
        condition: replication::standby_falls_behind,
    },
    Rule {
        id: "replication-timeout-under-cap",
        severity: Severity::Outage,
        problem: "A server that waits for its capped disk looks dead to the other end of replication, and to a failover manager.",
        looks_at: "`wal_sender_timeout`, `wal_receiver_timeout`; cap of the disk of pg_wal, `wal_segment_size`; where data is on it and \
                   a control group sets the cap, `vm.dirty_ratio` or `vm.dirty_bytes`",
        applies: "this is a standby or has one, and at the cap a sync of WAL takes longer than half of the smaller timeout: a \
                  segment's 256 kB operations, or the dirty pages before it as single ones (not with pg_calm on)",
        reason: "a receiver that gets WAL all the time replies when it has synced a segment (`XLogWalRcvClose`), either end asks \
                 for a sign of life at half of its timeout, and the throttle queue is first in, first out; 30 s, half of the \
                 default, are also Patroni's default ttl",
        cure: "A higher cap, pg_wal on a disk of its own, or less dirty memory. A longer timeout only hides it, and delays the \
               failover that is due.",
        effect: "Connections last, and nobody promotes a standby behind the back of a server that only waits.",
        reversible: false,
        condition: replication::timeout_under_cap,
    },
    Rule {
        id: "memory-too-small",
        severity: Severity::Outage,
        problem: "The server touches more memory than it may have.",
        looks_at: "`shared_buffers`, `autovacuum_work_mem`, `maintenance_work_mem`, `autovacuum_max_workers`; huge pages, memory limits of the \
                   control groups, MemTotal",
        applies: "shared_buffers (but for huge pages, which a group does not count) and all autovacuum workers' memory are more than the limit",
        reason: "both are used up in normal operation, without any backend; then the kernel kills a process of the group, and \
                 the server restarts all",
        cure: "Smaller shared_buffers (a quarter of the memory, as the documentation advises; restart), less autovacuum_work_mem, or a higher limit.",
        effect: "No process is killed for memory by these alone.",
        reversible: false,
        condition: memory::too_small,
    },
    Rule {
        id: "stop-longer-than-grace",
        severity: Severity::Outage,
        problem: "A stop would take longer than whoever asks for it waits: the server is killed, and has to recover.",
        looks_at: "dirty buffers (`pg_calm_status`, `pg_buffercache`), dirty page cache, caps of the data's disk; `TimeoutStopSec` of the \
                   unit, Docker's `StopTimeout`",
        applies: "the estimate is longer than that time",
        reason: "a fast stop ends with a checkpoint (`ShutdownXLOG`), which writes and syncs all that is dirty. A pod's \
                 `terminationGracePeriodSeconds` can't be read on the host: compare it yourself",
        cure: "A longer time to wait; `pgcalm ready-to-stop` before each stop (docs/operate/stop-start.md); or fewer dirty buffers: a \
               shorter checkpoint_timeout, pg_calm.",
        effect: "The server ends by itself, and starts without recovery.",
        reversible: false,
        condition: stop::longer_than_grace,
    },
    Rule {
        id: "recovery-longer-than-start",
        severity: Severity::Outage,
        problem: "Recovery after a crash takes longer than whoever starts the server waits: it is killed, and begins anew, for ever.",
        looks_at: "`max_wal_size`; rate of replay by `pg_calm_status` or the log (\"redo done\"); what a stop would write; \
                   `TimeoutStartSec` of the unit",
        applies: "WAL of max_wal_size takes longer at that rate, with the checkpoint at its end; where none is known, at 256 MB/s",
        reason: "a checkpoint begins at the latest when so much is there, so recovery may have as much to replay (documentation of WAL \
                 configuration); each start begins at the same redo point. A pod's startup probe can't be read on the host",
        cure: "TimeoutStartSec=infinity, as the documentation advises, a startup probe with as much patience; or a smaller max_wal_size.",
        effect: "The server comes back, however long that takes.",
        reversible: false,
        condition: stop::recovery_longer_than_start,
    },
];
