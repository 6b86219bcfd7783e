//! How long a fast stop, and recovery after a crash, would take now.
//!
//! A fast stop ends with a checkpoint without pauses: dirty shared buffers go into the page cache, and then each file is synced. What
//! takes time is what the device gets by that, those pages and what had been written before and was not flushed, at the operations or
//! at the bytes per second that it takes, whichever is slower. Recovery replays WAL from the redo point on, and ends with such a
//! checkpoint, too.

/// WAL replayed per second where no rate was shown: pages in memory, and pages that have to be read at random.
const REPLAY_RATES: [f64; 2] = [256e6, 16e6];

/// The schema of the extension `pg_buffercache`, quoted, if this role may call its `pg_buffercache_summary()` (16 on), as an expression;
/// else null. It looks at all buffers without locks.
///
/// The function has to be the extension's own: where that has none, anybody who may create functions in its schema could make one of
/// this name, and it would run as the role that asks.
pub const BUFFERCACHE_SCHEMA: &str = "(SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace \
     WHERE extname = 'pg_buffercache' AND EXISTS (SELECT FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass \
     AND d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e' \
     WHERE p.pronamespace = n.oid AND proname = 'pg_buffercache_summary' AND pronargs = 0 \
     AND has_function_privilege(p.oid, 'EXECUTE')))";

/// How an estimate was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// By pg_calm: what would be merged is counted.
    Measured,
    /// Dirty buffers are counted, and each page is an operation at the caps that are known.
    FromCaps,
    /// The same, as if all shared buffers were dirty.
    UpperBound,
}

impl Basis {
    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::FromCaps => "from caps",
            Self::UpperBound => "upper bound",
        }
    }
}

/// What a fast stop would have to write.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pending {
    /// `pg_calm_status.stop_seconds`.
    pub told_seconds: Option<f64>,
    /// Dirty shared buffers; none if they can't be counted.
    pub dirty_buffers: Option<u64>,
    /// All shared buffers.
    pub shared_buffers: u64,
    /// Size of a buffer.
    pub block_bytes: u64,
    /// Page cache that waits to be written, or is being written.
    pub unflushed_bytes: u64,
    /// Write operations per second that the device takes.
    pub write_iops: Option<u64>,
    /// Bytes per second that it takes.
    pub write_bandwidth: Option<u64>,
}

impl Pending {
    /// Seconds, and how sure that is; none where nothing is known of the device's rate.
    pub fn stop(&self) -> Option<(f64, Basis)> {
        if let Some(seconds) = self.told_seconds {
            return Some((seconds, Basis::Measured));
        }
        let block = self.block_bytes.max(1);
        let bytes =
            self.dirty_buffers.unwrap_or(self.shared_buffers) as f64 * block as f64 + self.unflushed_bytes as f64;
        let seconds = |amount: f64, cap: Option<u64>| cap.map(|cap| amount / cap.max(1) as f64);
        let by_operations = seconds(bytes / block as f64, self.write_iops);
        let by_bytes = seconds(bytes, self.write_bandwidth);
        let slower = by_operations.into_iter().chain(by_bytes).reduce(f64::max)?;
        Some((slower, if self.dirty_buffers.is_some() { Basis::FromCaps } else { Basis::UpperBound }))
    }

    /// Seconds of recovery after a crash with so much WAL since the redo point, at least and at most: replay, at bytes per second of
    /// the last one if that is known, and the checkpoint without pauses for which the server then waits (PostgreSQL:
    /// `PerformRecoveryXLogAction`, `CHECKPOINT_END_OF_RECOVERY` of `CreateCheckPoint`), unless nothing is known of the device's rate.
    /// A standby that starts makes none. `pg_calm_status.recovery_seconds` is the middle.
    pub fn recovery(&self, wal_bytes: u64, replay_rate: Option<f64>, standby: bool) -> [f64; 2] {
        let rates = replay_rate.filter(|rate| *rate > 0.0).map_or(REPLAY_RATES, |rate| [rate; 2]);
        let checkpoint = if standby { [0.0; 2] } else { self.last_checkpoint(wal_bytes) };
        [0, 1].map(|end| wal_bytes as f64 / rates[end] + checkpoint[end])
    }

    /// Of the checkpoint at the end of recovery, which writes what replay dirties.
    ///
    /// - At least what a stop would write, where that is counted: it was changed after the redo point, so replay changes it again.
    /// - At most all that was changed since then: replay dirties flushed pages, too, since it restores the image that their first
    ///   change put into WAL (`full_page_writes`; `XLogReadBufferForRedoExtended`) whatever is on disk. So it is about a page for each
    ///   block of WAL, more of them only with small images (`wal_compression`). Shared buffers hold no more than there are: the
    ///   others were written while WAL was replayed. What is unflushed now may have to be synced besides, before replay
    ///   (`SyncDataDirectory`).
    fn last_checkpoint(&self, wal_bytes: u64) -> [f64; 2] {
        let least = match self.stop() {
            None => return [0.0; 2],
            Some((_, Basis::UpperBound)) => 0.0,
            Some((seconds, _)) => seconds,
        };
        let replayed = wal_bytes.div_ceil(self.block_bytes.max(1)).min(self.shared_buffers);
        let dirty = self.dirty_buffers.unwrap_or(0).max(replayed);
        let most = Self { told_seconds: None, dirty_buffers: Some(dirty), ..*self }.stop();
        [least, most.map_or(least, |(seconds, _)| seconds.max(least))]
    }
}

