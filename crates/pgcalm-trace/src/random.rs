//! Random numbers for choosing moments and processes to look at. Not for secrets.

use crate::clock::monotonic_ns;

/// George Marsaglia's xorshift, begun with the time.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(monotonic_ns() | 1)
    }
}

impl Random {
    /// A number from 0 to less than `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
