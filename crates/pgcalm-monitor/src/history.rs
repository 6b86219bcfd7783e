//! The samples of the last hour, for looking back.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::Host;

/// How far back, and how much memory at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Samples older than this are forgotten.
    pub span: Duration,
    /// Memory for all of them; the oldest are forgotten when it is used up, so that the span becomes shorter.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// An hour in at most 64 MiB.
    fn default() -> Self {
        Self { span: Duration::from_secs(3600), bytes: 64 << 20 }
    }
}

/// Samples by time.
///
/// They are kept as compressed JSON, some 1.5 kB for an instance with the module, since looking back is rare: an hour of
/// samples at one a second takes 5 MB for each. Times are of the wall clock: should that be set back,
/// samples of the time that is now in the future are forgotten.
#[derive(Debug)]
pub struct History {
    limits: HistoryLimits,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    samples: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    time_ms: u64,
    compressed: Vec<u8>,
}

/// What an entry takes besides its compressed sample.
const ENTRY_BYTES: usize = size_of::<Entry>() + 32;

/// The fastest level that is worth it: JSON shrinks to a tenth.
const LEVEL: i32 = 1;

impl History {
    /// An empty one.
    pub fn new(limits: HistoryLimits) -> Self {
        Self { limits, entries: Mutex::default() }
    }

    /// Adds a sample, and forgets what is too old or too much.
    pub fn push(&self, host: &Host) -> anyhow::Result<()> {
        let mut compressed = zstd::bulk::compress(&serde_json::to_vec(host)?, LEVEL)?;
        compressed.shrink_to_fit();
        let mut entries = self.lock();
        while let Some(last) = entries.samples.back()
            && last.time_ms >= host.time_ms
        {
            entries.forget_back();
        }
        entries.bytes += compressed.len() + ENTRY_BYTES;
        entries.samples.push_back(Entry { time_ms: host.time_ms, compressed });
        let span_ms = self.limits.span.as_millis() as u64;
        while let Some(first) = entries.samples.front()
            && (first.time_ms + span_ms < host.time_ms || entries.bytes > self.limits.bytes)
        {
            entries.forget_front();
        }
        Ok(())
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.lock().samples.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the samples take.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Times of the first and the last sample, milliseconds since 1970.
    pub fn range(&self) -> Option<(u64, u64)> {
        let entries = self.lock();
        Some((entries.samples.front()?.time_ms, entries.samples.back()?.time_ms))
    }

    /// The sample at that time, or the last one before it; the first one if there is none before it.
    pub fn at(&self, time_ms: u64) -> Option<Host> {
        let entries = self.lock();
        let after = entries.samples.partition_point(|entry| entry.time_ms <= time_ms);
        let entry = entries.samples.get(after.saturating_sub(1))?;
        expand(&entry.compressed)
    }

    /// Calls `take` with each sample, oldest first. One at a time is unpacked: all of them take ten times the memory.
    pub fn each(&self, mut take: impl FnMut(&Host)) {
        let times: Vec<u64> = self.lock().samples.iter().map(|entry| entry.time_ms).collect();
        for host in times.into_iter().filter_map(|time| self.at(time)) {
            take(&host);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Nothing that holds the lock can leave the entries half changed.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn forget_front(&mut self) {
        if let Some(entry) = self.samples.pop_front() {
            self.bytes -= entry.compressed.len() + ENTRY_BYTES;
        }
    }

    fn forget_back(&mut self) {
        if let Some(entry) = self.samples.pop_back() {
            self.bytes -= entry.compressed.len() + ENTRY_BYTES;
        }
    }
}

fn expand(compressed: &[u8]) -> Option<Host> {
    let json = zstd::stream::decode_all(compressed).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Identity, Instance};

    fn sample(time_ms: u64) -> Host {
        Host {
            time_ms,
            instances: vec![Instance {
                identity: Identity { name: format!("{time_ms}"), ..Identity::default() },
                ..Instance::default()
            }],
            ..Host::default()
        }
    }

    fn times(history: &History) -> Vec<u64> {
        let mut times = Vec::new();
        history.each(|host| times.push(host.time_ms));
        times
    }

    #[test]
    fn what_is_older_than_the_span_is_forgotten() {
        let history = History::new(HistoryLimits { span: Duration::from_secs(10), ..HistoryLimits::default() });
        for second in 0..100 {
            history.push(&sample(second * 1000)).unwrap();
        }
        assert_eq!(history.range(), Some((89_000, 99_000)));
        assert_eq!(history.len(), 11);
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let history = History::new(HistoryLimits { bytes: 20_000, ..HistoryLimits::default() });
        for second in 0..500 {
            history.push(&sample(second * 1000)).unwrap();
            assert!(history.bytes() <= 20_000);
        }
        assert!(history.len() > 10 && history.len() < 500);
        assert_eq!(history.range().unwrap().1, 499_000);
    }

    #[test]
    fn a_sample_comes_back_as_it_was_and_the_one_before_a_time_is_found() {
        let history = History::new(HistoryLimits::default());
        for second in 1..=10 {
            history.push(&sample(second * 1000)).unwrap();
        }
        assert_eq!(history.at(4_999), Some(sample(4_000)));
        assert_eq!(history.at(5_000), Some(sample(5_000)));
        assert_eq!(history.at(0), Some(sample(1_000)));
        assert_eq!(history.at(u64::MAX), Some(sample(10_000)));
        let all: Vec<u64> = (1..=10).map(|second| second * 1000).collect();
        assert_eq!(times(&history), all);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_samples_out_of_order() {
        let history = History::new(HistoryLimits::default());
        for second in [10, 11, 12, 11] {
            history.push(&sample(second * 1000)).unwrap();
        }
        assert_eq!(times(&history), [10_000, 11_000]);
    }
}
