//! What was usual in the seconds before.

use std::collections::VecDeque;

/// Seconds that are looked back on.
const LENGTH: usize = 60;
/// Values that there must be before a median says anything.
const FEWEST: usize = 3;

/// The last values of a figure.
#[derive(Debug, Default)]
pub(super) struct History {
    values: VecDeque<f64>,
}

impl History {
    /// Adds the newest.
    pub(super) fn push(&mut self, value: f64) {
        self.values.push_back(value);
        if self.values.len() > LENGTH {
            self.values.pop_front();
        }
    }

    /// The median; none of fewer than three.
    pub(super) fn median(&self) -> Option<f64> {
        if self.values.len() < FEWEST {
            return None;
        }
        let mut sorted: Vec<f64> = self.values.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        Some(if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_needs_three_values_and_forgets_old_ones() {
        let mut history = History::default();
        history.push(5.0);
        history.push(1.0);
        assert_eq!(history.median(), None);
        history.push(3.0);
        assert_eq!(history.median(), Some(3.0));
        history.push(7.0);
        assert_eq!(history.median(), Some(4.0));
        for _ in 0..LENGTH {
            history.push(100.0);
        }
        assert_eq!(history.median(), Some(100.0));
    }
}
