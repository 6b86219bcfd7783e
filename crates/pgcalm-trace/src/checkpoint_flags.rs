//! Why a checkpoint is made.

/// CHECKPOINT_ flags of src/include/access/xlog.h, the same in PostgreSQL 13 to 18; 18 calls two of them FAST and
/// FLUSH_UNLOGGED.
const FLAGS: [(i64, &str); 9] = [
    (0x0001, "shutdown"),
    (0x0002, "end_of_recovery"),
    (0x0004, "immediate"),
    (0x0008, "force"),
    (0x0010, "flush_all"),
    (0x0020, "wait"),
    (0x0040, "requested"),
    (0x0080, "wal"),
    (0x0100, "time"),
];

/// The names of the flags that are set.
pub fn names(flags: i64) -> Vec<String> {
    FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| (*name).to_string()).collect()
}

/// As [`reason`], from the names.
pub fn reason_of_names(names: &[String]) -> &'static str {
    let flags =
        FLAGS.iter().filter(|(_, name)| names.iter().any(|given| given == name)).fold(0, |flags, (bit, _)| flags | bit);
    reason(flags)
}

/// The flag that tells best why; anything that is not of the server's own making was requested.
pub fn reason(flags: i64) -> &'static str {
    match flags {
        flags if flags & 0x0001 != 0 => "shutdown",
        flags if flags & 0x0002 != 0 => "end of recovery",
        flags if flags & 0x0080 != 0 => "wal",
        flags if flags & 0x0100 != 0 => "time",
        _ => "requested",
    }
}
