//! How long a row takes.

use std::time::Duration;

use crate::contest::Options;

/// Of each run beside its load: file systems, WAL segments, the start and end of a server, reading the logs.
const RUN: Duration = Duration::from_secs(10);

/// Bytes per second at which a loaded table is copied to its device and read into the page cache: 700 MB/s on a machine of the
/// project's kind, less on a slow disk.
const COPY_RATE: u64 = 500 << 20;

/// Turns of checkpoints that a steady run takes: two until the first has ended, and three that are measured.
const TURNS: u32 = 5;

/// How many times what is asked for at least it takes where WAL brings checkpoints sooner.
const LEAST: u32 = 2;

/// An estimate: the load of all runs, half of the time that draining may take, and what is around each run. Loading a table
/// that no earlier run has loaded comes on top, and runs beyond `--repeat`.
pub fn estimate(options: &Options) -> Duration {
    let runs = options.contestants.len() as u32 * options.repeat;
    let least = options.warm_up.0 + options.seconds.0;
    let (load, drain) = match options.steady {
        true => {
            let turns = TURNS * options.checkpoint_timeout.0;
            let load = turns.min(LEAST * least).max(least);
            (load.min(options.at_most.0), 0)
        }
        false => (least, options.drain.0.map_or(0, |drain| drain.0 / 2)),
    };
    let copy = Duration::from_secs(2 * options.template_size().bytes() / COPY_RATE);
    (Duration::from_secs((load + drain).into()) + copy + RUN) * runs
}
