//! The kernel's histograms, and their model.

pub mod fine;

use crate::report::histogram::Histogram;

/// Buckets of `struct histogram` in bpf/server.bpf.h, whose bounds [`Histogram`] repeats.
pub const BUCKETS: usize = 40;

/// The C structure; each group's generated type of that name has the same members.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelHistogram {
    /// Number of values.
    pub count: u64,
    /// Their sum, ns.
    pub sum: u64,
    /// Complement of the smallest value.
    pub min_complement: u64,
    /// Largest value, ns.
    pub max: u64,
    /// Values by power of two.
    pub buckets: [u64; BUCKETS],
}

// SAFETY: integers only, no padding, every bit pattern valid.
unsafe impl plain::Plain for KernelHistogram {}

impl Default for KernelHistogram {
    fn default() -> Self {
        Self { count: 0, sum: 0, min_complement: 0, max: 0, buckets: [0; BUCKETS] }
    }
}

impl KernelHistogram {
    /// What was added since `earlier`. The smallest and largest value are known only if nothing had been added before.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        if earlier.count > 0 {
            difference.min_complement = 0;
            difference.max = 0;
        }
        difference.count = self.count.saturating_sub(earlier.count);
        difference.sum = self.sum.saturating_sub(earlier.sum);
        for (now, then) in difference.buckets.iter_mut().zip(earlier.buckets) {
            *now = now.saturating_sub(then);
        }
        difference
    }

    /// Adds a value, ns, as histogram_add of bpf/server.bpf.h does.
    pub fn take(&mut self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.count += 1;
        self.sum += value;
        self.min_complement = self.min_complement.max(!value);
        self.max = self.max.max(value);
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
    }

    /// Adds another one's values.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min_complement = self.min_complement.max(other.min_complement);
        self.max = self.max.max(other.max);
        for (sum, value) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += value;
        }
    }

    /// The model's form of it.
    pub fn to_model(&self) -> Histogram {
        let ms = |ns: u64| ns as f64 / 1e6;
        if self.count == 0 {
            return Histogram::default();
        }
        let used = self.buckets.iter().rposition(|n| *n > 0).map_or(0, |i| i + 1);
        Histogram {
            count: self.count,
            sum_ms: ms(self.sum),
            min_ms: (self.min_complement > 0).then(|| ms(!self.min_complement)),
            max_ms: (self.min_complement > 0).then(|| ms(self.max)),
            buckets: self.buckets[..used].to_vec(),
            ..Histogram::default()
        }
    }
}
