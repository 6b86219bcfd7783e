//! Scales: where a value or a second lies, as a fraction of the plot, and where the ticks are.

use crate::number::trimmed;

/// A labelled place on an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// 0 is the origin, 1 the far end.
    pub at: f64,
    /// Short enough for the narrow gutter.
    pub label: String,
}

/// Seconds of the window, left to right.
#[derive(Debug)]
pub struct TimeAxis {
    /// Length of the window; at least 1.
    pub seconds: f64,
    /// Left to right.
    pub ticks: Vec<Tick>,
    /// Unit of the labels.
    pub unit: &'static str,
}

impl TimeAxis {
    /// Steps that people count time in.
    const STEPS: [f64; 16] =
        [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0];
    /// As many labels as fit on a phone.
    const MAX_TICKS: f64 = 6.0;
    /// From here on the labels are in minutes.
    const MINUTES_FROM: f64 = 900.0;

    /// An axis for `seconds`, with labels at round numbers.
    pub fn new(seconds: usize) -> TimeAxis {
        let seconds = (seconds as f64).max(1.0);
        let step =
            Self::STEPS.into_iter().find(|step| seconds / step <= Self::MAX_TICKS).unwrap_or(seconds / Self::MAX_TICKS);
        let (unit, per_unit) = if seconds > Self::MINUTES_FROM { ("min", 60.0) } else { ("s", 1.0) };
        let ticks = (0..=(seconds / step) as usize)
            .map(|index| {
                let second = index as f64 * step;
                Tick { at: second / seconds, label: trimmed(second / per_unit) }
            })
            .collect();
        TimeAxis { seconds, ticks, unit }
    }

    /// Fraction of the width at which `second` lies.
    pub fn place(&self, second: f64) -> f64 {
        second / self.seconds
    }
}

/// Values, bottom to top.
#[derive(Debug)]
pub struct ValueAxis {
    low: f64,
    high: f64,
    log: bool,
    /// Bottom to top.
    pub ticks: Vec<Tick>,
}

impl ValueAxis {
    /// From zero to a round number above the highest value.
    pub fn linear(values: impl Iterator<Item = f64>) -> ValueAxis {
        // Below the square root of the largest float nothing here can overflow.
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max).min(1e150);
        let highest = if highest > 1e-150 { highest } else { 1.0 };
        let step = round_step(highest / 4.0);
        // A hair less than the quotient, so that 4000 / 1000 needs four steps and not five.
        let steps = (highest / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as usize)
            .map(|index| Tick { at: index as f64 / steps, label: axis_label(index as f64 * step) })
            .collect();
        ValueAxis { low: 0.0, high: steps * step, log: false, ticks }
    }

    /// Decades around the positive values.
    pub fn log(values: impl Iterator<Item = f64>) -> ValueAxis {
        const MAX_DECADES: f64 = 9.0;
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 10.0) };
        let top = high.log10().ceil().clamp(-150.0, 150.0);
        let bottom = low.log10().floor().clamp(top - MAX_DECADES, top - 1.0);
        let decades = top - bottom;
        let mut ticks = Vec::new();
        for decade in 0..=decades as usize {
            let value = 10f64.powf(bottom + decade as f64);
            ticks.push(Tick { at: decade as f64 / decades, label: axis_label(value) });
            // One or two decades alone leave too few lines to read a value from.
            if decades <= 2.0 && (decade as f64) < decades {
                ticks.extend([2.0, 5.0].map(|factor: f64| Tick {
                    at: (decade as f64 + factor.log10()) / decades,
                    label: axis_label(value * factor),
                }));
            }
        }
        ValueAxis { low: bottom, high: top, log: true, ticks }
    }

    /// Fraction of the height at which `value` lies, within 0..=1.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_step(value: f64) -> f64 {
    let magnitude = 10f64.powf(value.log10().floor());
    let factor =
        [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * magnitude >= value * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * magnitude
}

/// Short enough for the narrow gutter: `12.5k`.
fn axis_label(value: f64) -> String {
    if value >= 1e15 {
        trimmed(value)
    } else if value >= 1e9 {
        format!("{}G", trimmed(value / 1e9))
    } else if value >= 1e6 {
        format!("{}M", trimmed(value / 1e6))
    } else if value >= 1e4 {
        format!("{}k", trimmed(value / 1e3))
    } else {
        trimmed(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn linear_ends_at_a_round_number() {
        let axis = ValueAxis::linear([3670.0].into_iter());
        assert_eq!(labels(&axis.ticks), ["0", "1000", "2000", "3000", "4000"]);
        assert_eq!(axis.place(2000.0), 0.5);
        assert_eq!(axis.place(0.0), 0.0);
        let axis = ValueAxis::linear([4000.0].into_iter());
        assert_eq!(labels(&axis.ticks).last(), Some(&"4000"));
        let axis = ValueAxis::linear([18_000.0].into_iter());
        assert_eq!(labels(&axis.ticks), ["0", "5000", "10k", "15k", "20k"]);
    }

    #[test]
    fn log_covers_whole_decades() {
        let axis = ValueAxis::log([1.7, 4400.0, 0.0].into_iter());
        assert_eq!(labels(&axis.ticks), ["1", "10", "100", "1000", "10k"]);
        assert_eq!(axis.place(10.0), 0.25);
        assert_eq!(axis.place(0.0), 0.0);
    }

    #[test]
    fn any_values_give_finite_axes() {
        let cases: [&[f64]; 6] =
            [&[], &[0.0], &[-1.0], &[f64::NAN, f64::INFINITY], &[f64::MAX, f64::MIN_POSITIVE], &[f64::MIN_POSITIVE]];
        for values in cases {
            for axis in [ValueAxis::linear(values.iter().copied()), ValueAxis::log(values.iter().copied())] {
                assert!((2..=30).contains(&axis.ticks.len()), "{values:?}: {}", axis.ticks.len());
                assert!(axis.ticks.iter().all(|tick| (0.0..=1.0 + 1e-9).contains(&tick.at)), "{values:?}");
                for value in [0.0, 1.0, f64::MAX, -1.0] {
                    assert!((0.0..=1.0).contains(&axis.place(value)), "{values:?}");
                }
            }
        }
    }

    #[test]
    fn time_is_counted_in_round_steps() {
        assert_eq!(labels(&TimeAxis::new(150).ticks), ["0", "30", "60", "90", "120", "150"]);
        assert_eq!(labels(&TimeAxis::new(1800).ticks), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(TimeAxis::new(1800).unit, "min");
        assert!(TimeAxis::new(0).ticks.len() >= 2);
        assert!(TimeAxis::new(1_000_000).ticks.len() <= 8);
    }
}
