//! What all scenarios let one choose of their servers.

use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::contestant::ServerSetting;

#[derive(Debug, Args)]
pub struct ServerArgs {
    /// A server setting for all servers; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<ServerSetting>,
    /// Directory with the server programs [default: of the newest PostgreSQL installed].
    #[arg(long, value_name = "DIR")]
    pub pg_bindir: Option<PathBuf>,
}
