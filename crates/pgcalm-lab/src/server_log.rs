use crate::contest::report::Checkpoint;

/// What a server log says about checkpoints. Times are seconds of the epoch.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CheckpointLog {
    /// Those that are complete; `start_s` and `end_s` are seconds of the epoch.
    pub complete: Vec<Checkpoint>,
    /// When and why the one began that isn't complete.
    pub running: Option<(f64, String)>,
}

/// Reads the checkpoint lines of a log whose line prefix is `%m %n [%p] `.
pub(crate) fn checkpoints(log: &str) -> CheckpointLog {
    let mut result = CheckpointLog::default();
    for line in log.lines() {
        let Some((time, message)) = split_line(line, "LOG") else { continue };
        if let Some(reason) = message.strip_prefix("checkpoint starting: ") {
            result.running = Some((time, reason.trim().to_string()));
        } else if let Some(figures) = message.strip_prefix("checkpoint complete: ") {
            // Since 19 the reason stands before.
            let figures = figures.find("wrote ").map_or(figures, |at| &figures[at..]);
            let (start, reason) = result.running.take().unwrap_or((time, String::new()));
            result.complete.extend(parse_complete(figures, start, time, reason));
        }
    }
    result
}

/// When and with which words the server gave up, or the guard refused all writers, because its WAL had no room on the disk, and the
/// log up to there: what follows is of a server that recovers.
pub(crate) fn wal_disk_full(log: &str) -> Option<(f64, &str, &str)> {
    let mut length = 0;
    for line in log.split_inclusive('\n') {
        let line_alone = line.trim_end();
        let full = split_line(line_alone, "PANIC")
            .filter(|(_, message)| message.contains("pg_wal/") && message.contains("No space left on device"));
        let refused =
            || split_line(line_alone, "LOG").filter(|(_, message)| message.ends_with(": the guard refuses writers"));
        if let Some((time, message)) = full.or_else(refused) {
            return Some((time, message, &log[..length]));
        }
        length += line.len();
    }
    None
}

/// Time and text of a line with this severity.
fn split_line<'a>(line: &'a str, severity: &str) -> Option<(f64, &'a str)> {
    // 2026-11-21 04:15:27.123 UTC 1795234527.123 [4711] LOG:  checkpoint starting: time
    let (prefix, message) = line.split_once(&format!("] {severity}:  "))?;
    let (prefix, _pid) = prefix.rsplit_once(" [")?;
    let (_, time) = prefix.rsplit_once(' ')?;
    Some((time.parse().ok()?, message))
}

fn parse_complete(figures: &str, start: f64, end: f64, reason: String) -> Option<Checkpoint> {
    // wrote 31 buffers (0.1%); 0 WAL file(s) added, 0 removed, 1 recycled; write=3.1 s, sync=0.2 s, total=3.4 s;
    // sync files=28, longest=0.1 s, average=0.01 s; distance=1 kB, estimate=2 kB[; lsn=..., redo lsn=...]
    let number = |key: &str| -> Option<f64> {
        figures
            .split([',', ';'])
            .find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('='))
            .and_then(|value| value.split_whitespace().next()?.parse().ok())
    };
    Some(Checkpoint {
        start_s: start,
        end_s: end,
        reason,
        buffers: figures.strip_prefix("wrote ")?.split_whitespace().next()?.parse().ok()?,
        write_s: number("write")?,
        sync_s: number("sync")?,
        total_s: number("total")?,
        sync_files: number("sync files")? as u32,
        longest_sync_s: number("longest")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG_15: &str = "\
2026-11-21 04:15:20.100 UTC 1795234520.100 [40] LOG:  database system is ready to accept connections
2026-11-21 04:15:27.123 UTC 1795234527.123 [41] LOG:  checkpoint starting: time
2026-11-21 04:15:54.223 UTC 1795234554.223 [41] LOG:  checkpoint complete: wrote 32610 buffers (99.5%); 0 WAL file(s) added, 0 removed, 3 recycled; write=26.927 s, sync=0.140 s, total=27.100 s; sync files=14, longest=0.101 s, average=0.010 s; distance=540000 kB, estimate=540000 kB
2026-11-21 04:15:57.000 UTC 1795234557.000 [41] LOG:  checkpoint starting: wal
";

    #[test]
    fn reads_complete_and_running_checkpoints_of_version_15() {
        let log = checkpoints(LOG_15);
        assert_eq!(
            log.complete,
            [Checkpoint {
                start_s: 1_795_234_527.123,
                end_s: 1_795_234_554.223,
                reason: "time".into(),
                buffers: 32610,
                write_s: 26.927,
                sync_s: 0.14,
                total_s: 27.1,
                sync_files: 14,
                longest_sync_s: 0.101,
            }]
        );
        assert_eq!(log.running, Some((1_795_234_557.0, "wal".to_string())));
    }

    #[test]
    fn reads_the_line_of_versions_17_and_later() {
        let line = "\
2026-11-21 04:15:54.223 UTC 1795234554.223 [41] LOG:  checkpoint complete: wrote 7 buffers (0.0%), wrote 3 SLRU buffers; 0 WAL file(s) added, 0 removed, 0 recycled; write=0.606 s, sync=0.009 s, total=0.633 s; sync files=9, longest=0.008 s, average=0.001 s; distance=18 kB, estimate=18 kB; lsn=0/15ADDA0, redo lsn=0/15ADD48
";
        let log = checkpoints(line);
        assert_eq!(log.complete.len(), 1);
        assert_eq!(log.complete[0].buffers, 7);
        assert_eq!(log.complete[0].sync_files, 9);
        assert_eq!(checkpoints(&line.replace("complete: ", "complete: wal time: ")), log);
    }

    #[test]
    fn a_full_wal_disk_ends_the_log() {
        let full = "2026-11-21 04:16:00.500 UTC 1795234560.500 [44] PANIC:  could not write to file \"pg_wal/xlogtemp.44\": No space left on device\n";
        let log = format!("{LOG_15}{full}{LOG_15}{full}");
        assert_eq!(
            wal_disk_full(&log),
            Some((1_795_234_560.5, "could not write to file \"pg_wal/xlogtemp.44\": No space left on device", LOG_15))
        );
        assert_eq!(wal_disk_full(LOG_15), None);
        // Another file, another severity, another cause: not what is asked for.
        for (from, to) in [("pg_wal/", "base/"), ("PANIC", "ERROR"), ("No space left on device", "Input/output error")]
        {
            assert_eq!(wal_disk_full(&full.replace(from, to)), None);
        }
    }

    #[test]
    fn other_lines_are_passed_over() {
        assert_eq!(checkpoints("garbage\n2026 UTC x [1] LOG:  checkpoint starting: time\n"), CheckpointLog::default());
    }
}
