//! Transactions per second, second by second.

use std::time::Duration;
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
    pub fn add(&mut self, statistics: &Statistics) {
        self.looks.push((Instant::now(), statistics.transactions));
    }

    /// In how many seconds as many transactions end in the mean as did in the `span` before `end`. Before the first look the
    /// mean rate is assumed; without transactions it is time itself.
    pub fn seconds_of_work(&self, end: Instant, span: Duration) -> f64 {
        let (Some(first), Some(last)) = (self.looks.first(), self.looks.last()) else {
            return span.as_secs_f64();
        };
        let rate = (last.1 - first.1) / last.0.duration_since(first.0).as_secs_f64().max(1e-3);
        if rate < 1.0 {
            return span.as_secs_f64();
        }
        let start = end.checked_sub(span).unwrap_or(first.0);
        let unseen = first.0.saturating_duration_since(start).as_secs_f64();
        unseen + (self.count_at(end) - self.count_at(start)) / rate
    }

    /// Transactions at a moment, in proportion between two looks.
    fn count_at(&self, moment: Instant) -> f64 {
        let after = self.looks.partition_point(|(when, _)| *when <= moment);
        match (after.checked_sub(1).map(|i| self.looks[i]), self.looks.get(after)) {
            (Some((from, count)), Some((to, next))) => {
                let part = moment.duration_since(from).as_secs_f64() / to.duration_since(from).as_secs_f64().max(1e-9);
                count + part * (next - count)
            }
            (Some((_, count)), None) => count,
            (None, Some((_, count))) => *count,
            (None, None) => 0.0,
        }
    }

    /// The mean rate of the times in which nothing held transactions up: those with at least 0.7 of the 90th percentile.
    pub fn unhindered(&self) -> f64 {
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
    fn a_stall_is_no_time_for_pages_to_get_dirty_in() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // 100 per second for 10 s, then nothing for 10 s: 50 per second in the mean.
        let rates = Rates { looks: vec![(at(0), 0.0), (at(10), 1000.0), (at(20), 1000.0)] };
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-6, "{value}");
        close(rates.seconds_of_work(at(5), Duration::from_secs(5)), 10.0);
        close(rates.seconds_of_work(at(20), Duration::from_secs(10)), 0.0);
        close(rates.seconds_of_work(at(15), Duration::from_secs(10)), 10.0);
        // Half of it before anybody looked.
        close(rates.seconds_of_work(at(2), Duration::from_secs(4)), 6.0);
        let idle = Rates { looks: vec![(at(0), 5.0), (at(10), 5.0)] };
        close(idle.seconds_of_work(at(9), Duration::from_secs(3)), 3.0);
    }

    #[test]
    fn stalls_do_not_count_as_what_the_server_can_do() {
        let mut rates = vec![1000.0; 10];
        rates.extend([0.0; 5]);
        assert_eq!(unhindered(rates), 1000.0);
        assert_eq!(unhindered(Vec::new()), 0.0);
    }
}
