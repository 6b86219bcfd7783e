//! How long a fast stop, and recovery after a crash, would take now.
//!
//! A fast stop ends with a checkpoint without pauses: dirty shared buffers go into the page cache, and then each file is synced. What
//! takes time is what the device gets by that, those pages and what had been written before and was not flushed, at the operations or
//! at the bytes per second that it takes, whichever is slower. Recovery replays WAL from the redo point on.

/// WAL replayed per second where no rate was shown: pages that have to be read at random, and pages in memory.
const REPLAY_RATES: [f64; 2] = [16e6, 256e6];

/// The schema of the extension `pg_buffercache`, quoted, if this role may call its `pg_buffercache_summary()` (16 on), as an expression;
/// else null. It looks at all buffers without locks.
pub const BUFFERCACHE_SCHEMA: &str = "(SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace \
     WHERE extname = 'pg_buffercache' AND EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid \
     AND proname = 'pg_buffercache_summary' AND has_function_privilege(p.oid, 'EXECUTE')))";

/// How an estimate was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// By pg_calm: what would be merged is counted, at the rate that the device has taken.
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
}

/// Seconds of recovery, at least and at most: the same where the rate of replay is known.
pub fn recovery(wal_bytes: u64, replay_rate: Option<f64>) -> [f64; 2] {
    let [slow, fast] = replay_rate.filter(|rate| *rate > 0.0).map_or(REPLAY_RATES, |rate| [rate; 2]);
    [fast, slow].map(|rate| wal_bytes as f64 / rate)
}

/// Bytes per second of the last crash recovery that a server's log tells of ("redo starts at", "redo done at").
pub fn replay_rate(log: &str) -> Option<f64> {
    let (before, done) = log.rsplit_once("redo done at ")?;
    let (_, starts) = before.rsplit_once("redo starts at ")?;
    let (_, elapsed) = done.lines().next()?.split_once("elapsed: ")?;
    let seconds: f64 = elapsed.split(' ').next()?.parse().ok()?;
    let bytes = position(done)?.checked_sub(position(starts)?)?;
    // It is told in hundredths.
    (seconds >= 0.1).then(|| bytes as f64 / seconds)
}

/// Of a position such as `1/2F000028`.
fn position(text: &str) -> Option<u64> {
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
        assert_eq!(recovery(512_000_000, Some(64e6)), [8.0, 8.0]);
        assert_eq!(recovery(512_000_000, None), [2.0, 32.0]);
    }

    #[test]
    fn the_last_recovery_of_a_log_counts() {
        let log = "LOG:  redo starts at 0/1000000\n\
                   LOG:  redo done at 0/2000000 system usage: CPU: user: 0.10 s, system: 0.05 s, elapsed: 1.00 s\n\
                   2026-11-27 [7] LOG:  redo starts at 0/FF000000\n\
                   LOG:  invalid record length at 1/2000028: wanted 24, got 0\n\
                   LOG:  redo done at 1/2000000 system usage: CPU: user: 0.10 s, system: 0.05 s, elapsed: 1.50 s\nLOG:  x\n";
        assert_eq!(replay_rate(log), Some(f64::from(0x3000000) / 1.5));
        assert_eq!(replay_rate("LOG:  redo is not required\n"), None);
        // Too short to tell.
        assert_eq!(replay_rate("redo starts at 0/1\nredo done at 0/9 system usage: CPU: x, elapsed: 0.09 s\n"), None);
    }
}
