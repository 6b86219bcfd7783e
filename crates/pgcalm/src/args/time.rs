//! Times: seconds, which may have a fraction, or a number with a unit.

use std::time::Duration;

use clap::Args;

/// Between looks, of every verb that looks again and again: a server has time for other things, and a picture is live.
const INTERVAL: (f64, f64) = (0.1, 3600.0);

const UNITS: [(&str, f64); 5] = [
    // Before s, which it ends in.
    ("ms", 0.001),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// How long a verb goes on.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct DurationArg {
    /// Stop after this time, e.g. 60, 90s, 5min or 1h [default: Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = some)]
    pub duration: Option<Duration>,
}

/// A time that is not zero.
pub fn some(text: &str) -> Result<Duration, String> {
    match any(text)? {
        Duration::ZERO => Err("give a time above 0, e.g. 60, 90s or 5min".to_string()),
        time => Ok(time),
    }
}

/// A time; 0 may mean: not at all.
pub fn any(text: &str) -> Result<Duration, String> {
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1.0));
    number
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|number| *number >= 0.0)
        .and_then(|number| Duration::try_from_secs_f64(number * factor).ok())
        .filter(|time| *time <= Duration::from_secs(366 * 86_400))
        .ok_or_else(|| "give a time such as 0.5, 60, 90s, 5min or 1h".to_string())
}

/// The time between two looks.
pub fn interval(text: &str) -> Result<Duration, String> {
    let (least, most) = INTERVAL;
    any(text)
        .ok()
        .filter(|time| (least..=most).contains(&time.as_secs_f64()))
        .ok_or_else(|| "give a time from 0.1 s to 1 h, e.g. 0.5, 5s or 1min".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_unless_it_says_otherwise() {
        for (text, seconds) in [
            ("60", 60.0),
            ("0.5", 0.5),
            ("250ms", 0.25),
            ("90s", 90.0),
            ("5min", 300.0),
            ("1.5h", 5400.0),
            ("2d", 172_800.0),
        ] {
            assert_eq!(any(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "nan", "inf", "5m", "5 years", "1e9d", "367d"] {
            assert!(any(text).is_err(), "{text}");
        }
        assert!(some("0").is_err() && any("0").is_ok());
        assert!(interval("0.1").is_ok() && interval("1h").is_ok());
        assert!(interval("50ms").is_err() && interval("2h").is_err());
    }
}
