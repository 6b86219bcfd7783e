//! How numbers and foreign strings are printed, the same in every rendering.

/// Stands for a figure that does not exist: no run, no sample, not a number.
pub const MISSING: &str = "–";

/// A number in about three significant digits, never wider than seven characters in practice; [`MISSING`] if it is
/// not finite.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let size = value.abs();
    if size >= 1e15 {
        return format!("{value:.1e}");
    }
    for (unit, suffix) in [(1e12, "T"), (1e9, "G"), (1e6, "M")] {
        if size >= unit {
            return format!("{}{suffix}", trimmed(value / unit));
        }
    }
    if size >= 99_999.5 {
        return format!("{:.0}k", value / 1e3);
    }
    if size == 0.0 {
        "0".to_string()
    } else if size < 0.000_5 {
        // "0.000" would look like nothing at all.
        "<0.001".to_string()
    } else if size >= 99.95 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A number without digits that say nothing: `20`, `2.5`, `0.05`. For axes and for options.
pub fn trimmed(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    if value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-6) {
        return format!("{value:.1e}");
    }
    let digits = format!("{value:.6}");
    // Three decimals are enough for anything of at least 1.
    let digits = if value.abs() >= 1.0 { format!("{value:.3}") } else { digits };
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    if digits == "-0" { "0".to_string() } else { digits.to_string() }
}

/// Bytes in PostgreSQL's units, powers of 1024, with three significant digits at most: `98 MB`, `1.2 GB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let mut value = value;
    let mut unit = 0;
    // 1023.6 kB would be printed as 1024.
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // One decimal only where it says something: 1.5 kB, 1 kB, 98 MB.
    let tenths = (value * 10.0).round() / 10.0;
    let decimals = usize::from(unit > 0 && tenths.abs() < 9.95 && tenths.fract() != 0.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// `part / whole` as a factor, e.g. `3.1x`; more digits where they decide, near and below one.
pub fn factor(part: f64, whole: f64) -> Option<String> {
    let ratio = part / whole;
    if !ratio.is_finite() || whole <= 0.0 || part < 0.0 {
        return None;
    }
    Some(if ratio >= 9.95 {
        format!("{}x", short(ratio.round()))
    } else if ratio >= 1.095 {
        format!("{ratio:.1}x")
    } else if ratio >= 0.095 || ratio == 0.0 {
        format!("{ratio:.2}x")
    } else {
        format!("{ratio:.3}x")
    })
}

/// A part of a whole, 0 to 1, as `98 %`; [`MISSING`] if it is not finite.
pub fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.0} %", part * 100.0) } else { MISSING.to_string() }
}

/// `noun` with its number, and an `s` unless it is one.
pub fn plural(count: f64, noun: &str) -> String {
    let ending = if count == 1.0 { "" } else { "s" };
    format!("{} {noun}{ending}", short(count))
}

/// Without control characters: a report may come from elsewhere, and must be able neither to steer the terminal
/// nor to make an SVG that XML parsers refuse.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { ' ' } else { c }).collect()
}

/// The first `max` characters, with an ellipsis in place of the rest.
pub fn ellipsis(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_string();
    }
    let mut cut: String = text.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.004, "0.004"),
            (0.000_1, "<0.001"),
            (0.25, "0.25"),
            (9.999, "10.0"),
            (22.13, "22.1"),
            (99.97, "100"),
            (44.0, "44"),
            (3637.6, "3638"),
            (123_456.0, "123k"),
            (20_000_000.0, "20M"),
            (-12.34, "-12.3"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected, "{value}");
        }
    }

    #[test]
    fn not_a_number_is_missing() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(short(value), MISSING);
            assert_eq!(trimmed(value), MISSING);
        }
        assert!(short(f64::MAX).len() < 10);
    }

    #[test]
    fn bytes_have_the_servers_units() {
        for (value, expected) in [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1024.0, "1 kB"),
            (1_536.0, "1.5 kB"),
            (125.0 * 1_048_576.0, "125 MB"),
            (1_048_000.0, "1023 kB"),
            (1_048_570.0, "1 MB"),
            (8.0 * 1024.0 * 1_048_576.0, "8 GB"),
            (98.4 * 1_048_576.0, "98 MB"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
    }

    #[test]
    fn factors() {
        assert_eq!(factor(3590.0, 1148.0).as_deref(), Some("3.1x"));
        assert_eq!(factor(98.0, 100.0).as_deref(), Some("0.98x"));
        assert_eq!(factor(102.0, 100.0).as_deref(), Some("1.02x"));
        assert_eq!(factor(23.0, 495.0).as_deref(), Some("0.046x"));
        assert_eq!(factor(495.0, 23.0).as_deref(), Some("22x"));
        assert_eq!(factor(1.0, 0.0), None);
        assert_eq!(factor(f64::NAN, 1.0), None);
    }

    #[test]
    fn parts_of_a_whole() {
        assert_eq!(percent(0.978), "98 %");
        assert_eq!(percent(f64::NAN), MISSING);
    }

    #[test]
    fn trimmed_numbers() {
        assert_eq!(trimmed(2.50), "2.5");
        assert_eq!(trimmed(0.05), "0.05");
        assert_eq!(trimmed(1000.0), "1000");
        assert_eq!(trimmed(0.0), "0");
    }
}
