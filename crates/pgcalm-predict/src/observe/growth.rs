//! How regions get dirty: from looks at them to classes of those that do so alike.
//!
//! A look says how many pages of a region are dirty, and how long ago the first of them got so. What has been flushed in
//! between need not be known.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::time::Duration;
use std::time::Instant;

use crate::observe::rates::Rates;
use crate::observe::tables::Extent;
use crate::report::RegionClass;

/// Pages of a region.
pub(super) const PAGES: f64 = 1024.0;

/// Regions looked at less long after their first page say nothing of how they go on: what the checkpointer has just written
/// to them is all there at once; seconds. No more than a part of what may wait for the module (POOL_SECONDS, controller.c),
/// or nothing would be seen of one that is in mode shadow.
const YOUNG: f64 = 0.25;

/// With fewer pages than that the logarithm of their number is mostly noise.
const ENOUGH: f64 = 16.0;

/// Exponents that are believed.
///
/// More than 1 comes of pages that stay in shared buffers for some time after they were written, and are not written again in
/// that time: with a stay of a quarter of the time between two writes of a page it is 1.1.
const EXPONENTS: (f64, f64) = (0.3, 1.25);

/// A part of what a class has per second that is too little to matter: such regions are one class.
const RARE: f64 = 1.0 / 64.0;

/// Which region: file, and number within it.
type Key = (String, u64);

/// One look at a region.
#[derive(Debug, Clone, Copy)]
struct Look {
    when: Instant,
    /// Since its first page.
    age: Duration,
    /// Dirty pages.
    dirty: f64,
}

/// A look in terms of the model.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Seconds since the first page, at the mean rate of transactions: nothing gets dirty while they are stalled.
    age: f64,
    /// *h* in `1024 (1 - exp(-h))` pages that were dirtied after that one.
    hits: f64,
    dirty: f64,
}

/// All looks at all regions.
#[derive(Debug, Default)]
pub(super) struct Growth {
    regions: HashMap<Key, Vec<Look>>,
}

impl Growth {
    /// A region has `dirty` pages, the first of which got dirty `age` seconds ago.
    pub fn look(&mut self, file: &str, region: u64, dirty: f64, age: f64) {
        let looks = self.regions.entry((file.to_string(), region)).or_default();
        if age >= YOUNG {
            looks.push(Look { when: Instant::now(), age: Duration::from_secs_f64(age), dirty });
        }
    }

    /// The classes, and the number of segment files that they lie in. Tables that were written to extend over `extent`, which
    /// is more than was ever seen dirty if some are written by checkpoints only.
    ///
    /// A checkpoint's `checkpoint_pages` are spread over the regions of those tables, or over all that are often written to if
    /// they are more: small tables and catalogs, a region each, have few pages for it.
    pub fn classes(&self, transactions: &Rates, extent: Extent, checkpoint_pages: f64) -> (Vec<RegionClass>, f64) {
        let points: Vec<(&str, Vec<Point>)> = self
            .regions
            .iter()
            .map(|((file, _), looks)| {
                let points = looks.iter().map(|look| look.point(transactions)).collect();
                (file.as_str(), points)
            })
            .collect();
        let exponents = exponents(&points);
        let mut rates: Vec<(f64, f64)> = points
            .iter()
            .map(|(file, points)| {
                let exponent = exponents.get(relation(file)).copied().unwrap_or(1.0);
                (rate(points, exponent), exponent)
            })
            .collect();
        let highest = rates.iter().fold(0.0_f64, |top, (rate, _)| top.max(*rate));
        let often = |rate: f64| rate > highest * RARE;
        let busy = rates.iter().filter(|(rate, _)| often(*rate)).count();
        let files: HashSet<&str> =
            points.iter().zip(&rates).filter(|(_, (rate, _))| often(*rate)).map(|((file, _), _)| *file).collect();
        let unseen = (extent.regions - busy as f64).max(0.0).round() as usize;
        let passed = busy + unseen;
        rates.extend(std::iter::repeat_n((0.0, 1.0), unseen));
        // Half an octave of rates, a tenth of exponents.
        let mut classes: BTreeMap<(bool, i32, i32), (f64, f64, f64)> = BTreeMap::new();
        for (index, (rate, exponent)) in rates.iter().enumerate() {
            let passed = often(*rate) || index >= points.len();
            let octave = (rate.max(highest * RARE).max(1e-9).log2() * 2.0).round() as i32;
            let class = classes.entry((passed, octave, (exponent * 10.0).round() as i32)).or_default();
            class.0 += 1.0;
            class.1 += rate;
            class.2 += exponent;
        }
        let checkpoint_pages = (checkpoint_pages / passed.max(1) as f64).min(PAGES);
        let classes = classes
            .into_iter()
            .map(|((passed, _, _), (regions, rate, exponent))| RegionClass {
                regions,
                pages_first_second: rate / regions,
                exponent: exponent / regions,
                checkpoint_pages: if passed { checkpoint_pages } else { 0.0 },
            })
            .collect();
        (classes, extent.files.max(files.len() as f64))
    }
}

