//! Arguments of `pgcalm ready-to-stop`.

use std::time::Duration;

use clap::Args;

use super::caps::DiskCaps;
use super::json::JsonArg;
use super::server::ServerArgs;
use super::time;

#[derive(Debug, Args)]
pub(crate) struct ReadyToStopArgs {
    /// How long a fast stop may take.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::some)]
    pub within: Duration,
    /// How long to work for it; a spread checkpoint takes checkpoint_completion_target of checkpoint_timeout, and waits for one under
    /// way, which takes as long. Not flushed ahead are dirty buffers of unlogged tables before PostgreSQL 19, and a standby that has
    /// replayed no checkpoint since its last restartpoint.
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = time::some)]
    pub timeout: Duration,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub caps: DiskCaps,
}
