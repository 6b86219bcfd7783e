//! What an uninterruptible sleep is for, by the kernel functions that it happened in.

use crate::io::report::Operation;
use crate::report::file_kind::FileKind;
use crate::why::report::Cause;

/// Functions that wait for one thing only. The innermost one that is found decides.
///
/// Checked against Linux 6.18; a name that a kernel does not have is never found, and the wait is then counted by its
/// file, or as unknown.
const WAITERS: &[(&str, Cause)] = &[
    // mm/page-writeback.c
    ("balance_dirty_pages", Cause::DirtyThrottling),
    // kernel/locking/rwsem.c, mutex.c: inode locks above all
    ("rwsem_down_write_slowpath", Cause::KernelLock),
    ("rwsem_down_read_slowpath", Cause::KernelLock),
    ("__mutex_lock", Cause::KernelLock),
    // fs/jbd2/transaction.c, journal.c, checkpoint.c; fs/ext4/fast_commit.c
    ("wait_transaction_locked", Cause::Journal),
    ("wait_transaction_switching", Cause::Journal),
    ("add_transaction_credits", Cause::Journal),
    ("start_this_handle", Cause::Journal),
    ("do_get_write_access", Cause::Journal),
    ("jbd2_log_wait_commit", Cause::Journal),
    ("jbd2_complete_transaction", Cause::Journal),
    ("jbd2_journal_lock_updates", Cause::Journal),
    ("__jbd2_log_wait_for_space", Cause::Journal),
    ("jbd2_fc_begin_commit", Cause::Journal),
    ("ext4_fc_commit", Cause::Journal),
    // fs/xfs/xfs_log.c, xfs_log_cil.c
    ("xlog_grant_head_wait", Cause::XfsLog),
    ("xlog_grant_head_check", Cause::XfsLog),
    ("xlog_wait_on_iclog", Cause::XfsLog),
    ("xlog_state_get_iclog_space", Cause::XfsLog),
    ("xlog_cil_push_background", Cause::XfsLog),
    ("xlog_cil_force_seq", Cause::XfsLog),
    ("xlog_cil_order_write", Cause::XfsLog),
    ("xfs_log_force", Cause::XfsLog),
    ("xfs_log_force_seq", Cause::XfsLog),
    // block/blk-iocost.c, blk-iolatency.c, blk-cgroup.c
    ("ioc_rqos_throttle", Cause::BlockThrottling),
    ("blkcg_iolatency_throttle", Cause::BlockThrottling),
    ("blkcg_maybe_throttle_current", Cause::BlockThrottling),
];

/// Outermost frames of a page fault, arch/*/mm/fault.c.
const PAGE_FAULTS: &[&str] = &["exc_page_fault", "do_user_addr_fault", "do_page_fault"];

/// The innermost of these functions that waits for one thing only, and for what.
pub fn waiter(frames: &[String]) -> Option<(&'static str, Cause)> {
    frames.iter().find_map(|frame| WAITERS.iter().find(|(name, _)| name == frame).copied())
}

/// The cause of a sleep with these frames, innermost first, in a call that does `operation` on a `file`.
///
/// `throttled` says that the device was idle meanwhile because the block cgroup held I/O back. It counts only where the
/// sleep is for I/O, not where it is for a journal or for fewer dirty pages.
pub fn cause(frames: &[String], operation: Operation, file: FileKind, throttled: bool) -> Cause {
    if let Some((_, cause)) = waiter(frames) {
        return cause;
    }
    if throttled {
        return Cause::BlockThrottling;
    }
    match (file, operation) {
        (FileKind::Wal, _) => Cause::WalWrite,
        (FileKind::Data, Operation::Read) => Cause::DataRead,
        (FileKind::Data, Operation::Sync | Operation::SyncRange) => Cause::DataFsync,
        (FileKind::Data, Operation::Write | Operation::Allocate) => Cause::BufferWrite,
        (FileKind::None, _) if frames.iter().any(|frame| PAGE_FAULTS.contains(&frame.as_str())) => Cause::Memory,
        (FileKind::None | FileKind::Data | FileKind::Socket | FileKind::Pipe, _) => Cause::Unknown,
        _ => Cause::OtherFile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(frames: &[&str], operation: Operation, file: FileKind, throttled: bool) -> Cause {
        let frames: Vec<String> = frames.iter().map(std::string::ToString::to_string).collect();
        cause(&frames, operation, file, throttled)
    }

    #[test]
    fn the_innermost_waiter_decides() {
        // An fsync that commits the journal while the journal waits for space.
        let frames = ["io_schedule", "__jbd2_log_wait_for_space", "ext4_sync_file"];
        assert_eq!(of(&frames, Operation::Sync, FileKind::Data, false), Cause::Journal);
        let frames = ["balance_dirty_pages", "start_this_handle", "ext4_buffered_write_iter"];
        assert_eq!(of(&frames, Operation::Write, FileKind::Data, true), Cause::DirtyThrottling);
    }

    #[test]
    fn a_lock_of_the_kernel_is_no_wait_for_the_device() {
        let frames = ["schedule_preempt_disabled", "rwsem_down_write_slowpath", "down_write"];
        assert_eq!(of(&frames, Operation::Write, FileKind::Data, true), Cause::KernelLock);
    }

    #[test]
    fn without_a_waiter_the_file_decides_and_a_throttle_before_it() {
        let frames = ["io_schedule", "folio_wait_bit_common", "folio_wait_writeback"];
        assert_eq!(of(&frames, Operation::Sync, FileKind::Wal, false), Cause::WalWrite);
        assert_eq!(of(&frames, Operation::Sync, FileKind::Data, false), Cause::DataFsync);
        assert_eq!(of(&frames, Operation::Write, FileKind::Data, false), Cause::BufferWrite);
        assert_eq!(of(&frames, Operation::Read, FileKind::Data, false), Cause::DataRead);
        assert_eq!(of(&frames, Operation::Read, FileKind::Data, true), Cause::BlockThrottling);
        assert_eq!(of(&frames, Operation::Write, FileKind::Slru, false), Cause::OtherFile);
    }

    #[test]
    fn what_nothing_explains_is_unknown() {
        assert_eq!(of(&["rwsem_down"], Operation::Other, FileKind::None, false), Cause::Unknown);
        assert_eq!(of(&["io_schedule", "exc_page_fault"], Operation::Other, FileKind::None, false), Cause::Memory);
    }
}
