//! Sizes, times and limits as people write them.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u64); 4] = [
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("kB", 1 << 10),
];

/// A number of bytes, with PostgreSQL's units: kB, MB, GB and TB are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = &text[digits.len()..];
        // As lenient about case as people are; no unit is ambiguous between m and M.
        let factor = if unit.is_empty() || unit.eq_ignore_ascii_case("B") {
            Some(1)
        } else {
            UNITS
                .iter()
                .find(|(name, _)| {
                    name.eq_ignore_ascii_case(unit) || name[..1].eq_ignore_ascii_case(unit)
                })
                .map(|(_, factor)| *factor)
        };
        digits
            .trim()
            .parse::<u64>()
            .ok()
            .zip(factor)
            .and_then(|(number, factor)| number.checked_mul(factor))
            .filter(|bytes| *bytes > 0)
            .map(Self)
            .ok_or_else(|| "give a size such as 256kB, 125MB or 1GB".to_string())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, factor) in UNITS {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{name}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A limit that may be absent: `none` or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

impl FromStr for Limit<Size> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        text.parse()
            .map(|size| Self(Some(size)))
            .map_err(|_| "give bytes per second such as 125MB, or none".to_string())
    }
}

impl FromStr for Limit<u32> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        text.parse()
            .ok()
            .filter(|number| *number > 0)
            .map(|number| Self(Some(number)))
            .ok_or_else(|| "give a number per second such as 800, or none".to_string())
    }
}

impl FromStr for Limit<Seconds> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        text.parse()
            .map(|seconds| Self(Some(seconds)))
            .map_err(|_| "give seconds such as 20, or none".to_string())
    }
}

impl<T: fmt::Display> fmt::Display for Limit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Whole seconds, given as `60`, `60s` or `5min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u32);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, factor) = match (text.strip_suffix("min"), text.strip_suffix('s')) {
            (Some(digits), _) => (digits, 60),
            (None, Some(digits)) => (digits, 1),
            (None, None) => (text, 1),
        };
        digits
            .trim()
            .parse::<u32>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .map(Self)
            .ok_or_else(|| "give a time such as 60, 60s or 5min".to_string())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_powers_of_1024_and_print_as_they_were_given() {
        for (text, bytes, shown) in [
            ("125MB", 131_072_000, "125MB"),
            ("256kB", 262_144, "256kB"),
            ("256KB", 262_144, "256kB"),
            ("1g", 1 << 30, "1GB"),
            ("1536", 1536, "1536"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.bytes(), bytes, "{text}");
            assert_eq!(size.to_string(), shown);
        }
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        for text in [
            "",
            "MB",
            "0",
            "-1MB",
            "1.5GB",
            "12QB",
            "99999999TB",
            "1 2MB",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn none_is_no_limit() {
        assert_eq!("none".parse::<Limit<u32>>(), Ok(Limit(None)));
        assert_eq!("800".parse::<Limit<u32>>(), Ok(Limit(Some(800))));
        assert!("0".parse::<Limit<u32>>().is_err());
        assert_eq!("125MB".parse::<Limit<Size>>().unwrap().to_string(), "125MB");
        assert_eq!(Limit::<u32>(None).to_string(), "none");
    }

    #[test]
    fn times_may_have_a_unit() {
        assert_eq!("5min".parse(), Ok(Seconds(300)));
        assert_eq!("60s".parse(), Ok(Seconds(60)));
        assert_eq!("60".parse(), Ok(Seconds(60)));
        assert!("1h".parse::<Seconds>().is_err());
    }
}
