//! Arguments of `pgcalm targets`.

use std::time::Duration;

use clap::Args;
use pgcalm_host::quantity::Size;

use super::caps::DiskCaps;
use super::report_files::ReportFiles;
use super::server::ServerArgs;
use super::time;

#[derive(Debug, Args)]
pub(crate) struct TargetsArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// How old the WAL may be that is looked at, as far as pg_wal has it.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time::some)]
    pub duration: Duration,
    /// How much of it is read at most: the last.
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    pub wal: Size,
    #[command(flatten)]
    pub report: ReportFiles,
    #[command(flatten)]
    pub caps: DiskCaps,
}
