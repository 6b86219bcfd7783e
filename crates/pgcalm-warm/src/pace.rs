//! How fast it is read: what others leave of the volume, found by their operations and by how long our own reads take.
//!
//! While nobody else uses the volume, there is nobody to be spared. Beside others the rate grows by a little at each step while
//! reads take what they take when it is quiet, and falls by a part when they take longer: additive increase, multiplicative
//! decrease. Under a floor it does not fall: a volume that is busy with reads of what is cold gets quiet by this only. Each
//! of those brings a page, and each of ours up to 128.

use std::time::Duration;

use crate::extent::LONGEST;
use crate::runs::BLOCK;

/// Time between two looks.
pub const STEP: Duration = Duration::from_millis(200);

/// Bytes per second at first, beside others.
const START: f64 = 4.0 * MIB;
/// Bytes per second that a good step adds.
const INCREASE: f64 = 2.0 * MIB;
/// What a bad one leaves.
const DECREASE: f64 = 0.7;
/// Reads that take so many times the quiet ones make a step bad.
const SLOWER: f64 = 2.0;
/// How much of what was learnt (quiet, best) goes at each step: a burst is not to be the measure for ever.
const FORGET: f64 = 0.005;
/// Operations of others per second that are none: WAL of an idle server, a log.
const IDLE: f64 = 5.0;
/// The floor, as a part of the volume's bytes per second, while others mostly read: they wait for what we bring.
const FLOOR_OF_READS: f64 = 0.8;
/// The same while they mostly write: we can't help them.
const FLOOR_OF_WRITES: f64 = 0.1;
/// Bytes per second under which it never is.
const LEAST: f64 = MIB;
/// Bytes that cloud volumes count as one operation.
const OPERATION: f64 = 256.0 * 1024.0;

/// Reads at once where no writer is to be spared. Beside one there is a single one: a commit waits behind what is on its way.
pub const READERS: usize = 4;

const MIB: f64 = (1 << 20) as f64;

/// What a volume takes per second; none where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Caps {
    /// Operations.
    pub operations: Option<f64>,
    /// Bytes.
    pub bytes: Option<f64>,
}

impl Caps {
    /// These, and those of `other` where nothing is known.
    pub fn or(self, other: Self) -> Self {
        Self { operations: self.operations.or(other.operations), bytes: self.bytes.or(other.bytes) }
    }
}

/// What others did, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Others {
    /// Read operations, those of a page each at most.
    pub reads: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Write operations.
    pub writes: f64,
    /// Bytes written.
    pub written_bytes: f64,
}

impl Others {
    fn are_idle(&self) -> bool {
        self.read_bytes < IDLE * BLOCK as f64 && self.writes < IDLE
    }

    fn mostly_read(&self) -> bool {
        self.reads > self.writes
    }
}

/// What was seen in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Bytes per second that our reads counted as ([`charge`]).
    pub bytes: f64,
    /// Seconds of our reads for each byte that they and those on their way with them cost; none if nothing was read.
    pub latency: Option<f64>,
    /// None where the volume's counters can't be read.
    pub others: Option<Others>,
}

/// The rate.
#[derive(Debug, Clone)]
pub struct Pace {
    caps: Caps,
    /// What was asked for.
    most: f64,
    rate: f64,
    /// Operations per second that others leave.
    operations: f64,
    /// The shortest time for a byte.
    quiet: Option<f64>,
    /// The most bytes per second.
    best: f64,
    readers: usize,
}

impl Pace {
    /// For a volume with these caps, and no faster than `most` bytes per second.
    pub fn new(caps: Caps, most: Option<f64>) -> Self {
        let most = most.unwrap_or(f64::INFINITY);
        Self { caps, most, rate: START, operations: f64::INFINITY, quiet: None, best: 0.0, readers: 1 }
    }

    /// Bytes per second of long reads; infinite if nobody is to be spared.
    pub fn rate(&self) -> f64 {
        self.rate.min(self.most)
    }

    /// How long the next read waits after `operations` that bring `bytes`. What was asked for is of bytes, however they come.
    pub fn wait(&self, bytes: u64, operations: u64, worth: u64) -> Duration {
        let asked = bytes as f64 / self.most;
        let left = operations as f64 / self.operations;
        Duration::from_secs_f64((charge(bytes, operations, worth) / self.rate).max(asked).max(left))
    }

