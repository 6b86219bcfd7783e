//! Names of heavyweight locks.

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
