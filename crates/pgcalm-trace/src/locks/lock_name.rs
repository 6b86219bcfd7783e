//! Names of the server's lock types and modes.

/// LockTagTypeNames of src/backend/utils/adt/lockfuncs.c; the last one is PostgreSQL 16's.
const LOCK_TYPES: [&str; 12] = [
    "relation",
    "extend",
    "frozenid",
    "page",
    "tuple",
    "transactionid",
    "virtualxid",
    "spectoken",
    "object",
    "userlock",
    "advisory",
    "applytransaction",
];

/// Lock modes of src/include/storage/lockdefs.h, from 1.
const MODES: [&str; 9] = [
    "NoLock",
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
];

/// LWLockMode of src/include/storage/lwlock.h.
const LIGHTWEIGHT_MODES: [&str; 3] = ["exclusive", "shared", "until free"];

/// As pg_locks.locktype has it.
pub(super) fn lock_type(number: u32) -> String {
    name(&LOCK_TYPES, number)
}

/// As pg_locks.mode has it.
pub(super) fn heavyweight_mode(number: u32) -> String {
    name(&MODES, number)
}

/// Mode of a lightweight lock.
pub(super) fn lightweight_mode(number: u32) -> String {
    name(&LIGHTWEIGHT_MODES, number)
}

fn name(names: &[&str], number: u32) -> String {
    names.get(number as usize).map_or_else(|| format!("number {number}"), |name| (*name).to_string())
}