/// Bytes per second of the last crash recovery that a server's log tells of ("redo starts at", "redo done at").
///
/// Of a standby, or from an archive, redo lasts as long as WAL comes: those are passed over.
pub fn replay_rate(log: &str) -> Option<f64> {
    let (before, done) = log.rsplit_once("redo done at ")?;
    let (earlier, starts) = before.rsplit_once("redo starts at ")?;
    if ["read-only connections", "streaming WAL", "restored log file"].iter().any(|waits| starts.contains(waits)) {
        return replay_rate(earlier);
    }
    let (_, elapsed) = done.lines().next()?.split_once("elapsed: ")?;
    let seconds: f64 = elapsed.split(' ').next()?.parse().ok()?;
    let bytes = position(done)?.checked_sub(position(starts)?)?;
    // It is told in hundredths.
    (seconds >= 0.1).then(|| bytes as f64 / seconds)
}

/// A position of WAL such as `1/2F000028`, with which the text begins.
pub fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split([' ', '\n', ',']).next()?.split_once('/')?;
    let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
    Some(hexadecimal(high)? << 32 | hexadecimal(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_operations_and_bytes_counts() {
        let pending = Pending {
            dirty_buffers: Some(900),
            shared_buffers: 5000,
            block_bytes: 8192,
            unflushed_bytes: 100 * 8192,
            write_iops: Some(100),
            write_bandwidth: Some(8192 * 1000),
            ..Pending::default()
        };
        assert_eq!(pending.stop(), Some((10.0, Basis::FromCaps)));
        let slow = Pending { write_bandwidth: Some(8192 * 50), ..pending };
        assert_eq!(slow.stop(), Some((20.0, Basis::FromCaps)));
        let uncounted = Pending { dirty_buffers: None, ..pending };
        assert_eq!(uncounted.stop(), Some((51.0, Basis::UpperBound)));
        let told = Pending { told_seconds: Some(3.0), ..uncounted };
        assert_eq!(told.stop(), Some((3.0, Basis::Measured)));
        assert_eq!(Pending { write_iops: None, write_bandwidth: None, ..pending }.stop(), None);
    }

    #[test]
    fn recovery_is_a_range_unless_the_rate_is_known() {
        let pending = Pending::default();
        assert_eq!(pending.recovery(512_000_000, Some(64e6), false), [8.0, 8.0]);
        assert_eq!(pending.recovery(512_000_000, None, false), [2.0, 32.0]);
        assert_eq!(pending.recovery(512_000_000, Some(0.0), false), [2.0, 32.0]);
    }

    #[test]
    fn recovery_ends_with_a_checkpoint_of_what_it_replays() {
        let pending = Pending {
            dirty_buffers: Some(900),
            shared_buffers: 5000,
            block_bytes: 8000,
            unflushed_bytes: 100 * 8000,
            write_iops: Some(100),
            ..Pending::default()
        };
        let recovery = |pending: Pending, pages: u64| pending.recovery(pages * 8000, Some(8e6), false);
        // What a stop would write, and flushed pages that WAL has as a whole.
        assert_eq!(recovery(pending, 3000), [3.0 + 10.0, 3.0 + 31.0]);
        // Compressed, or not the first change.
        assert_eq!(recovery(pending, 500), [10.5; 2]);
        // There are no more buffers.
        assert_eq!(recovery(pending, 50_000), [50.0 + 10.0, 50.0 + 51.0]);
        let uncounted = Pending { dirty_buffers: None, ..pending };
        assert_eq!(recovery(uncounted, 3000), [3.0, 3.0 + 31.0]);
        // By pg_calm, merged.
        let told = Pending { told_seconds: Some(4.0), ..pending };
        assert_eq!(recovery(told, 3000), [3.0 + 4.0, 3.0 + 31.0]);
        assert_eq!(recovery(Pending { write_iops: None, ..told }, 3000), [7.0; 2]);
        assert_eq!(recovery(Pending { write_iops: None, ..pending }, 3000), [3.0; 2]);
    }

    #[test]
    fn standbys_make_no_last_checkpoint() {
        let pending =
            Pending { dirty_buffers: Some(900), block_bytes: 8000, write_iops: Some(100), ..Pending::default() };
        assert_eq!(pending.recovery(8_000_000, Some(8e6), true), [1.0; 2]);
        assert_eq!(pending.recovery(8_000_000, Some(8e6), false), [10.0; 2]);
    }

    #[test]
    fn the_last_recovery_of_a_log_counts() {
        let log = "LOG:  redo starts at 0/1000000\n\
                   LOG:  redo done at 0/2000000 system usage: CPU: user: 0.10 s, system: 0.05 s, elapsed: 1.00 s\n\
                   2026-11-27 [7] LOG:  redo starts at 0/FF000000\n\
                   LOG:  invalid record length at 1/2000028: wanted 24, got 0\n\
                   LOG:  redo done at 1/2000000 system usage: CPU: user: 0.10 s, system: 0.05 s, elapsed: 1.50 s\nLOG:  x\n";
        assert_eq!(replay_rate(log), Some(f64::from(0x3000000) / 1.5));
        let promoted = "LOG:  redo starts at 2/0\nLOG:  database system is ready to accept read-only connections\n\
                        LOG:  redo done at 3/0 system usage: CPU: user: 9.00 s, system: 0.05 s, elapsed: 86400.00 s\n";
        assert_eq!(replay_rate(&format!("{log}{promoted}")), Some(f64::from(0x3000000) / 1.5));
        assert_eq!(replay_rate(promoted), None);
        assert_eq!(replay_rate("LOG:  redo is not required\n"), None);
        // Too short to tell.
        assert_eq!(replay_rate("redo starts at 0/1\nredo done at 0/9 system usage: CPU: x, elapsed: 0.09 s\n"), None);
    }
}
