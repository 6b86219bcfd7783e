//! Times in words.

use jiff::{ToSpan, Zoned};
use pgcalm_host::Failure;

/// This moment, in the time zone of this process.
pub fn now() -> Zoned {
    Zoned::now()
}

/// A moment, in that zone.
pub fn text(time_ms: u64) -> String {
    crate::report::time::date_and_time(time_ms)
}

/// The moment that `text` means, in milliseconds since 1970: `03:12`, `yesterday 03:12`, `2 hours ago`, `2026-11-27 03:12`, all that
/// GNU date reads. A time of day that is still to come today is yesterday's: nobody asks a record for the future.
///
/// # Errors
///
/// [`Failure::Usage`] if it can't be read, or means a moment that is still to come.
pub fn parse(option: &str, text: &str, now: &Zoned) -> Result<u64, Failure> {
    moments(option, text, now).map(|(first, _)| first)
}

/// As [`parse`]; and the other moment of a time of day that was twice, as clocks were set back.
///
/// # Errors
///
/// As [`parse`].
pub fn moments(option: &str, text: &str, now: &Zoned) -> Result<(u64, Option<u64>), Failure> {
    let refused = |why: &str| {
        Failure::Usage(format!(
            "{option} {text}: {why}; give e.g. 03:12, \"yesterday 03:12\", \"2 hours ago\" or \"2026-11-27 03:12\""
        ))
    };
    // GNU date takes an empty text for midnight, and a lone letter for a military time zone.
    if text.trim().len() < 2 {
        return Err(refused("is no time"));
    }
    let mut time =
        parse_datetime::parse_datetime_at_date(now.clone(), text).map_err(|_| refused("can't be read as a time"))?;
    let is_time_of_day =
        text.contains(':') && !text.contains(|c: char| c.is_alphabetic() || matches!(c, '-' | '/' | '@' | '+'));
    if is_time_of_day && time > *now {
        time = time.checked_sub(1.day()).map_err(|_| refused("can't be read as a time"))?;
    }
    if time > *now {
        return Err(refused("is still to come"));
    }
    let milliseconds = |time: &Zoned| u64::try_from(time.timestamp().as_millisecond());
    let first = milliseconds(&time).map_err(|_| refused("is before 1970"))?;
    // What has no time of day, as "2 hours ago", is one moment.
    let same = || time.time_zone().to_ambiguous_zoned(time.datetime());
    let other = [same().earlier(), same().later()].into_iter().flatten().find(|other| *other != time);
    let other = other.filter(|other| text.contains(':') && *other <= *now);
    Ok((first, other.and_then(|other| milliseconds(&other).ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-27T09:00:00+01:00[Europe/Berlin]".parse().unwrap()
    }

    fn read(text: &str) -> String {
        let time = parse("--since", text, &now()).unwrap();
        let time = jiff::Timestamp::from_millisecond(time as i64).unwrap();
        time.to_zoned(now().time_zone().clone()).strftime("%F %T").to_string()
    }

    #[test]
    fn times_are_read_as_people_give_them() {
        assert_eq!(read("03:12"), "2026-11-27 03:12:00");
        assert_eq!(read("03:12:09"), "2026-11-27 03:12:09");
        assert_eq!(read("23:50"), "2026-11-26 23:50:00", "that of last night");
        assert_eq!(read("yesterday 03:12"), "2026-11-26 03:12:00");
        assert_eq!(read("2 hours ago"), "2026-11-27 07:00:00");
        assert_eq!(read("2026-11-20 03:12"), "2026-11-20 03:12:00");
        assert_eq!(read("2026-11-27T02:12:00Z"), "2026-11-27 03:12:00");
        assert_eq!(read("now"), "2026-11-27 09:00:00");
    }

    #[test]
    fn a_time_of_day_that_was_twice_is_two_moments() {
        let now: Zoned = "2026-10-25T09:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let apart = |text| {
            let (first, other) = moments("--at", text, &now).unwrap();
            other.map(|other| other.abs_diff(first))
        };
        assert_eq!(["02:30", "yesterday 02:30"].map(apart), [Some(3_600_000), None]);
        assert_eq!(["03:30", "2026-10-25T00:30:00Z", "8 hours ago"].map(apart), [None; 3]);
    }

    #[test]
    fn what_is_no_time_is_told_with_what_to_give() {
        for text in ["", " ", "z", "a while ago", "25:99", "soon", "03:12 or so"] {
            let error = parse("--since", text, &now()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--since {text}: ")) && error.contains("03:12"), "{error}");
        }
        let error = parse("--at", "tomorrow 03:12", &now()).unwrap_err().to_string();
        assert!(error.contains("still to come"), "{error}");
    }
}
