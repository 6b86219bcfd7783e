//! What the logs of both say about streaming: where a standby's WAL comes from, and what broke the connection.

use std::path::Path;

use crate::server;

/// What the receiver is refused once a segment is gone (`CheckXLogRemoved` and `WalSndSegmentOpen`).
const REMOVED: &str = "has already been removed";

/// What the walsender says that has no reply within wal_sender_timeout (`WalSndCheckTimeOut`).
const SENDER_TIMEOUT: &str = "terminating walsender process due to replication timeout";

/// What the receiver says that has no message within wal_receiver_timeout (`WalReceiverMain`).
const RECEIVER_TIMEOUT: &str = "terminating walreceiver due to timeout";

/// Connections that a timeout has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Timeouts {
    /// wal_sender_timeout, by the primary's log.
    pub of_sender: u32,
    /// wal_receiver_timeout, by the standby's.
    pub of_receiver: u32,
}

/// Counts them in the logs at these paths.
pub(super) fn timeouts(primary: &Path, standby: &Path) -> Timeouts {
    Timeouts {
        of_sender: count(&server::read_log(primary), SENDER_TIMEOUT),
        of_receiver: count(&server::read_log(standby), RECEIVER_TIMEOUT),
    }
}

fn count(log: &str, message: &str) -> u32 {
    log.matches(message).count() as u32
}

/// An error of the WAL receiver.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// Seconds of the epoch.
    pub time: f64,
    /// In the server's words.
    pub message: String,
}

/// Counts and the first failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ReceiverLog {
    /// Segments restored from the archive.
    pub restored: u32,
    /// The first failure.
    pub first: Option<Failure>,
    /// Failures in all.
    pub failures: u32,
    /// Whether any was because WAL is gone.
    pub removed: bool,
}

/// Reads the log at `path`, whose line prefix is `%m %n [%p] `.
pub(super) fn read(path: &Path) -> ReceiverLog {
    parse(&server::read_log(path))
}

fn parse(log: &str) -> ReceiverLog {
    let mut result = ReceiverLog::default();
    for line in log.lines() {
        if line.contains("LOG:  restored log file ") {
            result.restored += 1;
        }
        // Nobody else loses anything by being refused WAL: these are the receiver's only (libpqwalreceiver.c).
        let Some((prefix, message)) = line.split_once("] FATAL:  ") else {
            continue;
        };
        let of_receiver = ["could not receive", "could not connect", "could not send", "terminating walreceiver"]
            .iter()
            .any(|begin| message.starts_with(begin));
        if !of_receiver {
            continue;
        }
        result.failures += 1;
        result.removed |= message.contains(REMOVED);
        let time = prefix.rsplit_once(" [").and_then(|(times, _)| times.rsplit_once(' ')?.1.parse().ok());
        if let (None, Some(time)) = (&result.first, time) {
            result.first = Some(Failure { time, message: message.trim().to_string() });
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-21 14:02:24.085 UTC 1795269744.085 [20604] LOG:  started streaming WAL from primary at 0/1000000 on timeline 1
2026-11-21 14:02:34.085 UTC 1795269754.085 [20604] FATAL:  could not receive data from WAL stream: ERROR:  requested WAL segment 000000010000000000000007 has already been removed
2026-11-21 14:02:35.000 UTC 1795269755.000 [20605] FATAL:  the database system is starting up
2026-11-21 14:02:36.000 UTC 1795269756.000 [20603] LOG:  restored log file \"000000010000000000000007\" from archive
2026-11-21 14:02:39.085 UTC 1795269759.085 [20609] FATAL:  could not connect to the primary server: refused
";

    #[test]
    fn the_first_failure_of_the_receiver_is_told_from_others() {
        let log = parse(LOG);
        assert_eq!((log.restored, log.failures, log.removed), (1, 2, true));
        let first = log.first.unwrap();
        assert_eq!(first.time, 1_795_269_754.085);
        assert!(first.message.starts_with("could not receive"), "{first:?}");
        assert!(first.message.ends_with("has already been removed"));
        assert_eq!(parse("nothing\n"), ReceiverLog::default());
    }

    #[test]
    fn timeouts_are_told_from_other_ends_of_a_connection() {
        let primary = "\
2026-11-21 14:02:24.085 UTC 1795269744.085 [20604] LOG:  terminating walsender process due to replication timeout
2026-11-21 14:02:24.085 UTC 1795269744.085 [20606] FATAL:  terminating walsender process due to administrator command
";
        let standby = "\
2026-11-21 14:02:24.085 UTC 1795269744.085 [20604] FATAL:  terminating walreceiver due to timeout
2026-11-21 14:02:25.085 UTC 1795269745.085 [20605] FATAL:  terminating walreceiver process due to administrator command
";
        let dir = tempfile::tempdir().unwrap();
        let [p, s] = ["p", "s"].map(|name| dir.path().join(name));
        std::fs::write(&p, primary).unwrap();
        std::fs::write(&s, standby).unwrap();
        let found = timeouts(&p, &s);
        assert_eq!((found.of_sender, found.of_receiver), (1, 1));
        assert_eq!(parse(standby).failures, 2);
    }
}
