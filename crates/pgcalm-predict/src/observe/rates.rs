//! Transactions per second, second by second.

use std::time::Instant;

use crate::observe::server::Statistics;

/// Seconds that are taken together: a session reports what it has committed once a second at most (`PGSTAT_MIN_INTERVAL` in
/// pgstat.c).
const SPAN: usize = 3;

/// What a rate must be of the best ones for the server to count as unhindered.
const UNHINDERED: f64 = 0.7;

/// The count of transactions at each look.
#[derive(Debug, Default)]
pub(super) struct Rates {
    looks: Vec<(Instant, f64)>,
}

impl Rates {
    pub(super) fn add(&mut self, statistics: &Statistics) {
        self.looks.push((Instant::now(), statistics.transactions));
    }

    /// The mean rate of the times in which nothing held transactions up: those with at least 0.7 of the 90th percentile.
    pub(super) fn unhindered(&self) -> f64 {
        let rates: Vec<f64> = self
            .looks
            .windows(SPAN + 1)
            .map(|looks| {
                let (from, to) = (looks[0], looks[SPAN]);
                (to.1 - from.1) / to.0.duration_since(from.0).as_secs_f64().max(1e-3)
            })
            .collect();
        unhindered(rates)
    }
}

fn unhindered(mut rates: Vec<f64>) -> f64 {
    if rates.is_empty() {
        return 0.0;
    }
    rates.sort_by(f64::total_cmp);
    let high = rates[((rates.len() - 1) as f64 * 0.9).round() as usize];
    let good: Vec<f64> = rates.into_iter().filter(|rate| *rate >= UNHINDERED * high).collect();
    good.iter().sum::<f64>() / good.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_do_not_count_as_what_the_server_can_do() {
        let mut rates = vec![1000.0; 10];
        rates.extend([0.0; 5]);
        assert_eq!(unhindered(rates), 1000.0);
        assert_eq!(unhindered(Vec::new()), 0.0);
    }
}
