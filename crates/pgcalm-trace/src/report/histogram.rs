//! Distributions of durations, counted by powers of two.

use serde::{Deserialize, Serialize};

/// A distribution of durations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Number of values.
    pub count: u64,
    /// Sum, ms.
    pub sum_ms: f64,
    /// Smallest, ms; none without values, or where only a part of the values counted since the start is shown.
    pub min_ms: Option<f64>,
    /// Largest, ms; likewise.
    pub max_ms: Option<f64>,
    /// What half of the values are below, ms: at most an eighth too high. Absent where only powers of two are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// What 99 of 100 values are below, ms; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Number of values by bucket: the first counts 0 ns, bucket i > 0 those from 2^(i-1) ns to below 2^i ns, the 40th,
    /// with i = 39, all longer ones. Empty buckets at the end are left out.
    pub buckets: Vec<u64>,
}

impl Histogram {
    /// Mean, ms.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ms / self.count as f64)
    }

    /// Upper bound of all values, ms: the largest where it is known, else that of the last bucket.
    pub fn upper_bound_ms(&self) -> Option<f64> {
        self.max_ms.or_else(|| {
            let last = self.buckets.iter().rposition(|count| *count > 0)?;
            Some(Self::bounds_ns(last).1 as f64 / 1e6)
        })
    }

    /// Lower and upper bound of a bucket, ns.
    pub fn bounds_ns(bucket: usize) -> (u64, u64) {
        match bucket {
            0 => (0, 1),
            bucket => (1 << (bucket - 1).min(62), 1 << bucket.min(63)),
        }
    }
}
