//! What a volume has done.

use serde::{Deserialize, Serialize};

/// Sums since the volume was made. Requests are those that arrived, as the kernel sent them; operations are what the
/// provider would count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flushes; they are not limited.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Operations charged for reads.
    pub read_operations: u64,
    /// Operations charged for writes.
    pub write_operations: u64,
    /// Requests that were done later than on an idle volume.
    pub throttled: u64,
    /// Sum of how much later, in seconds.
    pub throttled_s: f64,
    /// Most requests that were inside at the same time, waiting ones included.
    pub most_in_flight: u64,
    /// Requests that ended later than they should have by more than 0.2 ms, because this process wasn't run or the backing
    /// file was slow: how far the volume can be trusted.
    pub late: u64,
    /// Seconds in which an answer was overdue by more than 20 ms: the machine, not the volume, held the server up. At least:
    /// counted when such an answer is given at last.
    pub held_up_s: f64,
    /// Requests that failed, of the backing file's.
    pub errors: u64,
}

impl Counters {
    /// Operations charged, of both directions.
    pub fn operations(&self) -> u64 {
        self.read_operations + self.write_operations
    }

    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }
}
