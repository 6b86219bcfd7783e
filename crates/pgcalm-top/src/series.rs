//! A figure over time.

/// A figure at each moment, oldest first; `None` where it is not known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    points: Vec<(f64, Option<f64>)>,
}

/// Which of several values stands for all: that which a stall would show in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worst {
    /// As of transactions per second.
    Lowest,
    /// As of what fills a device.
    Highest,
}

impl Series {
    /// Of moments, in seconds since 1970, and the figure then, oldest first. What is not a number counts as unknown.
    pub fn new(points: impl Iterator<Item = (f64, Option<f64>)>) -> Self {
        Self { points: points.map(|(time, value)| (time, value.filter(|value| value.is_finite()))).collect() }
    }

    /// The known values from `from` to `to`.
    pub fn known(&self, from: f64, to: f64) -> Vec<(f64, f64)> {
        self.points
            .iter()
            .filter(|(time, _)| (from..=to).contains(time))
            .filter_map(|(time, value)| Some((*time, (*value)?)))
            .collect()
    }

    /// The known values from `from` to `to` in pieces between which there are times that nothing is known of: moments
    /// without a value, or more than `gap` seconds from one moment to the next.
    pub fn pieces(&self, from: f64, to: f64, gap: f64) -> Vec<Vec<(f64, f64)>> {
        let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut former = None;
        for (time, value) in &self.points {
            if !(from..=to).contains(time) {
                continue;
            }
            match (value, former) {
                (Some(value), Some(before)) if time - before <= gap => {
                    // There is one: `former` is set with each value.
                    if let Some(piece) = pieces.last_mut() {
                        piece.push((*time, *value));
                    }
                }
                (Some(value), _) => pieces.push(vec![(*time, *value)]),
                (None, _) => {}
            }
            former = value.map(|_| *time);
        }
        pieces
    }

    /// The highest known value from `from` to `to`.
    pub fn highest(&self, from: f64, to: f64) -> Option<f64> {
        self.known(from, to).into_iter().map(|(_, value)| value).reduce(f64::max)
    }

    /// `count` values for equal parts of the `span` seconds before `end`. A part without a moment of its own has the value of
    /// the last moment before it, unless that is more than `gap` seconds ago.
    pub fn bins(&self, end: f64, span: f64, count: usize, gap: f64, worst: Worst) -> Vec<Option<f64>> {
        let width = span / count.max(1) as f64;
        let start = end - span;
        // Parts are open at their start, so that the last has the moment at `end`.
        let mut next = self.points.partition_point(|(time, _)| *time <= start);
        (1..=count)
            .map(|bin| {
                let to = start + width * bin as f64;
                // Rounding must not lose the last moment.
                let to = if bin == count { end } else { to };
                let first = next;
                next += self.points[first..].partition_point(|(time, _)| *time <= to);
                let inside = &self.points[first..next];
                if inside.is_empty() {
                    let (time, value) = self.points[..first].last()?;
                    return value.filter(|_| to - time <= gap);
                }
                inside.iter().filter_map(|(_, value)| *value).reduce(|a, b| match worst {
                    Worst::Lowest => a.min(b),
                    Worst::Highest => a.max(b),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[(f64, Option<f64>)]) -> Series {
        Series::new(points.iter().copied())
    }

    #[test]
    fn a_part_has_its_worst_value() {
        let series = series(&[(1.0, Some(5.0)), (2.0, Some(1.0)), (3.0, Some(7.0)), (4.0, Some(9.0))]);
        let bins = |worst| series.bins(4.0, 4.0, 2, 1.5, worst);
        assert_eq!(bins(Worst::Lowest), [Some(1.0), Some(7.0)]);
        assert_eq!(bins(Worst::Highest), [Some(5.0), Some(9.0)]);
        // What is after the end is not shown: time travel.
        assert_eq!(series.bins(2.0, 2.0, 2, 1.5, Worst::Highest), [Some(5.0), Some(1.0)]);
    }

    #[test]
    fn parts_between_two_moments_have_the_former_and_gaps_have_none() {
        let series = series(&[(1.0, Some(5.0)), (3.0, Some(7.0)), (4.0, None)]);
        assert_eq!(series.bins(6.0, 6.0, 6, 1.0, Worst::Highest), [Some(5.0), Some(5.0), Some(7.0), None, None, None]);
        assert_eq!(series.bins(3.0, 6.0, 3, 1.0, Worst::Highest), [None, Some(5.0), Some(7.0)]);
        assert_eq!(series.bins(3.0, 6.0, 0, 1.0, Worst::Highest), []);
    }

    #[test]
    fn pieces_end_where_nothing_is_known() {
        let series = series(&[(1.0, Some(1.0)), (2.0, Some(2.0)), (3.0, None), (4.0, Some(4.0)), (9.0, Some(9.0))]);
        assert_eq!(series.pieces(1.0, 9.0, 2.5), [vec![(1.0, 1.0), (2.0, 2.0)], vec![(4.0, 4.0)], vec![(9.0, 9.0)]]);
        assert_eq!(series.highest(1.0, 4.0), Some(4.0));
        assert_eq!(series.highest(5.0, 6.0), None);
    }
}
