//! Moments as people write them, in the time zone of whoever reads.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// In the time zone of this process; the moment 0 for what no calendar has.
pub fn zoned(time_ms: u64) -> Zoned {
    let time = i64::try_from(time_ms).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::system())
}

/// `2026-11-27 03:12:07`.
pub fn date_and_time(time_ms: u64) -> String {
    zoned(time_ms).strftime("%F %T").to_string()
}

/// `03:12:07`.
pub fn time(time_ms: u64) -> String {
    zoned(time_ms).strftime("%T").to_string()
}

/// `2026-11-27 03:12:07 +01:00`: for who may be elsewhere.
pub fn with_zone(time_ms: u64) -> String {
    zoned(time_ms).strftime("%F %T %:z").to_string()
}
