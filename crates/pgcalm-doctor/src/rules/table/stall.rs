//! Rules of things that hold up whoever waits for the disk.

use crate::report::Severity;
use crate::rules::{Rule, checkpoint, dirty, disk, hazard};

/// In the order of findings.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "device-at-cap",
        severity: Severity::Stall,
        problem: "A disk works at its cap: whatever else is asked of it waits in its queue.",
        looks_at: "`/sys/block/*/stat` during `--duration`; caps of control groups, of `pg_calm_status`, of `--iops`",
        applies: "90 % of a cap or more; of a control group's by what the group writes, on cgroup v1 what it asks for; reads count \
                  where they share it with writes, as under `--iops`",
        reason: "the throttle queue is first in, first out, and grows once the cap is reached; 90 % as a mean of seconds has \
                 seconds at the cap in it",
        cure: "Fewer, larger writes: pg_calm, larger shared_buffers, a longer checkpoint_timeout; or a larger volume.",
        effect: "docs/arena-quick.md, VACUUM FREEZE of the table beside: pg_calm's worst second was 603 TPS of 2743, \
                 stock's 140 of 906; its longest transaction 351 ms, stock's 274.",
        reversible: false,
        condition: disk::at_cap,
    },
    Rule {
        id: "device-dirty-limit",
        severity: Severity::Stall,
        problem: "The kernel holds a disk's dirty pages below a limit of its own, and writes them scattered.",
        looks_at: "`/sys/class/bdi/MAJ:MIN/max_ratio_fine` (`max_ratio` before Linux 6.2)",
        applies: "the disk may have no more than the host's background threshold",
        reason: "then this limit, not vm.dirty_background_*, decides when the flusher starts and writers wait \
                 (`balance_dirty_pages`); pg_calm flushes at half of it",
        cure: "Lift the limit of that disk.",
        effect: "The flusher starts at the host's threshold.",
        reversible: true,
        condition: disk::dirty_limit,
    },
    Rule {
        id: "dirty-limit-beyond-checkpoint",
        severity: Severity::Stall,
        problem: "The kernel may gather more dirty pages than the disk writes in a checkpoint's time.",
        looks_at: "`vm.dirty_ratio`, `vm.dirty_bytes`, memory; cap of the data's disk; `checkpoint_timeout`",
        applies: "the limit, written as single pages under the cap, takes longer than checkpoint_timeout; not with pg_calm on",
        reason: "fsync at the end of a checkpoint writes all that is dirty in a file; if that takes longer than the interval, \
                 checkpoints can't keep up and everything else waits in the same queue",
        cure: "Fewer operations (pg_calm, larger shared_buffers), or a lower limit: what the disk writes in the time that \
               checkpoint_completion_target leaves for fsync.",
        effect: "A lower limit bounds the queue at the price of throughput: writers are held up sooner and pages are \
                 rewritten more often. Not measured here; for you to weigh.",
        reversible: false,
        condition: dirty::limit_beyond_checkpoint,
    },
    Rule {
        id: "dirty-writeback-interval",
        severity: Severity::Stall,
        problem: "The kernel's flusher does not come in time: dirty pages pile up until a threshold is reached.",
        looks_at: "`vm.dirty_writeback_centisecs`, `vm.dirty_expire_centisecs`",
        applies: "0, or longer than pages take to expire",
        reason: "0 switches the periodic flusher off (`dirty_writeback_centisecs_handler`, `wb_wakeup_delayed`); longer than \
                 the expiry, that has no effect and much is written at once",
        cure: "The kernel's default, 5 s.",
        effect: "Pages are written soon after they have expired.",
        reversible: true,
        condition: dirty::writeback_interval,
    },
    Rule {
        id: "shared-journal",
        severity: Severity::Stall,
        problem: "A capped neighbour holds up this instance in the journal of their file system.",
        looks_at: "`pgcalm isolate check`: file systems, journals, limits of all instances",
        applies: "instances share an ext4, and one of them is limited on its disk",
        reason: "docs/guides/isolate.md, \"Shared journals\"",
        cure: "A file system for each instance, or no limit. data=writeback alone or a journal elsewhere does not help; \
               data=writeback,nodelalloc can damage tables (docs/internals/data-safety.md).",
        effect: "The neighbour's limit is not felt. `pgcalm lab run journal` measures layouts.",
        reversible: false,
        condition: |facts| hazard::named(facts, "shared-journal"),
    },
    Rule {
        id: "wal-on-capped-device",
        severity: Severity::Stall,
        problem: "Commits queue behind data pages: WAL and data are on one disk with a limit.",
        looks_at: "`pgcalm isolate check`: disks of pg_wal, data and tablespaces, limits of control groups",
        applies: "same disk, and a limit on writes is in force",
        reason: "the throttle queue is first in, first out",
        cure: "Move pg_wal to a disk of its own, while the server is down (a symbolic link, or initdb --waldir).",
        effect: "A commit waits for WAL only. Not measured here.",
        reversible: false,
        condition: |facts| hazard::named(facts, "wal-on-capped-device"),
    },
    Rule {
        id: "wal-with-data",
        severity: Severity::Stall,
        problem: "Commits queue behind data pages: WAL and data are on one disk with few operations.",
        looks_at: "disks of pg_wal and data; `--iops`, `pg_calm_status`",
        applies: "same disk, with a cap that no control group shows",
        reason: "a cloud volume queues as the cgroup throttle does; a rotating disk (`--iops 150`) seeks between both. Not judged by \
                 `queue/rotational`: virtio always says 1",
        cure: "Move pg_wal to a disk of its own, while the server is down (a symbolic link, or initdb --waldir).",
        effect: "A commit waits for WAL only. Not measured here.",
        reversible: false,
        condition: disk::wal_with_data,
    },
    Rule {
        id: "journal-device-capped",
        severity: Severity::Stall,
        problem: "Every change of a file's metadata waits for a journal on a capped disk.",
        looks_at: "`pgcalm isolate check`: journals, limits of the root group and, on XFS, of the instance",
        applies: "a limit on writes holds for who writes the journal",
        reason: "docs/guides/isolate.md, \"Hazards\"",
        cure: "ext4: put the journal on a disk without a limit (mke2fs -O journal_dev), or take the limit off. XFS: take it off; a \
               log elsewhere (mkfs.xfs -l logdev=) spares others on the file system only.",
        effect: "Files are made and synced without waiting for the limit. `pgcalm lab run journal` measures layouts.",
        reversible: false,
        condition: |facts| hazard::named(facts, "journal-device-capped"),
    },
    Rule {
        id: "log-on-capped-device",
        severity: Severity::Stall,
        problem: "Whoever writes to the server's log may wait for a capped disk.",
        looks_at: "`pgcalm isolate check`: disk of the log, limits of control groups",
        applies: "a limit on writes is in force there",
        reason: "the log is written with the limits of who writes it",
        cure: "log_directory on another disk, or syslog or journald.",
        effect: "Logging does not wait for the data's disk.",
        reversible: false,
        condition: |facts| hazard::named(facts, "log-on-capped-device"),
    },
    Rule {
        id: "journal-waits-for-data",
        severity: Severity::Stall,
        problem: "A commit of the file system's journal, and so each fsync of a new or grown file, waits for other files' data.",
        looks_at: "`/proc/fs/ext4/*/options`",
        applies: "data=ordered with nodelalloc or dioread_lock",
        reason: "without delayed allocation into unwritten extents a transaction is complete only once the data of its new \
                 blocks is written (`jbd2_journal_commit_transaction`); docs/guides/isolate.md",
        cure: "Mount with delalloc and dioread_nolock, the defaults of today.",
        effect: "A commit writes the journal only.",
        reversible: false,
        condition: disk::commits_wait,
    },
    Rule {
        id: "max-wal-size",
        severity: Severity::Stall,
        problem: "WAL starts checkpoints before their time, each with a new round of full-page images.",
        looks_at: "`max_wal_size`, `checkpoint_timeout`, `pg_stat_wal`, `pg_stat_checkpointer` (`pg_stat_bgwriter` before 17), WAL \
                   during `--duration`, room for pg_wal, `pg_calm_checkpoints`",
        applies: "WAL of one checkpoint_timeout is more than max_wal_size / (1 + checkpoint_completion_target), or more than \
                  half of at least 10 checkpoints were requested (with pg_calm's reports: were started by WAL)",
        reason: "that is where the server starts one (`CalculateCheckpointSegments`). The rate is the higher of the sample and \
                 the average, if that is of at least checkpoint_timeout",
        cure: "Raise max_wal_size to 1.5 times what an interval takes, at least to twice what it is, at most to half of the room \
               that pg_wal has. `--apply` does so by the average alone, and not where recovery would outlast the wait for a start.",
        effect: "Checkpoints by time, fewer full-page images; recovery after a crash takes longer.",
        reversible: true,
        condition: checkpoint::max_wal_size,
    },
    Rule {
        id: "checkpoint-completion-target",
        severity: Severity::Stall,
        problem: "Checkpoints write in a part of their time what they could spread.",
        looks_at: "`checkpoint_completion_target`",
        applies: "below 0.9",
        reason: "the server's default since 14, which leaves a tenth of the interval for fsync",
        cure: "The default.",
        effect: "The same pages over more time.",
        reversible: true,
        condition: checkpoint::completion_target,
    },
    Rule {
        id: "checkpoint-sync-long",
        severity: Severity::Stall,
        problem: "The sync phase of checkpoints takes longer than is planned for it.",
        looks_at: "`pg_stat_checkpointer.sync_time` (`pg_stat_bgwriter` before 17), `checkpoint_timeout`, `checkpoint_completion_target`",
        applies: "the mean of at least 10 checkpoints is more than what checkpoint_completion_target leaves; with pg_calm on it is not \
                  known, since its drain is in that time",
        reason: "beyond that a checkpoint ends after the next should have begun",
        cure: "Fewer unflushed pages at that moment: pg_calm drains them before; `pgcalm trace checkpoint` names the files.",
        effect: "Checkpoints end before the next is due. Not measured here.",
        reversible: false,
        condition: checkpoint::sync_beyond_target,
    },
    Rule {
        id: "no-checkpoint-flush-hint",
        severity: Severity::Stall,
        problem: "Checkpoints leave all that they write to their fsync calls, and everybody waits behind those.",
        looks_at: "`checkpoint_flush_after`, cap of the data's disk",
        applies: "0, on a disk with a cap on operations; not with pg_calm on, which drops these hints",
        reason: "without the hint (`IssuePendingWritebacks`) pages wait in the page cache for the fsync, which fills the disk's queue",
        cure: "256 kB, the server's default.",
        effect: "docs/reference/flush-hints.md: the worst second was 1669 TPS instead of 162, the mean 2310 instead of 2090.",
        reversible: true,
        condition: disk::no_checkpoint_hint,
    },
];
