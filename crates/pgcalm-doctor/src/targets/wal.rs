//! What the last WAL of a server tells of changed blocks, by pg_waldump of its own installation.
//!
//! It needs no extension, writes nothing and asks nothing of the server: pg_walinspect would first put all rows into a temporary file
//! on the volume that it is about. It is run as the server's user, whose program it is.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_host::{Failure, HostRoot, process, process_file};
use pgcalm_postgres::estimate::position;

use super::curve::Changes;
use super::report::Observed;

/// Which WAL.
pub(super) struct Range {
    /// Process id of the postmaster.
    pub pid: i32,
    /// Of pg_wal, as the server sees it.
    pub directory: String,
    /// Where it ends.
    pub end: u64,
    /// How much of it at most.
    pub bytes: u64,
    /// How old it may be.
    pub age: Duration,
    /// Of a segment.
    pub segment_bytes: u64,
}

#[derive(Debug, Default)]
struct Seen {
    changes: Changes,
    /// From the first commit on, and as it was at the last one.
    running: Observed,
    observed: Observed,
    /// Position of the first commit.
    begin: Option<u64>,
    /// Those before it don't count, in microseconds since 1970.
    not_before: i64,
}

impl Seen {
    /// A line of pg_waldump; `None` if there is something else in it than what is looked for.
    fn take(&mut self, line: &str) -> Option<()> {
        let (_, rest) = line.split_once("len (rec/tot):")?;
        let (lengths, rest) = rest.split_once(", tx:")?;
        let (_, rest) = rest.split_once("lsn: ")?;
        let at = position(rest)?;
        if line.starts_with("rmgr: Transaction ") {
            let (_, what) = rest.split_once("desc: ")?;
            return self.transaction(at, what);
        }
        let mut images = 0;
        for reference in rest.split("blkref #").skip(1) {
            let (_, block) = reference.split_once("rel ")?;
            let (file, block) = block.split_once(" blk ")?;
            let (number, after) = block.split_at(block.find(|c: char| !c.is_ascii_digit()).unwrap_or(block.len()));
            let file = file
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            self.changes.change(at, file, number.parse().ok()?);
            self.running.changes += 1;
            images += u64::from(after.starts_with(" FPW"));
        }
        let (own, all) = lengths.split_once('/')?;
        let [own, all] = [own, all].map(|length| length.trim().parse::<u64>().unwrap_or(0));
        self.running.images += images;
        self.running.image_bytes += all.saturating_sub(own);
        Some(())
    }

    /// `COMMIT 2026-11-28 05:59:50.138545 UTC; …`
    fn transaction(&mut self, at: u64, what: &str) -> Option<()> {
        let time = what.strip_prefix("COMMIT ").or_else(|| what.strip_prefix("ABORT "))?.get(..26)?;
        let micros = time.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        let micros = micros.timestamp().as_microsecond();
        if self.begin.is_none() || (self.observed.wal_bytes == 0 && micros < self.not_before) {
            self.changes.begin_anew();
            (self.begin, self.running) = (Some(at), Observed::default());
        }
        self.changes.time(at, micros);
        self.observed = Observed { wal_bytes: at - self.begin?, ..self.running.clone() };
        Some(())
    }
}

