//! The figures that curves are drawn of, of all samples of the last hour.
//!
//! The monitor keeps whole samples compressed; drawing a curve from those would take unpacking hundreds of them for every
//! picture.

use std::collections::{BTreeMap, VecDeque};

use pgcalm_monitor::model::{DeviceRates, Host, Instance, WaitCause};

use crate::series::Series;

/// As long as the monitor keeps samples.
const SPAN_SECONDS: f64 = 3600.0;

/// Figures of an instance or disk at one moment that are kept at most, some 70 MB: an hour of a hundred instances, one
/// sample per second.
const MOST_ENTRIES: usize = 400_000;

/// What is drawn over time of an instance; `None` where it isn't known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Transactions per second, those rolled back included.
    pub transactions: Option<f64>,
    /// Bytes of WAL per second.
    pub wal_bytes: Option<f64>,
    /// Pages written and not flushed.
    pub unflushed_pages: Option<f64>,
    /// Seconds of sessions by what they waited for, in the order of [`WaitCause::ALL`]; they only grow.
    pub wait_session_seconds: Option<[f64; WaitCause::ALL.len()]>,
}

impl Figures {
    /// Those of an instance.
    pub fn of(instance: &Instance) -> Self {
        Self {
            transactions: instance.rates.map(|rates| rates.commits_per_second + rates.rollbacks_per_second),
            wal_bytes: instance.rates.map(|rates| rates.wal_bytes_per_second),
            unflushed_pages: instance.unflushed.map(|unflushed| unflushed.pages as f64),
            wait_session_seconds: instance.activity.as_ref().map(|activity| {
                let seconds = &activity.wait_session_seconds;
                WaitCause::ALL.map(|cause| seconds.get(&cause).copied().unwrap_or(0.0))
            }),
        }
    }
}

/// Figures by moment, of all instances and disks.
#[derive(Debug)]
pub struct Track {
    moments: VecDeque<f64>,
    instances: BTreeMap<String, Curve<Figures>>,
    disks: BTreeMap<String, Curve<DeviceRates>>,
    entries: usize,
    most_entries: usize,
}

impl Default for Track {
    fn default() -> Self {
        Self::with_limit(MOST_ENTRIES)
    }
}

type Curve<T> = VecDeque<(f64, T)>;

impl Track {
    fn with_limit(most_entries: usize) -> Self {
        Self { moments: VecDeque::new(), instances: BTreeMap::new(), disks: BTreeMap::new(), entries: 0, most_entries }
    }

    /// Adds a sample. One that is not newer than the last is left out, but after the clock was set back, what is now
    /// in the future is forgotten.
    pub fn push(&mut self, host: &Host) {
        let moment = seconds(host);
        match self.moments.back() {
            Some(last) if *last == moment => return,
            Some(last) if *last > moment => self.retain(|time| time < moment),
            _ => {}
        }
        self.moments.push_back(moment);
        for instance in &host.instances {
            self.instances
                .entry(instance.identity.name.clone())
                .or_default()
                .push_back((moment, Figures::of(instance)));
            self.entries += 1;
        }
        for device in &host.devices {
            if let Some(rates) = device.rates {
                self.disks.entry(device.name.clone()).or_default().push_back((moment, rates));
                self.entries += 1;
            }
        }
        let too_old = moment - SPAN_SECONDS;
        if self.moments.front().is_some_and(|first| *first < too_old) {
            self.retain(|time| time >= too_old);
        }
        while self.entries > self.most_entries && self.moments.len() > 1 {
            // A twentieth at once: forgetting looks at everything.
            let first = self.moments[(self.moments.len() / 20).max(1)];
            self.retain(|time| time >= first);
        }
    }

    /// The moments of the samples, in seconds since 1970, oldest first.
    pub fn moments(&self) -> Vec<f64> {
        self.moments.iter().copied().collect()
    }

    /// A figure of the instance of that name.
    pub fn of_instance(&self, name: &str, figure: impl Fn(&Figures) -> Option<f64>) -> Series {
        curve(self.instances.get(name), figure)
    }

