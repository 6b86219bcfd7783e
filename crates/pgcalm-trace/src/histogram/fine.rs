//! Histograms whose quantiles are known to an eighth.

use crate::histogram::{BUCKETS, KernelHistogram};
use crate::report::histogram::Histogram;

/// HISTOGRAM_PART_BITS of bpf/fine_histogram.bpf.h.
const PART_BITS: usize = 3;
/// HISTOGRAM_PARTS.
const PARTS: usize = 1 << PART_BITS;
/// HISTOGRAM_ALL_PARTS.
pub const ALL_PARTS: usize = BUCKETS * PARTS;

/// The C structure `fine_histogram`.
#[derive(Debug, Clone)]
pub struct FineHistogram {
    /// By power of two.
    pub whole: KernelHistogram,
    /// [`PARTS`] for each bucket of it.
    pub parts: [u64; ALL_PARTS],
}

impl FineHistogram {
    /// The model's form of it, with its quantiles.
    pub fn to_model(&self) -> Histogram {
        Histogram { p50_ms: self.quantile_ms(50), p99_ms: self.quantile_ms(99), ..self.whole.to_model() }
    }

    /// What so many percent of the values are below, ms; the largest value at most.
    fn quantile_ms(&self, percent: u64) -> Option<f64> {
        let count: u64 = self.parts.iter().sum();
        let wanted = (count * percent).div_ceil(100);
        let mut seen = 0;
        let part = self.parts.iter().position(|number| {
            seen += number;
            seen >= wanted && seen > 0
        })?;
        Some(upper_bound_ns(part).min(self.whole.max) as f64 / 1e6)
    }
}

/// What the values of a part are below; the last bucket has no bound.
fn upper_bound_ns(part: usize) -> u64 {
    let (bucket, place) = (part / PARTS, part % PARTS);
    if bucket == BUCKETS - 1 {
        return u64::MAX;
    }
    let (low, high) = Histogram::bounds_ns(bucket);
    if bucket <= PART_BITS {
        return high;
    }
    low + (place as u64 + 1) * (low >> PART_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As fine_histogram_add does it.
    fn of(values: &[u64]) -> FineHistogram {
        let mut histogram = FineHistogram { whole: KernelHistogram::default(), parts: [0; ALL_PARTS] };
        for value in values {
            let bucket = ((u64::BITS - value.leading_zeros()) as usize).min(BUCKETS - 1);
            let place = if bucket > PART_BITS { (value >> (bucket - PART_BITS - 1)) as usize % PARTS } else { 0 };
            histogram.whole.take(*value);
            histogram.parts[bucket * PARTS + place] += 1;
        }
        histogram
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_above_the_value() {
        let mut values: Vec<u64> = vec![1_000; 98];
        values.extend([5_000_000, 7_000_000]);
        let model = of(&values).to_model();
        assert_eq!(model.count, 100);
        let within_an_eighth = |found: Option<f64>, ns: f64| {
            let found = found.unwrap() * 1e6;
            assert!(found >= ns && found <= ns * 1.125, "{found} for {ns}");
        };
        within_an_eighth(model.p50_ms, 1_000.0);
        within_an_eighth(model.p99_ms, 5_000_000.0);
        // Never above the largest.
        assert_eq!(of(&[5]).to_model().p99_ms, Some(5.0 / 1e6));
        assert_eq!(of(&[1 << 50]).to_model().p50_ms, Some((1u64 << 50) as f64 / 1e6));
    }

    #[test]
    fn without_values_there_are_no_quantiles() {
        assert_eq!(of(&[]).to_model().p50_ms, None);
    }
}
