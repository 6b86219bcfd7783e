//! Arguments of `pgcalm predict`.

use std::time::Duration;

use clap::Args;
use pgcalm_host::quantity::{PER_SECOND, number};
use pgcalm_predict::observe::Reads;

use super::caps::DiskCaps;
use super::json::JsonArg;
use super::server::ServerArgs;
use super::time;

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// For how long it is looked at, 5 s to 1 d; a checkpoint interval at least, for certainty.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time::some)]
    pub duration: Duration,
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub caps: DiskCaps,
    /// Reads count against --iops and --bandwidth, and so many come per second; seen: as many as come while it is looked at [default: seen with
    /// one of these, else as pg_calm.iops and pg_calm.bandwidth say].
    #[arg(long, value_name = "N|seen", value_parser = reads, help_heading = "Caps of the disk of the data")]
    pub reads: Option<Reads>,
}

fn reads(text: &str) -> Result<Reads, String> {
    if text == "seen" {
        return Ok(Reads::Seen);
    }
    let rate = PER_SECOND.within(0, u32::MAX.into(), "from 0 to 4294967295");
    match number::<u32>(rate, text) {
        Ok(number) => Ok(Reads::PerSecond(number.into())),
        Err(hint) => Err(format!("{hint}; or seen")),
    }
}
