//! What a wait event comes down to.

use crate::model::WaitCause;

/// The cause of a wait event of pg_stat_activity; both are empty for a session that does not wait.
///
/// Names changed their case with PostgreSQL 17, which generates them (`WALWrite` became `WalWrite`).
pub(crate) fn cause(event_type: &str, event: &str) -> WaitCause {
    let event = event.to_ascii_lowercase();
    match event_type {
        "" => WaitCause::Cpu,
        "IO" => io(&event),
        "LWLock" if event.starts_with("wal") => WaitCause::WalLock,
        "LWLock" => WaitCause::LightweightLock,
        "Lock" => WaitCause::Lock,
        "BufferPin" | "Buffer" => WaitCause::BufferPin,
        "IPC" if event == "syncrep" => WaitCause::SynchronousReplication,
        "IPC" | "Activity" => WaitCause::OtherProcess,
        "Client" => WaitCause::Client,
        "Timeout" => WaitCause::Timeout,
        // Before PostgreSQL 17 an extension's events have no names.
        "Extension" if event == "pgcalmguardhold" => WaitCause::Guard,
        _ => WaitCause::Other,
    }
}

fn io(event: &str) -> WaitCause {
    if event == "datafilesync" || event == "datafileimmediatesync" {
        WaitCause::DataSync
    } else if event.starts_with("datafile") || event.starts_with("aio") {
        WaitCause::DataIo
    } else if event.starts_with("wal") {
        WaitCause::Wal
    } else {
        WaitCause::OtherIo
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_old_and_new_servers_have_the_same_cause() {
        for (event_type, event, expected) in [
            ("", "", WaitCause::Cpu),
            ("IO", "DataFileRead", WaitCause::DataIo),
            ("IO", "DataFileExtend", WaitCause::DataIo),
            ("IO", "AioIoCompletion", WaitCause::DataIo),
            ("IO", "DataFileSync", WaitCause::DataSync),
            ("IO", "WALSync", WaitCause::Wal),
            ("IO", "WalSync", WaitCause::Wal),
            ("IO", "SLRURead", WaitCause::OtherIo),
            ("LWLock", "WALWrite", WaitCause::WalLock),
            ("LWLock", "ProcArray", WaitCause::LightweightLock),
            ("Lock", "transactionid", WaitCause::Lock),
            ("BufferPin", "BufferPin", WaitCause::BufferPin),
            ("IPC", "SyncRep", WaitCause::SynchronousReplication),
            ("IPC", "SyncRepWaitForLSN", WaitCause::OtherProcess),
            ("IPC", "ProcArrayGroupUpdate", WaitCause::OtherProcess),
            ("Client", "ClientRead", WaitCause::Client),
            ("Timeout", "PgSleep", WaitCause::Timeout),
            ("Extension", "PgCalmGuardHold", WaitCause::Guard),
            ("Extension", "Extension", WaitCause::Other),
            ("InjectionPoint", "x", WaitCause::Other),
        ] {
            assert_eq!(cause(event_type, event), expected, "{event_type} {event}");
        }
    }
}
