//! Arguments of `pgcalm lag`.

use std::time::Duration;

use clap::Args;
use pgcalm_host::quantity::COUNT;

use super::json::JsonArg;
use super::server::ServerArgs;
use super::time;
use super::time::DurationArg;

#[derive(Debug, Args)]
pub(crate) struct LagArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Time between samples, 0.1 s to 1 h.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time::interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub time: DurationArg,
    /// Stop after this many samples [default: Ctrl-C].
    #[arg(long, value_name = "N", value_parser = |text: &str| COUNT.read(text))]
    pub count: Option<u64>,
    /// Ask twice, an interval apart, and show one sample: with rates, but a short history.
    #[arg(long, conflicts_with_all = ["count", "duration"])]
    pub once: bool,
    #[command(flatten)]
    pub json: JsonArg,
}
