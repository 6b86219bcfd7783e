//! Times: seconds, which may have a fraction, or a number with a unit.

use std::time::Duration;

use clap::Args;
use pgcalm_host::quantity;
use pgcalm_host::quantity::{INTERVAL, SOME_TIME, TIME};

/// How long a verb goes on.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct DurationArg {
    /// Stop after this time, e.g. 60, 90s, 5min or 1h [default: Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = some)]
    pub duration: Option<Duration>,
}

/// A time that is not zero.
pub(crate) fn some(text: &str) -> Result<Duration, String> {
    quantity::time(SOME_TIME, text)
}

/// A time; 0 may mean: not at all.
pub(crate) fn any(text: &str) -> Result<Duration, String> {
    quantity::time(TIME, text)
}

/// The time between two looks.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    quantity::time(INTERVAL, text)
}
