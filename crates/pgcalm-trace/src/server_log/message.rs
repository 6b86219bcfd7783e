//! What log_checkpoints writes: LogCheckpointStart and LogCheckpointEnd of src/backend/access/transam/xlog.c, in
//! PostgreSQL 13 to 18. Messages in another language than English (lc_messages) are not recognised.

use crate::checkpoint::report::{Checkpoint, Syncs, WalSegments};
use crate::report::histogram::Histogram;

/// A line of the log that tells of a checkpoint or restartpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// It has started.
    Start {
        /// Whether it is a restartpoint.
        restartpoint: bool,
        /// As [`Checkpoint::flags`].
        flags: Vec<String>,
    },
    /// It is complete: the figures, but neither number nor time nor reason.
    Complete(Box<Checkpoint>),
}

/// What stands right before the message in the formats of log_destination: stderr, csvlog, jsonlog.
const BEFORE: [&str; 3] = ["LOG:  ", "LOG,00000,\"", "\"message\":\""];

impl Message {
    /// What a line of the log says; `None` if it is about anything else, or continues the line before.
    pub fn parse(line: &str) -> Option<Self> {
        // A message with line feeds goes on after a tab in the stderr format.
        if line.starts_with('\t') {
            return None;
        }
        BEFORE.iter().filter_map(|before| line.split_once(before)).find_map(|(_, text)| parse_text(text))
    }
}

fn parse_text(text: &str) -> Option<Message> {
    let (restartpoint, rest) = match text.strip_prefix("checkpoint ") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("restartpoint ")?),
    };
    if let Some(flags) = rest.strip_prefix("starting:") {
        // In csvlog and jsonlog a quote ends it.
        let flags = flags.split('"').next()?;
        return Some(Message::Start { restartpoint, flags: flags.split_whitespace().map(flag).collect() });
    }
    let rest = rest.strip_prefix("complete: ")?;
    let mut checkpoint = Checkpoint { restartpoint, ..Checkpoint::default() };
    checkpoint.buffers.logged = number(rest, "wrote ");
    checkpoint.phases.buffer_write_s = number(rest, "write=");
    checkpoint.phases.sync_s = number(rest, " sync=");
    checkpoint.total_s = Some(number(rest, "total=")?);
    checkpoint.wal_segments = rest.split_once(" WAL file(s) added, ").and_then(|(_, rest)| {
        Some(WalSegments {
            added: number_before(text, " WAL file(s) added")?,
            removed: rest.split(' ').next()?.parse().ok()?,
            recycled: number(rest, "removed, ")?,
        })
    });
    let (count, longest, average): (Option<u64>, Option<f64>, Option<f64>) =
        (number(rest, "sync files="), number(rest, "longest="), number(rest, "average="));
    checkpoint.sync = count.map(|count| Syncs {
        times: Histogram {
            count,
            sum_ms: average.unwrap_or(0.0) * 1000.0 * count as f64,
            max_ms: longest.map(|seconds| seconds * 1000.0),
            ..Histogram::default()
        },
        slowest: Vec::new(),
    });
    Some(Message::Complete(Box::new(checkpoint)))
}

/// As xlog.h names it; PostgreSQL 18 logs `fast` and `flush-unlogged`.
fn flag(word: &str) -> String {
    match word {
        "end-of-recovery" => "end_of_recovery",
        "flush-all" | "flush-unlogged" => "flush_all",
        "fast" => "immediate",
        word => word,
    }
    .to_string()
}

/// The number right after `key`.
fn number<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    let (_, rest) = text.split_once(key)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number right before `key`.
fn number_before(text: &str, key: &str) -> Option<u64> {
    let (before, _) = text.split_once(key)?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = "wrote 45 buffers (0.3%); 1 WAL file(s) added, 2 removed, 33 recycled; write=4.208 s, \
         sync=0.021 s, total=4.261 s; sync files=12, longest=0.015 s, average=0.002 s; distance=268 kB, estimate=268 kB";

    fn complete(line: &str) -> Checkpoint {
        match Message::parse(line) {
            Some(Message::Complete(checkpoint)) => *checkpoint,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn figures_of_a_checkpoint_in_all_formats() {
        for line in [
            format!("2026-11-21 14:00:00.123 UTC [77] LOG:  checkpoint complete: {FIGURES}"),
            format!(
                "2026-11-21 14:00:00.123 UTC,,,77,,65,3,,2026,,0,LOG,00000,\"checkpoint complete: {FIGURES}\",,,,,\"\""
            ),
            format!("{{\"pid\":77,\"error_severity\":\"LOG\",\"message\":\"checkpoint complete: {FIGURES}\"}}"),
        ] {
            let found = complete(&line);
            assert!(!found.restartpoint);
            assert_eq!(found.buffers.logged, Some(45));
            assert_eq!(found.wal_segments, Some(WalSegments { added: 1, removed: 2, recycled: 33 }));
            assert_eq!(found.phases.buffer_write_s, Some(4.208));
            assert_eq!(found.phases.sync_s, Some(0.021));
            assert_eq!(found.total_s, Some(4.261));
            let sync = found.sync.unwrap().times;
            assert_eq!((sync.count, sync.max_ms), (12, Some(15.0)));
            assert!((sync.sum_ms - 24.0).abs() < 1e-9);
        }
    }

    #[test]
    fn version_17_counts_slru_buffers_apart() {
        let line =
            format!("LOG:  restartpoint complete: {}", FIGURES.replace("(0.3%)", "(0.3%), wrote 3 SLRU buffers"));
        let found = complete(&line);
        assert!(found.restartpoint);
        assert_eq!(found.buffers.logged, Some(45));
        assert_eq!(found.wal_segments.unwrap().added, 1);
    }

    #[test]
    fn flags_are_named_as_the_probes_name_them() {
        let flags = |line: &str| match Message::parse(line) {
            Some(Message::Start { flags, .. }) => flags,
            other => panic!("{other:?}"),
        };
        assert_eq!(flags("a LOG:  checkpoint starting: immediate force wait"), ["immediate", "force", "wait"]);
        assert_eq!(flags("a LOG:  checkpoint starting: fast force wait"), ["immediate", "force", "wait"]);
        assert_eq!(flags("x,LOG,00000,\"checkpoint starting: end-of-recovery\",,"), ["end_of_recovery"]);
    }

    #[test]
    fn what_only_looks_like_it_is_left_out() {
        for line in [
            "a STATEMENT:  select 'checkpoint complete: wrote 1 buffers total=1 s'",
            "\tLOG:  checkpoint complete: wrote 1 buffers; total=1.0 s",
            "a LOG:  pg_calm: checkpoint 2 (requested): bridged=0 pages, fsync=0.023 s",
            "a LOG:  checkpoint complete: wrote nothing",
            "a LOG:  checkpoints are occurring too frequently (3 seconds apart)",
        ] {
            assert_eq!(Message::parse(line), None, "{line}");
        }
    }
}
