//! Counts, sizes, rates and times as people write them: one parser for all.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Powers of 1024, as PostgreSQL has them, also by the names that say so.
const BYTES: &[(&str, u64)] = &[
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("kB", 1 << 10),
    ("B", 1),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("k", 1 << 10),
];

const SECOND: u64 = 1_000_000_000;

/// In nanoseconds.
const TIMES: &[(&str, u64)] = &[
    ("d", 86_400 * SECOND),
    ("h", 3600 * SECOND),
    ("min", 60 * SECOND),
    ("s", SECOND),
    ("ms", SECOND / 1000),
    ("us", SECOND / 1_000_000),
];

/// Something of which there is an amount: how it is written, and from what to what it makes sense.
///
/// A value is a decimal number, with a fraction if it has units, and a unit of these. What it comes to is a whole number of
/// the smallest part that counts (bytes, nanoseconds); there is no sign, exponent, infinity or overflow.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// As in "give ...".
    what: &'static str,
    /// Values such as one gives.
    examples: &'static str,
    /// The letters' case does not matter.
    units: &'static [(&'static str, u64)],
    /// What a number without a unit is counted in; `None` if it needs one.
    bare: Option<u64>,
    least: u64,
    most: u64,
    /// From what to what, in words.
    range: &'static str,
}

/// Any number of things, at least one.
pub const COUNT: Quantity = Quantity {
    what: "a whole number",
    examples: "4",
    units: &[],
    bare: Some(1),
    least: 1,
    most: u32::MAX as u64,
    range: "from 1 to 4294967295",
};

/// Processors, in thousandths.
const PROCESSORS: Quantity = Quantity {
    what: "a number of processors",
    examples: "0.25",
    bare: Some(1000),
    most: 1024 * 1000,
    range: "above 0, up to 1024",
    ..COUNT
};

/// Reads a number of processors, of one at least the thousandth part.
pub fn processors(text: &str) -> Result<f64, String> {
    // Exact: so few.
    PROCESSORS.read(text).map(|parts| parts as f64 / 1000.0)
}

/// Rows of a table.
pub const ROWS: Quantity =
    Quantity { what: "a whole number of rows", examples: "4000000", most: u64::MAX, range: "from 1", ..COUNT };

/// A rate of operations. None at all is no rate.
pub const PER_SECOND: Quantity = Quantity { what: "a whole number per second", examples: "3000", ..COUNT };

/// A TCP port.
pub const PORT: Quantity =
    Quantity { what: "a port", examples: "5432", most: u16::MAX as u64, range: "from 1 to 65535", ..COUNT };

/// Bytes. Without a unit it would be as often meant in megabytes.
pub const SIZE: Quantity = Quantity {
    what: "a size",
    examples: "256kB, 125MB or 1GB",
    units: BYTES,
    bare: None,
    least: 1,
    most: u64::MAX,
    range: "above 0",
};

/// Bytes per second.
pub const BANDWIDTH: Quantity = Quantity { what: "bytes per second", examples: "125MB or 125MiB", ..SIZE };

/// A time, in nanoseconds. Beyond a year it is a typing error.
pub const TIME: Quantity = Quantity {
    what: "a time",
    examples: "0.5, 60, 90s, 5min or 1h",
    units: TIMES,
    bare: Some(SECOND),
    least: 0,
    most: 366 * 86_400 * SECOND,
    range: "up to 366d",
};

/// One that is not zero.
pub const SOME_TIME: Quantity = Quantity { least: 1, range: "above 0, up to 366d", ..TIME };

/// The time between two looks, of every verb that looks again and again: a server has time for other things, and a picture
/// is live.
pub const INTERVAL: Quantity = Quantity {
    examples: "0.5, 5s or 1min",
    least: SECOND / 10,
    most: 3600 * SECOND,
    range: "from 0.1 s to 1 h",
    ..TIME
};

/// Of one operation. Beyond ten seconds it is a typing error.
pub const LATENCY: Quantity =
    Quantity { examples: "0.5ms or 500us", bare: None, most: 10 * SECOND, range: "up to 10 s", ..TIME };

/// Whole seconds of a run.
pub const SECONDS: Quantity = Quantity { examples: "60, 60s or 5min", ..TIME };

impl Quantity {
    /// Others of its kind, from `least` to `most` parts.
    pub const fn within(self, least: u64, most: u64, range: &'static str) -> Self {
        Self { least, most, range, ..self }
    }

    /// Reads a value; an error says what to give.
    pub fn read(&self, text: &str) -> Result<u64, String> {
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim_start());
        let factor = match unit {
            "" => match (self.bare, decimal(number, 1)) {
                (None, Some(1..)) => {
                    let units = self.units.iter().filter(|(name, _)| name.starts_with('M'));
                    let named: Vec<String> =
                        units.filter(|(name, _)| name.len() > 1).map(|(name, _)| format!("{number}{name}")).collect();
                    return Err(match named.as_slice() {
                        [] => format!("give a unit: {}", self.names()),
                        named => format!("give a unit: {}", named.join(" or ")),
                    });
                }
                (bare, _) => bare,
            },
            unit => self.units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor),
        };
        factor
            .and_then(|factor| decimal(number, factor))
            .filter(|parts| (self.least..=self.most).contains(parts))
            .ok_or_else(|| self.hint())
    }

    /// What is to be given.
    pub fn hint(&self) -> String {
        let Self { what, examples, range, .. } = self;
        match self.units {
            [] => format!("give {what} {range}, without a unit, e.g. {examples}"),
            _ => format!("give {what} {range}, e.g. {examples}; units are {}", self.names()),
        }
    }

    /// Those that say most.
    fn names(&self) -> String {
        let names = self.units.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = names.take_while(|name| *name != "TiB").collect();
        names.reverse();
        names.join(", ")
    }
}