    /// A figure of the disk of that name.
    pub fn of_disk(&self, name: &str, figure: impl Fn(&DeviceRates) -> f64) -> Series {
        curve(self.disks.get(name), |rates| Some(figure(rates)))
    }

    /// The first sums of waits of the instance of that name from `from` on, and their moment.
    pub fn first_waits(&self, name: &str, from: f64) -> Option<(f64, [f64; WaitCause::ALL.len()])> {
        let curve = self.instances.get(name)?;
        let first = curve.partition_point(|(time, _)| *time < from);
        curve.iter().skip(first).find_map(|(time, figures)| Some((*time, figures.wait_session_seconds?)))
    }

    fn retain(&mut self, keep: impl Fn(f64) -> bool) {
        self.moments.retain(|time| keep(*time));
        retain(&mut self.instances, &keep);
        retain(&mut self.disks, &keep);
        self.entries = count(&self.instances) + count(&self.disks);
    }
}

/// The moment of a sample, in seconds since 1970.
pub fn seconds(host: &Host) -> f64 {
    host.time_ms as f64 / 1000.0
}

fn curve<T>(curve: Option<&Curve<T>>, figure: impl Fn(&T) -> Option<f64>) -> Series {
    let points = curve.into_iter().flatten();
    Series::new(points.map(|(time, figures)| (*time, figure(figures))))
}

fn retain<T>(curves: &mut BTreeMap<String, Curve<T>>, keep: &impl Fn(f64) -> bool) {
    curves.retain(|_, curve| {
        curve.retain(|(time, _)| keep(*time));
        !curve.is_empty()
    });
}

fn count<T>(curves: &BTreeMap<String, Curve<T>>) -> usize {
    curves.values().map(VecDeque::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, instances: &[(&str, u64)]) -> Host {
        let mut host = Host { time_ms: second * 1000, ..Host::default() };
        for (name, pages) in instances {
            let mut instance = Instance::default();
            instance.identity.name = name.to_string();
            instance.unflushed = Some(pgcalm_monitor::model::Unflushed { pages: *pages, ..Default::default() });
            host.instances.push(instance);
        }
        host
    }

    fn unflushed(track: &Track, name: &str) -> Vec<(f64, f64)> {
        track.of_instance(name, |figures| figures.unflushed_pages).known(0.0, f64::MAX)
    }

    #[test]
    fn instances_are_told_apart_and_may_come_and_go() {
        let mut track = Track::default();
        track.push(&sample(1, &[("a", 10), ("b", 20)]));
        track.push(&sample(2, &[("b", 30)]));
        assert_eq!(unflushed(&track, "a"), [(1.0, 10.0)]);
        assert_eq!(unflushed(&track, "b"), [(1.0, 20.0), (2.0, 30.0)]);
        assert_eq!(unflushed(&track, "c"), []);
        assert_eq!(track.moments(), [1.0, 2.0]);
    }

    #[test]
    fn a_sample_counts_once_and_a_clock_set_back_leaves_no_future() {
        let mut track = Track::default();
        for second in [10, 10, 11, 12, 11] {
            track.push(&sample(second, &[("a", second)]));
        }
        assert_eq!(track.moments(), [10.0, 11.0]);
        assert_eq!(unflushed(&track, "a"), [(10.0, 10.0), (11.0, 11.0)]);
        assert_eq!(track.entries, 2);
    }

    #[test]
    fn an_hour_is_kept_and_what_has_ended_is_forgotten() {
        let mut track = Track::default();
        track.push(&sample(1, &[("a", 0), ("b", 0)]));
        for second in 2..=4000 {
            track.push(&sample(second, &[("a", 0)]));
        }
        assert_eq!(track.moments().len(), 3601);
        assert_eq!(track.moments()[0], 400.0);
        assert_eq!(track.entries, 3601);
        assert!(!track.instances.contains_key("b"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut track = Track::with_limit(1000);
        for second in 0..300 {
            track.push(&sample(second, &[("a", 0); 10]));
            assert!(track.entries <= 1000);
        }
        let moments = track.moments();
        assert_eq!(moments.last(), Some(&299.0));
        assert!(moments.len() > 90, "{}", moments.len());
    }
}