impl Look {
    fn point(&self, transactions: &Rates) -> Point {
        // The first page only starts the clock.
        let part = ((self.dirty - 1.0) / PAGES).clamp(0.0, 0.999);
        Point { age: transactions.seconds_of_work(self.when, self.age), hits: -(1.0 - part).ln(), dirty: self.dirty }
    }
}

/// Of each relation: the slope of the logarithm of *h* over that of the age, within each region so that regions that are
/// written at different rates don't count as one that changes.
fn exponents<'a>(regions: &[(&'a str, Vec<Point>)]) -> HashMap<&'a str, f64> {
    let mut sums: HashMap<&str, (f64, f64)> = HashMap::new();
    for (file, points) in regions {
        let points: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.dirty >= ENOUGH && point.dirty < 0.9 * PAGES && point.age > YOUNG / 2.0)
            .map(|point| (point.age.ln(), point.hits.ln()))
            .collect();
        let number = points.len() as f64;
        if number < 2.0 {
            continue;
        }
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / number;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / number;
        let sum = sums.entry(relation(file)).or_default();
        for (x, y) in points {
            sum.0 += (x - mean_x) * (y - mean_y);
            sum.1 += (x - mean_x) * (x - mean_x);
        }
    }
    sums.into_iter()
        .filter(|(_, (_, variance))| *variance > 0.1)
        .map(|(relation, (covariance, variance))| (relation, (covariance / variance).clamp(EXPONENTS.0, EXPONENTS.1)))
        .collect()
}

/// Pages in the first second.
fn rate(points: &[Point], exponent: f64) -> f64 {
    let hits: f64 = points.iter().map(|point| point.hits).sum();
    let time: f64 = points.iter().map(|point| point.age.powf(exponent)).sum();
    if time > 0.0 { PAGES * hits / time } else { 0.0 }
}

/// The file without the number of its segment.
fn relation(file: &str) -> &str {
    match file.rsplit_once('.') {
        Some((relation, segment)) if segment.bytes().all(|b| b.is_ascii_digit()) => relation,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1024 pages written evenly: `1024 (1 - exp(-rate t / 1024))`, and one that starts the clock.
    fn grown(rate: f64, age: f64) -> f64 {
        1.0 + (PAGES - 1.0) * (1.0 - (-rate * age / PAGES).exp())
    }

    #[test]
    fn rates_and_classes_are_found_again() {
        let mut growth = Growth::default();
        for region in 0..30 {
            // Two kinds.
            let rate = if region < 10 { 200.0 } else { 20.0 };
            for second in 1..20 {
                let age = f64::from(second);
                growth.look("base/5/16384", region, grown(rate, age), age);
            }
        }
        // No transactions: time is the clock.
        let extent = Extent { regions: 40.0, files: 1.0 };
        let (classes, files) = growth.classes(&Rates::default(), extent, 4000.0);
        assert_eq!(files, 1.0);
        let regions: f64 = classes.iter().map(|class| class.regions).sum();
        assert!((regions - 40.0).abs() < 1e-9, "{classes:?}");
        for (rate, number) in [(20.0, 20.0), (200.0, 10.0)] {
            let class = classes
                .iter()
                .find(|class| (class.pages_first_second / rate - 1.0).abs() < 0.1)
                .unwrap_or_else(|| panic!("{rate}: {classes:?}"));
            assert_eq!(class.regions, number);
            assert!(class.exponent > 0.97, "{classes:?}");
            assert_eq!(class.checkpoint_pages, 100.0);
        }
    }

    #[test]
    fn writes_of_the_same_pages_again_and_again_lower_the_exponent() {
        let mut growth = Growth::default();
        for region in 0..10 {
            for second in 1..40 {
                let age = f64::from(second);
                let hits = 0.1 * age.sqrt();
                let file = if region < 5 { "16384" } else { "16384.1" };
                let dirty = 1.0 + PAGES * (1.0 - (-hits).exp());
                growth.look(file, region, dirty, age);
            }
        }
        let classes = growth.classes(&Rates::default(), Extent::default(), 0.0).0;
        let [class] = &classes[..] else {
            panic!("{classes:?}");
        };
        assert!((class.exponent - 0.5).abs() < 0.02, "{class:?}");
        assert!((class.pages_first_second - 102.4).abs() < 3.0, "{class:?}");
    }

    #[test]
    fn what_a_checkpoint_wrote_a_moment_ago_is_not_taken_for_growth() {
        let mut growth = Growth::default();
        growth.look("16384", 0, 800.0, 0.1);
        let classes = growth.classes(&Rates::default(), Extent::default(), 0.0).0;
        assert_eq!(classes.len(), 1);
        assert!(classes[0].pages_first_second < 1e-6, "{classes:?}");
    }
}
