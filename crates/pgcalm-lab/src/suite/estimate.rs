//! How long a row takes.

use std::time::Duration;

use crate::contest::Options;

/// Of each run beside its load: file systems, WAL segments, the start and end of a server, reading the logs.
const RUN: Duration = Duration::from_secs(10);

/// Bytes per second at which a loaded table is copied to its device and read into the page cache: 700 MB/s on a machine of the
/// project's kind, less on a slow disk.
const COPY_RATE: u64 = 500 << 20;

/// An estimate: the load of all runs, half of the time that draining may take, and what is around each run. Loading a table
/// that no earlier run has loaded comes on top.
pub fn estimate(options: &Options) -> Duration {
    let runs = options.contestants.len() as u32 * options.repeat;
    let load = Duration::from_secs((options.warm_up.0 + options.seconds.0).into());
    let drain = Duration::from_secs(options.drain.0.map_or(0, |drain| drain.0 / 2).into());
    let copy = Duration::from_secs(2 * options.template_size().bytes() / COPY_RATE);
    (load + drain + copy + RUN) * runs
}
