//! Amounts as evidence words them.

use pgcalm_postgres::{unit_bytes, unit_seconds};
use pgcalm_render::number;

/// Bytes in the units of PostgreSQL's settings, powers of 1024.
pub(crate) fn size(bytes: u64) -> String {
    number::bytes(bytes as f64)
}

/// Seconds in the largest unit that leaves at least two of it.
pub(crate) fn time(seconds: f64) -> String {
    for (length, unit) in [(86_400.0, "days"), (3600.0, "h"), (60.0, "min")] {
        if seconds >= 2.0 * length {
            return format!("{} {unit}", digits(seconds / length));
        }
    }
    format!("{} s", digits(seconds))
}

/// A part of a whole.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    number::percent(part / whole)
}

/// Bytes as a setting takes them, rounded up to a whole unit of at least a MB.
pub(crate) fn setting_size(bytes: u64) -> String {
    let megabytes = bytes.div_ceil(1 << 20).max(1);
    if megabytes >= 4 << 10 { format!("{}GB", megabytes.div_ceil(1 << 10)) } else { format!("{megabytes}MB") }
}

/// A value with a unit, as ALTER SYSTEM takes it, in the setting's own unit as pg_settings shows it; as it is where it has
/// none.
pub(crate) fn in_unit(value: &str, unit: Option<&str>) -> String {
    let at = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let (count, own) = value.split_at(at);
    let size = |unit| unit_bytes(unit).or_else(|| unit_seconds(unit));
    let converted = || {
        let count: f64 = count.parse().ok()?;
        Some(count * size(own)? / size(unit?)?)
    };
    converted().map_or_else(|| value.to_string(), |number| number.to_string())
}

fn digits(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short_and_in_the_servers_units() {
        assert_eq!(size(512), "512 B");
        assert_eq!(size(1_610_612_736), "1.5 GB");
        assert_eq!(size(64 << 40), "64 TB");
        assert_eq!(time(90.0), "90 s");
        assert_eq!(time(769.2), "13 min");
        assert_eq!(percent(1.0, 3.0), "33 %");
        assert_eq!(setting_size(1), "1MB");
        assert_eq!(setting_size((5 << 30) + 1), "6GB");
    }

    #[test]
    fn values_are_compared_in_the_unit_of_pg_settings() {
        assert_eq!(in_unit("6GB", Some("MB")), "6144");
        assert_eq!(in_unit("1MB", Some("8kB")), "128");
        assert_eq!(in_unit("0", Some("8kB")), "0");
        assert_eq!(in_unit("5min", Some("s")), "300");
        assert_eq!(in_unit("0.9", None), "0.9");
        assert_eq!(in_unit("lz4", None), "lz4");
    }
}
