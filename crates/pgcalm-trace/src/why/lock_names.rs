//! Names of locks by the numbers that wait events have.

/// The type of a heavyweight lock as pg_locks.locktype has it, from enum LockTagType, src/include/storage/lock.h. The
/// numbers are the same in PostgreSQL 13 to 18; 11 is new in 16.
pub fn lock_type(number: u32) -> &'static str {
    match number {
        0 => "relation",
        1 => "extend",
        2 => "frozenid",
        3 => "page",
        4 => "tuple",
        5 => "transactionid",
        6 => "virtualxid",
        7 => "spectoken",
        8 => "object",
        9 => "userlock",
        10 => "advisory",
        11 => "applytransaction",
        _ => "unknown type",
    }
}

/// Individual locks from 1 on, the same in PostgreSQL 13 to 18 as far as a version has them:
/// src/backend/storage/lmgr/lwlocknames.txt (lwlocklist.h from 17 on).
const INDIVIDUAL: &[&str] = &[
    "ShmemIndex",
    "OidGen",
    "XidGen",
    "ProcArray",
    "SInvalRead",
    "SInvalWrite",
    "WALBufMapping",
    "WALWrite",
    "ControlFile",
    "Checkpoint",
    "XactSLRU",
    "SubtransSLRU",
    "MultiXactGen",
    "MultiXactOffsetSLRU",
    "MultiXactMemberSLRU",
    "RelCacheInit",
    "CheckpointerComm",
    "TwoPhaseState",
    "TablespaceCreate",
    "BtreeVacuum",
    "AddinShmemInit",
    "Autovacuum",
    "AutovacuumSchedule",
    "SyncScan",
    "RelationMapping",
    "NotifySLRU",
    "NotifyQueue",
    "SerializableXactHash",
    "SerializableFinishedList",
    "SerializablePredicateList",
    "SerialSLRU",
    "SyncRep",
    "BackgroundWorker",
    "DynamicSharedMemoryControl",
    "AutoFile",
    "ReplicationSlotAllocation",
    "ReplicationSlotControl",
    "CommitTsSLRU",
    "CommitTs",
    "ReplicationOrigin",
    "MultiXactTruncation",
    "OldSnapshotTimeMap",
    "LogicalRepWorker",
    "XactTruncation",
    "",
    "WrapLimitsVacuum",
    "NotifyQueueTail",
    "WaitEventCustom",
    "WALSummarizer",
    "DSMRegistry",
    "InjectionPoint",
    "SerialControl",
    "AioWorkerSubmissionQueue",
];

/// Tranches of several locks with the first major version whose numbers are known to have them, in the order of their numbers:
/// enum BuiltinTrancheIds, src/include/storage/lwlock.h. 13 and 14 have others behind those named here.
const TRANCHES: &[(&str, u32)] = &[
    ("XactBuffer", 13),
    ("CommitTsBuffer", 13),
    ("SubtransBuffer", 13),
    ("MultiXactOffsetBuffer", 13),
    ("MultiXactMemberBuffer", 13),
    ("NotifyBuffer", 13),
    ("SerialBuffer", 13),
    ("WALInsert", 13),
    ("BufferContent", 13),
    ("ReplicationOriginState", 15),
    ("ReplicationSlotIO", 15),
    ("LockFastPath", 15),
    ("BufferMapping", 15),
    ("LockManager", 15),
    ("PredicateLockManager", 15),
    ("ParallelHashJoin", 15),
    ("ParallelBtreeScan", 18),
    ("ParallelQueryDSA", 15),
    ("PerSessionDSA", 15),
    ("PerSessionRecordType", 15),
    ("PerSessionRecordTypmod", 15),
    ("SharedTupleStore", 15),
    ("SharedTidBitmap", 15),
    ("ParallelAppend", 15),
    ("PerXactPredicateList", 15),
    ("PgStatsDSA", 15),
    ("PgStatsHash", 15),
    ("PgStatsData", 15),
    ("LogicalRepLauncherDSA", 16),
    ("LogicalRepLauncherHash", 16),
    ("DSMRegistryDSA", 17),
    ("DSMRegistryHash", 17),
    ("CommitTsSLRU", 17),
    ("MultiXactMemberSLRU", 17),
    ("MultiXactOffsetSLRU", 17),
    ("NotifySLRU", 17),
    ("SerialSLRU", 17),
    ("SubtransSLRU", 17),
    ("XactSLRU", 17),
    ("ParallelVacuumDSA", 17),
    ("AioUringCompletion", 18),
];

/// The number of the first of these; `None` for a version whose headers are not known.
fn first_tranche(major: u32) -> Option<u32> {
    match major {
        13..=16 => Some(48),
        17 => Some(53),
        18 => Some(54),
        _ => None,
    }
}

/// The name of a lightweight lock by its tranche in a server of that major version, or its number. Without a known version only those
/// individual locks have one whose number no version has for anything else.
pub fn lightweight(tranche: u32, major: u32) -> String {
    let first = first_tranche(major);
    let name = match first {
        Some(first) if tranche >= first => {
            let mut names = TRANCHES.iter().filter(|(_, from)| *from <= major);
            names.nth((tranche - first) as usize).map(|(name, _)| *name)
        }
        _ if first.is_some() || tranche < 48 => {
            let at = (tranche as usize).checked_sub(1);
            at.and_then(|at| INDIVIDUAL.get(at).copied()).filter(|name| !name.is_empty())
        }
        _ => None,
    };
    name.map_or_else(|| format!("tranche {tranche}"), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the headers of these versions.
    #[test]
    fn a_tranche_has_the_name_of_its_version() {
        let of = |major, numbers: [u32; 4]| numbers.map(|number| lightweight(number, major));
        assert_eq!(of(15, [8, 55, 56, 60]), ["WALWrite", "WALInsert", "BufferContent", "BufferMapping"]);
        assert_eq!(of(15, [47, 74, 75, 45]), ["NotifyQueueTail", "PgStatsData", "tranche 75", "tranche 45"]);
        assert_eq!(of(17, [52, 60, 61, 92]), ["SerialControl", "WALInsert", "BufferContent", "tranche 92"]);
        assert_eq!(of(18, [8, 62, 70, 94]), ["WALWrite", "BufferContent", "ParallelBtreeScan", "AioUringCompletion"]);
        // What lies behind is not known of the older ones, and of a newer one nothing.
        assert_eq!(of(14, [7, 55, 56, 57]), ["WALBufMapping", "WALInsert", "BufferContent", "tranche 57"]);
        assert_eq!(of(0, [0, 8, 48, 56]), ["tranche 0", "WALWrite", "tranche 48", "tranche 56"]);
    }
}
