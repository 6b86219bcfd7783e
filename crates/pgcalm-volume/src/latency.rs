//! Times of less than a second, as they are written in a volume's specification.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pgcalm_host::quantity;
use pgcalm_host::quantity::LATENCY;

/// Longest first, so that a time prints with the largest unit that leaves it whole or has a fraction of one digit.
const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

/// The time that an operation takes on an idle volume, given as `0.5ms`, `500us` or `1s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency(pub Duration);

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        quantity::time(LATENCY, text).map(Self)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos() as u64;
        for (name, factor) in UNITS {
            if nanoseconds >= factor / 10 && nanoseconds.is_multiple_of(factor / 10) {
                let tenths = nanoseconds / (factor / 10);
                return match tenths % 10 {
                    0 => write!(f, "{}{name}", tenths / 10),
                    rest => write!(f, "{}.{rest}{name}", tenths / 10),
                };
            }
        }
        write!(f, "{}us", nanoseconds as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_they_were_given() {
        for (text, nanoseconds) in [
            ("0.5ms", 500_000),
            ("1ms", 1_000_000),
            ("250us", 250_000),
            ("0us", 0),
            ("2s", 2_000_000_000),
            ("0.1ms", 100_000),
        ] {
            let latency: Latency = text.parse().unwrap();
            assert_eq!(latency.0.as_nanos(), nanoseconds, "{text}");
            assert_eq!(latency.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "ms", "5", "-1ms", "1e3ms", "infs", "nanms", "1min", "60s", "10.1s"] {
            assert!(text.parse::<Latency>().is_err(), "{text}");
        }
    }
}
