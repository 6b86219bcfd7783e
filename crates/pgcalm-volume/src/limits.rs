//! What a volume allows.

use std::time::Duration;

/// How much per second: operations or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// What it sustains.
    pub sustained: u64,
    /// What it allows for a time, from credits saved up.
    pub burst: Option<Burst>,
}

impl Rate {
    /// A rate without bursts.
    pub const fn of(sustained: u64) -> Self {
        Self { sustained, burst: None }
    }
}

/// Credits are saved at the sustained rate while less is used, and one is spent for each operation or byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Per second while there are credits; more than the sustained rate.
    pub rate: u64,
    /// Most that can be saved.
    pub capacity: u64,
    /// What a new volume has.
    pub initial: u64,
}

/// What limits requests of the two directions. A request has to satisfy what its direction has for itself and what both
/// share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// What reads and writes share.
    pub shared: Option<Rate>,
    /// What reads have for themselves.
    pub read: Option<Rate>,
    /// What writes have for themselves.
    pub write: Option<Rate>,
}

impl Allowance {
    /// One that both directions share.
    pub const fn shared(rate: Rate) -> Self {
        Self { shared: Some(rate), read: None, write: None }
    }

    /// One of the same rate for each direction.
    pub const fn each(rate: Rate) -> Self {
        Self { shared: None, read: Some(rate), write: Some(rate) }
    }
}

/// All limits of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Operations per second.
    pub operations: Allowance,
    /// Bytes per second.
    pub bytes: Allowance,
    /// Bytes that count as one operation; a larger request counts as several. None: each request is one.
    pub io_size: Option<u64>,
    /// What a request takes at least.
    pub latency: Duration,
    /// Requests at work at the same time; more wait.
    pub depth: u32,
}

impl Limits {
    /// The same with so many percent of all rates; credits stay.
    pub fn scaled(mut self, percent: u32) -> Self {
        let scale = |amount: u64| (amount * u64::from(percent) / 100).max(1);
        for allowance in [&mut self.operations, &mut self.bytes] {
            for rate in [&mut allowance.shared, &mut allowance.read, &mut allowance.write].into_iter().flatten() {
                rate.sustained = scale(rate.sustained);
                if let Some(burst) = &mut rate.burst {
                    burst.rate = scale(burst.rate);
                }
            }
        }
        self
    }

    /// Operations that a request of so many bytes counts as.
    pub fn operations_of(&self, bytes: u64) -> u64 {
        self.io_size.map_or(1, |io_size| bytes.div_ceil(io_size).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_limits_is_half_of_each_rate() {
        let limits = Limits {
            operations: Allowance::shared(Rate {
                sustained: 300,
                burst: Some(Burst { rate: 3000, capacity: 7, initial: 7 }),
            }),
            bytes: Allowance::each(Rate::of(1000)),
            io_size: None,
            latency: Duration::from_millis(1),
            depth: 8,
        };
        let half = limits.scaled(50);
        let operations = half.operations.shared.unwrap();
        assert_eq!(operations.sustained, 150);
        assert_eq!(operations.burst.map(|b| (b.rate, b.initial)), Some((1500, 7)));
        assert_eq!(half.bytes, Allowance::each(Rate::of(500)));
        assert_eq!(half.latency, limits.latency);
        assert_eq!(limits.scaled(100), limits);
    }
}