    /// Reads at once.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Takes over what was seen.
    pub fn step(&mut self, seen: &Seen) {
        self.best = seen.bytes.max(self.best * (1.0 - FORGET));
        let stretch = seen.latency.map_or(1.0, |latency| latency / self.quiet.unwrap_or(latency));
        if let Some(latency) = seen.latency {
            // No read is quicker for long than the cap allows.
            let quiet = self.quiet.map_or(latency, |quiet| latency.min(quiet * (1.0 + FORGET)));
            self.quiet = Some(quiet.max(self.caps.bytes.map_or(0.0, |bytes| 1.0 / bytes)));
        }
        let spares = seen.others.is_none_or(|others| !others.are_idle() && !others.mostly_read());
        self.readers = if spares { 1 } else { READERS };
        if seen.others.is_some_and(|others| others.are_idle()) {
            (self.rate, self.operations) = (f64::INFINITY, f64::INFINITY);
            return;
        }
        self.rate = match stretch > SLOWER {
            true => self.rate.min(seen.bytes) * DECREASE,
            // Without an end, it would not be the rate that was tried.
            false => self.rate.min(seen.bytes.max(START)) + INCREASE,
        };
        let others = seen.others.unwrap_or_default();
        let share = if others.mostly_read() { FLOOR_OF_READS } else { FLOOR_OF_WRITES };
        let floor = (share * self.caps.bytes.unwrap_or(self.best)).max(LEAST);
        let left = self.left(&others);
        self.rate = self.rate.min(left.bytes.unwrap_or(f64::INFINITY)).max(floor);
        let least = self.caps.operations.map_or(0.0, |cap| share * cap.max(1.0));
        self.operations = left.operations.map_or(f64::INFINITY, |operations| operations.max(least));
    }

    /// What others leave of the caps; of bytes no more than the operations can bring.
    fn left(&self, others: &Others) -> Caps {
        let bytes = self.caps.bytes.map(|cap| cap - others.read_bytes - others.written_bytes);
        let operations = self.caps.operations.map(|cap| cap - others.reads - others.writes);
        let brought = operations.map_or(f64::INFINITY, |operations| operations * OPERATION);
        Caps { operations, bytes: Some(bytes.unwrap_or(f64::INFINITY).min(brought)) }
    }
}

/// What `bytes` count as that so many operations bring, each of which costs as much as `worth` bytes, however few it reads.
pub fn charge(bytes: u64, operations: u64, worth: u64) -> f64 {
    bytes.max(operations * worth) as f64
}

