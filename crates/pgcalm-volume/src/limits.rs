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
        Self {
            sustained,
            burst: None,
        }
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
        Self {
            shared: Some(rate),
            read: None,
            write: None,
        }
    }

    /// One of the same rate for each direction.
    pub const fn each(rate: Rate) -> Self {
        Self {
            shared: None,
            read: Some(rate),
            write: Some(rate),
        }
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
    /// Operations that a request of so many bytes counts as.
    pub fn operations_of(&self, bytes: u64) -> u64 {
        self.io_size
            .map_or(1, |io_size| bytes.div_ceil(io_size).max(1))
    }
}
