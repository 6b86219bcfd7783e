//! Arguments of `pgcalm doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::caps::DiskCaps;
use super::change::ChangeArgs;
use super::fail_on::FailOnArg;
use super::json::JsonArg;
use super::server::ServerArgs;
use super::time;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// How long rates of WAL and disks are measured; 0: not at all.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time::any)]
    pub duration: Duration,
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub fail_on: FailOnArg,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Only what these rules propose, separated by commas.
    #[arg(long, value_name = "RULES", value_delimiter = ',', requires = "change", conflicts_with = "undo")]
    pub only: Vec<String>,
    /// Show what --apply has changed and --undo --apply takes back: sysctls, and settings of the server that is connected to.
    #[arg(long)]
    pub undo: bool,
    /// Print the table of rules in Markdown, and look at nothing.
    #[arg(long, conflicts_with_all = ["json", "connect", "instance", "change", "undo", "fail_on"])]
    pub rules: bool,
    /// Where former values are kept.
    #[arg(long, value_name = "DIR", default_value = pgcalm_doctor::state::DIRECTORY)]
    pub state_dir: PathBuf,
    #[command(flatten)]
    pub caps: DiskCaps,
}