/// What a single read counts as for the time that it takes.
pub fn cost(length: u64, worth: u64) -> f64 {
    length.clamp(worth.min(LONGEST), LONGEST) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GP3: Caps = Caps { operations: Some(3000.0), bytes: Some(125.0 * MIB) };

    fn writers(writes: f64) -> Option<Others> {
        Some(Others { writes, written_bytes: writes * 8192.0, ..Others::default() })
    }

    fn readers(reads: f64) -> Option<Others> {
        Some(Others { reads, read_bytes: reads * 8192.0, ..Others::default() })
    }

    /// Steps in which reads take so many times the quiet ones; the rate after them.
    fn steps(pace: &mut Pace, count: u32, stretch: f64, others: Option<Others>) -> f64 {
        for _ in 0..count {
            let bytes = pace.rate().min(125.0 * MIB);
            pace.step(&Seen { bytes, latency: Some(stretch / (125.0 * MIB)), others });
        }
        pace.rate()
    }

    #[test]
    fn nobody_is_spared_where_there_is_nobody_and_what_was_asked_for_holds() {
        assert_eq!(steps(&mut Pace::new(GP3, None), 1, 1.0, writers(1.0)), f64::INFINITY);
        assert_eq!(steps(&mut Pace::new(GP3, None), 9, 9.0, readers(2.0)), f64::INFINITY);
        for others in [writers(0.0), writers(500.0), readers(500.0), None] {
            assert_eq!(steps(&mut Pace::new(GP3, Some(2.0 * MIB)), 50, 1.0, others), 2.0 * MIB);
        }
    }

    #[test]
    fn beside_writers_it_grows_by_little_and_falls_by_parts() {
        let mut pace = Pace::new(GP3, None);
        let before = steps(&mut pace, 11, 1.0, writers(200.0));
        assert_eq!(before, 12.5 * MIB + 10.0 * INCREASE);
        assert_eq!(steps(&mut pace, 1, 2.5, writers(200.0)), before * DECREASE);
        let high = steps(&mut pace, 100, 1.0, writers(200.0));
        // A quarter of a minute later it has what they leave, and no more.
        assert_eq!(high, 125.0 * MIB - 200.0 * 8192.0);
        let low = steps(&mut pace, 20, 4.0, writers(200.0));
        assert_eq!(low, 12.5 * MIB, "the floor");
        assert_eq!(steps(&mut pace, 1, 4.0, writers(0.0)), f64::INFINITY);
        // From no limit it comes down to what was read.
        let fallen = steps(&mut pace, 1, 4.0, writers(200.0));
        assert!(fallen < 120.0 * MIB, "{fallen}");
    }

    #[test]
    fn who_uses_up_the_operations_leaves_the_floor() {
        let mut pace = Pace::new(GP3, None);
        steps(&mut pace, 50, 1.0, writers(200.0));
        assert_eq!(steps(&mut pace, 1, 1.0, writers(3000.0)), 12.5 * MIB);
        assert_eq!(steps(&mut pace, 1, 1.0, writers(2900.0)), 14.5 * MIB);
    }

    /// 150 operations per second, which readers of a cold cache use up: what they wait for comes by us.
    #[test]
    fn readers_of_what_is_cold_are_helped_by_reading() {
        let caps = Caps { operations: Some(150.0), bytes: Some(22.0 * MIB) };
        let mut pace = Pace::new(caps, None);
        for _ in 0..100 {
            pace.step(&Seen { bytes: pace.rate(), latency: Some(10.0 / (22.0 * MIB)), others: readers(150.0) });
        }
        assert!((pace.rate() - 0.8 * 22.0 * MIB).abs() < 1.0, "{}", pace.rate());
        assert_eq!(pace.readers(), READERS);
        // A commit waits behind no more than one.
        pace.step(&Seen { bytes: pace.rate(), latency: None, others: writers(20.0) });
        assert_eq!(pace.readers(), 1);
    }

    #[test]
    fn a_burst_is_forgotten_and_an_unknown_volume_has_a_floor() {
        let mut pace = Pace::new(Caps::default(), None);
        let mut step = |latency: f64, bytes: f64| {
            pace.step(&Seen { bytes, latency: Some(latency), others: writers(100.0) });
            pace.rate()
        };
        step(1e-9, 200.0 * MIB);
        assert_eq!(step(5e-9, 100.0 * MIB), 200.0 * MIB * (1.0 - FORGET) * FLOOR_OF_WRITES);
        for _ in 0..400 {
            step(5e-9, 50.0 * MIB);
        }
        assert!(step(5e-9, 50.0 * MIB) > 50.0 * MIB);
        let mut slow = Pace::new(Caps::default(), None);
        for _ in 0..50 {
            slow.step(&Seen { bytes: 1.0, latency: Some(1.0), others: None });
        }
        slow.step(&Seen { bytes: 1.0, latency: Some(9.0), others: None });
        assert_eq!(slow.rate(), LEAST);
    }

    /// Of the operations short reads take the share that long ones take of the bytes.
    #[test]
    fn a_block_alone_is_charged_an_operation() {
        let worth = crate::extent::worth(GP3.operations, GP3.bytes);
        let per_second = |pace: &Pace, bytes| 1.0 / pace.wait(bytes, 1, worth).as_secs_f64();
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 0.01, "{found}, not {wanted}");
        let mut pace = Pace::new(GP3, None);
        for (others, share) in [(writers(3000.0), 0.1), (readers(3000.0), 0.8)] {
            steps(&mut pace, 50, 4.0, others);
            near(per_second(&pace, BLOCK), share * 3000.0);
            near(per_second(&pace, LONGEST) * MIB, share * 125.0 * MIB);
        }
        // Above the floor, what is left of the operations is less than what is left of the bytes.
        steps(&mut pace, 100, 1.0, writers(2000.0));
        near(per_second(&pace, BLOCK), 1000.0);
        near(per_second(&pace, LONGEST) * MIB, 125.0 * MIB - 2000.0 * 8192.0);
        steps(&mut pace, 1, 1.0, writers(0.0));
        assert_eq!(pace.wait(BLOCK, 1, worth), Duration::ZERO);
        // --rate counts what is read.
        let mut asked = Pace::new(GP3, Some(BLOCK as f64));
        steps(&mut asked, 9, 1.0, writers(0.0));
        assert_eq!(asked.wait(BLOCK, 1, worth), Duration::from_secs(1));
    }

    #[test]
    fn a_short_read_costs_an_operation() {
        assert_eq!(cost(8192, 65_536), 65_536.0);
        assert_eq!(cost(1 << 20, 65_536), f64::from(1 << 20));
    }
}
