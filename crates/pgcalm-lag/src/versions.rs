//! What differs between PostgreSQL 15, 16, 17 and 18 in the views that are read. Nothing else here asks for the version.

/// Why a slot was given up, as an expression of type text.
pub fn invalidation_reason(version: i32) -> &'static str {
    if version >= 170_000 { "invalidation_reason" } else { "null::text" }
}

/// Time for which a slot has not been used, as an expression in s.
pub fn inactive_seconds(version: i32) -> &'static str {
    if version >= 170_000 { "extract(epoch FROM clock_timestamp() - inactive_since)::float8" } else { "null::float8" }
}

/// Wait events of a process that waits for WAL to be written or synced: of type IO in a process that does it itself, the
/// lightweight lock `WALWrite` in those behind it. In small letters: PostgreSQL 17 made `WALSync` `WalSync` and so on.
pub const WAL_WAITS: &str = "'walwrite', 'walsync', 'walinitwrite', 'walinitsync'";

/// Whether a walsender waits for WAL to be read from the primary's disk. `WALRead` up to PostgreSQL 16, then `WalRead`.
pub fn is_wal_read(wait_event: &str) -> bool {
    wait_event.eq_ignore_ascii_case("WalRead")
}

/// Whether a walsender waits for its socket, or for more WAL: a physical one waits for both in `WalSndLoop` (walsender.c), so
/// one that has WAL to send waits for its socket; a logical one waits for its socket in `WalSndWriteData`.
pub fn is_send_wait(wait_event: &str) -> bool {
    matches!(wait_event, "WalSenderMain" | "WalSenderWriteData")
}
