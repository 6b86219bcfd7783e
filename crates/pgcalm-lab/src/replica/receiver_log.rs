//! What a standby's log says about where its WAL comes from.

use std::path::Path;

use crate::server;

/// What the receiver is refused once a segment is gone (`CheckXLogRemoved` and `WalSndSegmentOpen`).
const REMOVED: &str = "has already been removed";

/// An error of the WAL receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Seconds of the epoch.
    pub time: f64,
    /// In the server's words.
    pub message: String,
}

/// Counts and the first failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReceiverLog {
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
pub fn read(path: &Path) -> ReceiverLog {
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
        let of_receiver = [
            "could not receive",
            "could not connect",
            "could not send",
            "terminating walreceiver",
        ]
        .iter()
        .any(|begin| message.starts_with(begin));
        if !of_receiver {
            continue;
        }
        result.failures += 1;
        result.removed |= message.contains(REMOVED);
        let time = prefix
            .rsplit_once(" [")
            .and_then(|(times, _)| times.rsplit_once(' ')?.1.parse().ok());
        if let (None, Some(time)) = (&result.first, time) {
            result.first = Some(Failure {
                time,
                message: message.trim().to_string(),
            });
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
}