/// Reads it.
pub(super) fn read(root: &HostRoot, range: &Range) -> anyhow::Result<Observed> {
    let refused = |why: String| anyhow::Error::from(Failure::Host(why));
    let names = process_file::names(root, range.pid, Path::new(&range.directory));
    let names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
    let program = process::executable(root, range.pid).map(|server| server.with_file_name("pg_waldump"));
    let (Some((start, first, last)), Some(program)) = (segments(range, &names), program) else {
        let who = "run this as root, or as the server's user";
        return Err(refused(format!("the server's WAL in {} is not to be seen: {who}", range.directory)));
    };
    let lsn = |position: u64| format!("{:X}/{:X}", position >> 32, position as u32);
    // Links of the server's lead where it sees them.
    let directory = root.path(format!("proc/{}/root/{}", range.pid, range.directory.trim_start_matches('/')));
    let mut command = Command::new(&program);
    command.arg("-p").arg(directory).args(["-s", &lsn(start), "-e", &lsn(range.end), &first, &last]);
    command.current_dir("/").env_clear().env("TZ", "UTC");
    if rustix::process::geteuid().is_root() {
        let owner = std::fs::metadata(root.path(format!("proc/{}", range.pid))).context("the server has ended")?;
        command.uid(owner.uid()).gid(owner.gid());
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child =
        child.map_err(|error| refused(format!("{}: {error}; it comes with the server", program.display())))?;

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut seen = Seen { not_before: now.saturating_sub(range.age).as_micros() as i64, ..Seen::default() };
    let mut lines = BufReader::with_capacity(1 << 18, child.stdout.take().context("no pipe")?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).context("read what pg_waldump says")? > 0 {
        seen.take(&String::from_utf8_lossy(&line));
        line.clear();
    }
    let output = child.wait_with_output().context("wait for pg_waldump")?;
    let observed = Observed { seconds: seen.changes.seconds(), curve: seen.changes.curve(), ..seen.observed };
    // It may have been overtaken by a checkpoint, which removes what is oldest.
    let said = String::from_utf8_lossy(&output.stderr).lines().next().map(str::to_string);
    match said.filter(|_| !output.status.success()) {
        Some(error) => Err(refused(format!("{error}; run this again, with less --wal"))),
        None if !observed.curve.0.is_empty() => Ok(observed),
        None => {
            Err(refused("hardly a transaction has ended in that WAL: run this under load, or with more --wal".into()))
        }
    }
}

/// Where it begins, and the names of its first and last segment: all that is there without a gap. Those after its end are ones to be
/// used again, and of their contents nothing is known; pg_waldump takes any for an example unless these are named.
fn segments(range: &Range, names: &[String]) -> Option<(u64, String, String)> {
    let of_log = (1 << 32) / range.segment_bytes.max(1);
    let name = |timeline: &str, number: u64| format!("{timeline}{:08X}{:08X}", number / of_log, number % of_log);
    let last = range.end.checked_sub(1)? / range.segment_bytes;
    let timelines = names.iter().filter(|name| name.len() == 24).filter_map(|name| name.get(..8));
    let timeline = timelines.filter(|timeline| names.contains(&name(timeline, last))).max()?;
    let wanted = range.end.saturating_sub(range.bytes);
    let mut first = last;
    while first * range.segment_bytes > wanted && first > 0 && names.contains(&name(timeline, first - 1)) {
        first -= 1;
    }
    Some((wanted.max(first * range.segment_bytes), name(timeline, first), name(timeline, last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
rmgr: Heap        len (rec/tot):     59/  8251, tx: 126, lsn: 0/00000010, prev 0/00, desc: LOCK off 20, blkref #0: rel 1663/1/1255 blk 20 FPW
rmgr: Transaction len (rec/tot):     82/    82, tx: 125, lsn: 0/00000100, prev 0/00, desc: COMMIT 2026-11-28 05:59:50.000000 UTC; inval msgs: catcache 45
rmgr: Heap2       len (rec/tot):     64/  8256, tx:   0, lsn: 0/00000180, prev 0/00, desc: VISIBLE cutoff xid 682 flags 0x03, blkref #0: rel 1663/1/2619 fork vm blk 0 FPW, blkref #1: rel 1663/1/2619 blk 0
rmgr: Standby     len (rec/tot):     50/    50, tx:   0, lsn: 0/00000190, prev 0/00, desc: RUNNING_XACTS nextXid 732
rmgr: Heap        len (rec/tot):     54/    54, tx:   1, lsn: 0/000001C0, prev 0/00, desc: INSERT off: 1, flags: 0x00, blkref #0: rel 1663/1/2619 blk 0
rmgr: Transaction len (rec/tot):     82/    82, tx: 127, lsn: 0/00000200, prev 0/00, desc: ABORT 2026-11-28 05:59:52.000000 UTC
rmgr: Heap        len (rec/tot):     54/  8000, tx:   1, lsn: 0/000002C0, prev 0/00, desc: INSERT off: 1, flags: 0x00, blkref #0: rel 1663/1/2619 blk 0 FPW
";

    #[test]
    fn blocks_images_and_times_are_read() {
        let mut seen = Seen::default();
        for line in LINES.lines() {
            seen.take(line);
        }
        // From the first time on that is told, to the last.
        let told = Observed { wal_bytes: 256, changes: 3, images: 1, image_bytes: 8192, ..Observed::default() };
        assert_eq!((&seen.observed, seen.changes.seconds()), (&told, 2.0));
        // The map after 1 s, the table after 1 s and 1.5 s.
        let curve = seen.changes.curve();
        let point = curve.0.iter().find(|point| point.seconds > 0.5).unwrap();
        let t = point.seconds;
        assert!((point.blocks - (2.0 - 3.0 * (1.0 - t) / (2.0 - t))).abs() < 1e-9, "{point:?}");
        let mut later = Seen { not_before: i64::MAX, ..Seen::default() };
        for line in LINES.lines() {
            later.take(line);
        }
        assert_eq!((later.observed, later.changes.seconds()), (Observed::default(), 0.0));
    }

    #[test]
    fn segments_are_those_before_the_end_without_a_gap() {
        let names = "0000000100000000000000FD 0000000100000000000000FF 000000010000000100000001 0000000200000000000000FF \
                     000000020000000100000000 000000020000000100000001 000000020000000100000002 archive_status";
        let names: Vec<String> = names.split(' ').map(String::from).collect();
        let range = |end, bytes| Range {
            pid: 1,
            directory: String::new(),
            end,
            bytes,
            age: Duration::ZERO,
            segment_bytes: 16 << 20,
        };
        let found = |end, bytes| segments(&range(end, bytes), &names);
        let [a, b] = ["0000000200000000000000FF", "000000020000000100000001"].map(String::from);
        assert_eq!(found(0x1_0100_0800, 1 << 30), Some((0xff00_0000, a, b.clone())));
        assert_eq!(found(0x1_0100_0800, 0x700), Some((0x1_0100_0100, b.clone(), b)));
        assert_eq!(found(0x1_0900_0000, 1), None);
    }
}
