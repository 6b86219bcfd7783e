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

/// The name of a lightweight lock by its tranche, as far as it is needed and the same in PostgreSQL 13 to 18: the two
/// individual locks of WAL in src/backend/storage/lmgr/lwlocknames.txt (lwlocklist.h from 17 on).
pub fn lightweight(tranche: u32) -> String {
    match tranche {
        7 => "WALBufMapping".to_string(),
        8 => "WALWrite".to_string(),
        _ => format!("tranche {tranche}"),
    }
}
