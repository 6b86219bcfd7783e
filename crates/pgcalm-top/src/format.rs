//! Figures as text, in few characters.

use chrono::{DateTime, FixedOffset};
use pgcalm_render::number::{MISSING, bytes, short};

/// A count of bytes: `98 MB`, `1.2 GB`.
pub fn byte_count(value: u64) -> String {
    bytes(value as f64)
}

/// Bytes per second.
pub fn byte_rate(value: f64) -> String {
    format!("{}/s", bytes(value))
}

/// Anything else per second, without fractions of ten and more, which would only flicker.
pub fn rate(value: f64) -> String {
    format!("{}/s", number(value))
}

/// So many of something with a name per second: `230 pages/s`.
pub fn rate_of(value: f64, what: &str) -> String {
    format!("{} {what}/s", number(value))
}

fn number(value: f64) -> String {
    if value.abs() >= 9.95 || !value.is_finite() {
        short(value.round())
    } else {
        format!("{value:.1}").replace(".0", "")
    }
}

/// A count.
pub fn count(value: u64) -> String {
    short(value as f64)
}

/// A duration: `0.14 s`, `27.1 s`, `3 min 20 s`, `2 h 5 min`, `3 d 2 h`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let value = value.max(0.0);
    // Of 59.97 s "60.0 s" would be made, of 9.996 s "10.00 s".
    if value < 9.995 {
        return format!("{value:.2} s");
    }
    if value < 59.95 {
        return format!("{value:.1} s");
    }
    let whole = value.round() as u64;
    let (unit, small, unit_name, small_name) = match whole {
        0..3600 => (60, 1, "min", "s"),
        3600..86_400 => (3600, 60, "h", "min"),
        _ => (86_400, 3600, "d", "h"),
    };
    let rest = whole % unit / small;
    if rest == 0 {
        format!("{} {unit_name}", whole / unit)
    } else {
        format!("{} {unit_name} {rest} {small_name}", whole / unit)
    }
}

/// A duration without digits that change with every picture: `27 s`.
pub fn whole_seconds(value: f64) -> String {
    if value.is_finite() && value < 59.5 { format!("{:.0} s", value.max(0.0)) } else { seconds(value.round()) }
}

/// A moment, seconds since 1970, as the time of day.
pub fn time_of_day(moment: f64, offset: FixedOffset) -> String {
    at(moment, offset).map_or_else(|| MISSING.to_string(), |time| time.format("%H:%M:%S").to_string())
}

/// A moment with date and offset from UTC.
pub fn date_and_time(moment: f64, offset: FixedOffset) -> String {
    at(moment, offset).map_or_else(|| MISSING.to_string(), |time| time.format("%Y-%m-%d %H:%M:%S %:z").to_string())
}

fn at(moment: f64, offset: FixedOffset) -> Option<DateTime<FixedOffset>> {
    let utc = DateTime::from_timestamp_millis((moment * 1000.0).round() as i64)?;
    Some(utc.with_timezone(&offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (value, expected) in [
            (0.0, "0.00 s"),
            (-1.0, "0.00 s"),
            (0.139, "0.14 s"),
            (9.999, "10.0 s"),
            (27.14, "27.1 s"),
            (59.97, "1 min"),
            (200.4, "3 min 20 s"),
            (3600.0, "1 h"),
            (7500.0, "2 h 5 min"),
            (93_600.0, "1 d 2 h"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(seconds(value), expected, "{value}");
        }
        assert_eq!(whole_seconds(27.6), "28 s");
        assert_eq!(whole_seconds(59.6), "1 min");
    }

    #[test]
    fn rates() {
        assert_eq!(rate(3_860.4), "3860/s");
        assert_eq!(rate(0.96), "1/s");
        assert_eq!(rate(2.44), "2.4/s");
        assert_eq!(rate(f64::INFINITY), "–/s");
        assert_eq!(rate_of(0.0, "pages"), "0 pages/s");
    }

    #[test]
    fn moments() {
        let offset = FixedOffset::east_opt(5 * 3600 + 1800).unwrap();
        assert_eq!(time_of_day(0.0, offset), "05:30:00");
        assert_eq!(date_and_time(1_763_733_785.0, offset), "2025-11-21 19:33:05 +05:30");
        assert_eq!(time_of_day(f64::MAX, offset), "–");
    }
}
