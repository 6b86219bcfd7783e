//! The waits of a time, as the difference of two counts.

use std::collections::HashMap;

use crate::clock::NS_PER_S;
use crate::locks::lock_name;
use crate::locks::report::{LockClass, LockWaits, Period};
use crate::probes::locks::{Counts, Lock, What};
use crate::report::histogram::Histogram;

impl Counts {
    /// Adds another one's.
    pub fn add(&mut self, other: &Self) {
        for (lock, histogram) in &other.waits {
            self.waits.entry(lock.clone()).or_default().add(histogram);
        }
        for (lock, number) in &other.acquisitions {
            *self.acquisitions.entry(lock.clone()).or_default() += number;
        }
    }
}

/// What was counted from `earlier` to `later`; locks that nobody waited for are left out, unless they were acquired.
pub(super) fn between(earlier: &Counts, later: &Counts, seconds: f64) -> Period {
    let mut locks: HashMap<&Lock, LockWaits> = HashMap::new();
    for (lock, histogram) in &later.waits {
        let difference = match earlier.waits.get(lock) {
            Some(earlier) => histogram.since(earlier),
            None => *histogram,
        };
        if difference.count > 0 {
            locks.insert(lock, entry(lock, difference.to_model()));
        }
    }
    for (lock, number) in &later.acquisitions {
        let difference = number.saturating_sub(*earlier.acquisitions.get(lock).unwrap_or(&0));
        if difference > 0 {
            locks.entry(lock).or_insert_with(|| entry(lock, Histogram::default())).acquisitions = Some(difference);
        }
    }
    let mut locks: Vec<LockWaits> = locks.into_values().collect();
    locks.sort_by(|a, b| {
        (b.waits.sum_ms.total_cmp(&a.waits.sum_ms))
            .then(b.acquisitions.cmp(&a.acquisitions))
            .then_with(|| (&a.name, &a.mode, &a.process_type).cmp(&(&b.name, &b.mode, &b.process_type)))
    });
    Period { seconds, locks }
}

/// The time from one moment to another, both CLOCK_MONOTONIC in ns.
pub(super) fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / NS_PER_S as f64
}

fn entry(lock: &Lock, waits: Histogram) -> LockWaits {
    let (class, name, mode, database, relation) = match &lock.what {
        What::Lightweight(name) => {
            (LockClass::Lightweight, name.clone(), lock_name::lightweight_mode(lock.mode), None, None)
        }
        What::Heavyweight { lock_type, database, relation } => (
            LockClass::Heavyweight,
            lock_name::lock_type(*lock_type),
            lock_name::heavyweight_mode(lock.mode),
            // A relation has an OID; database 0 is that of shared ones.
            (*relation != 0).then_some(*database),
            (*relation != 0).then_some(*relation),
        ),
    };
    LockWaits {
        class,
        name,
        mode,
        database,
        relation,
        relation_name: None,
        process_type: lock.role.name().to_string(),
        waits,
        sampled_s: None,
        acquisitions: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::KernelHistogram;
    use crate::locks::report::Line;
    use crate::report::view::Shown;
    use pgcalm_host::server_process::Role;

    fn lock(name: &str) -> Lock {
        Lock { what: What::Lightweight(name.to_string()), mode: 0, role: Role::Backend }
    }

    fn histogram(values: &[u64]) -> KernelHistogram {
        let mut histogram = KernelHistogram::default();
        for value in values {
            histogram.take(*value);
        }
        histogram
    }

    #[test]
    fn only_what_is_new_is_in_a_period() {
        let counts = |wal: &[u64], buffer: &[u64]| Counts {
            waits: HashMap::from([(lock("WALWrite"), histogram(wal)), (lock("BufferMapping"), histogram(buffer))]),
            acquisitions: HashMap::new(),
        };
        let period = between(&counts(&[5, 7], &[9]), &counts(&[5, 7, 1_000_000, 3], &[9]), 2.0);
        assert_eq!(period.locks.len(), 1);
        let none = Period { seconds: 2.0, ..Period::default() };
        assert!(none.rates().is_some_and(|(_, ms)| ms.is_sign_positive()), "shown as -0.0");
        assert!(Line::Total(none).text().contains("pg_blocking_pids"), "a wait that is still on is not counted");
        let waits = &period.locks[0].waits;
        assert_eq!(period.locks[0].name, "WALWrite");
        assert_eq!(period.locks[0].mode, "exclusive");
        assert_eq!(waits.count, 2);
        assert_eq!(waits.sum_ms, 1.000_003);
        // The longest may be one from before.
        assert_eq!(waits.max_ms, None);
        assert!(waits.upper_bound_ms().unwrap() >= 1.0);
        assert_eq!(period.rates(), Some((Some(1.0), 0.500_001_5)));
    }
}