/// A decimal number times `factor`, in whole parts; fractions of a part are dropped, and so is what is no such number.
fn decimal(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = match number.split_once('.') {
        // As many digits as matter.
        Some((whole, fraction)) if factor > 1 && (1..=12).contains(&fraction.len()) => (whole, fraction),
        Some(_) => return None,
        None => (number, "0"),
    };
    let digits = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u64>().ok(),
        false => None,
    };
    let fraction_parts =
        u128::from(digits(fraction)?) * u128::from(factor) / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let parts = u128::from(digits(whole)?) * u128::from(factor) + fraction_parts;
    u64::try_from(parts).ok()
}

/// A time that `quantity` has.
pub fn time(quantity: Quantity, text: &str) -> Result<Duration, String> {
    quantity.read(text).map(Duration::from_nanos)
}

/// A number of bytes, with PostgreSQL's units: kB, MB, GB and TB are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Reads bytes per second.
    pub fn per_second(text: &str) -> Result<Self, String> {
        BANDWIDTH.read(text).map(Self)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        SIZE.read(text).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Those that are read, the first of each size.
        for (name, factor) in &BYTES[..4] {
            if self.0 >= *factor && self.0.is_multiple_of(*factor) {
                return write!(f, "{}{name}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// A limit that may be absent: `none` or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

fn limit<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Limit<T>, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Limit(None));
    }
    match read(text) {
        Ok(value) => Ok(Limit(Some(value))),
        Err(hint) => Err(format!("{hint}; or none")),
    }
}

impl FromStr for Limit<Size> {
    type Err = String;

    /// Of bytes per second.
    fn from_str(text: &str) -> Result<Self, String> {
        limit(text, Size::per_second)
    }
}

impl FromStr for Limit<u32> {
    type Err = String;

    /// Of operations per second.
    fn from_str(text: &str) -> Result<Self, String> {
        limit(text, |text| number(PER_SECOND, text))
    }
}

impl FromStr for Limit<Seconds> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        limit(text, str::parse)
    }
}

/// A number that `quantity` has and `T` can hold.
pub fn number<T: TryFrom<u64>>(quantity: Quantity, text: &str) -> Result<T, String> {
    let value = quantity.read(text)?;
    T::try_from(value).map_err(|_| quantity.hint())
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
        match SECONDS.read(text)? {
            // A year's fit.
            parts if parts.is_multiple_of(SECOND) => Ok(Self((parts / SECOND) as u32)),
            _ => Err("give whole seconds, e.g. 60, 60s or 5min".to_string()),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

impl Serialize for Size {
    /// As it is printed.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: Serialize> Serialize for Limit<T> {
    /// `none`, or the value.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str("none"),
        }
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
            ("1536B", 1536, "1536B"),
            ("1.5 GiB", 1_610_612_736, "1536MB"),
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
            "0MB",
            "0",
            "-1MB",
            "12QB",
            "99999999TB",
            "1 2MB",
            "1.GB",
            ".5GB",
            "1.5.5GB",
            "1.5",
            "1e3MB",
            "NaN",
            "inf",
            "+1MB",
            "0.1B",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_has_a_unit() {
        let error = |text: &str| text.parse::<Size>().unwrap_err();
        assert_eq!(error("125"), "give a unit: 125MB or 125MiB");
        assert_eq!(error("125QB"), "give a size above 0, e.g. 256kB, 125MB or 1GB; units are B, kB, MB, GB, TB");
        assert!("125".parse::<Limit<Size>>().is_err());
    }

    #[test]
    fn a_number_has_none() {
        let read = |text| number::<u32>(PER_SECOND, text);
        assert_eq!(read("3000"), Ok(3000));
        for text in ["0", "-1", "3k", "3000/s", "1.5", "4294967296", "", "NaN", "1e3"] {
            assert_eq!(
                read(text).unwrap_err(),
                "give a whole number per second from 1 to 4294967295, without a unit, e.g. 3000",
                "{text}"
            );
        }
        assert_eq!(number::<u16>(PORT, "65535"), Ok(65535));
        assert!(number::<u16>(PORT, "65536").is_err());
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
        assert_eq!("1h".parse(), Ok(Seconds(3600)));
        for text in ["0.5", "1500ms", "-1", "367d", "", "5m"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }

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
            ("366d", 31_622_400.0),
        ] {
            let read = time(TIME, text);
            assert_eq!(read, Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "nan", "inf", "5m", "5 years", "1e9d", "367d"] {
            assert!(time(TIME, text).is_err(), "{text}");
        }
        assert!(time(SOME_TIME, "0").is_err() && time(TIME, "0").is_ok());
        assert!(time(INTERVAL, "0.1").is_ok() && time(INTERVAL, "1h").is_ok());
        assert_eq!(
            time(INTERVAL, "2h").unwrap_err(),
            "give a time from 0.1 s to 1 h, e.g. 0.5, 5s or 1min; units are us, ms, s, min, h, d"
        );
    }
}
