//! What all scenarios let one choose of their servers.

use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::contestant::ServerSetting;
use pgcalm_volume::Volume;

#[derive(Debug, Args)]
pub struct LabServerArgs {
    /// A server setting for all servers; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<ServerSetting>,
    /// Make the devices volumes that behave like a cloud's, with limits for reads and writes, instead of capping them:
    /// NAME[:KEY=VALUE,...], e.g. gp3; `pgcalm lab list` tells the names, docs/guides/lab-volume.md the keys. Caps of single instances
    /// stay.
    #[arg(long, value_name = "PROFILE")]
    pub volume: Option<Volume>,
    /// Directory with the server programs [default: of the newest PostgreSQL installed].
    #[arg(long, value_name = "DIR")]
    pub pg_bindir: Option<PathBuf>,
}
