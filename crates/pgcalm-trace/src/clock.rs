//! The kernel's clock, and its relation to the time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC now, in ns: what bpf_ktime_get_ns gives.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock starts at boot.
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// Seconds since 1970 of a moment in CLOCK_MONOTONIC; exact to what the two clocks have drifted since then.
pub fn unix_seconds(monotonic: u64) -> f64 {
    let age = Duration::from_nanos(monotonic_ns().saturating_sub(monotonic));
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(age).as_secs_f64()
}
