//! Arguments of `pgcalm warm`.

use std::path::PathBuf;

use clap::Args;
use pgcalm_host::quantity::Size;

use super::caps::SharedCaps;
use super::json::JsonArg;
use super::server::ServerArgs;

#[derive(Debug, Args)]
pub(crate) struct WarmArgs {
    /// Keep which ranges of which files are cached now.
    #[arg(long, required_unless_present = "restore", conflicts_with_all = ["restore", "limit", "rate", "iops", "bandwidth"])]
    pub save: bool,
    /// Read again what --save has kept.
    #[arg(long)]
    pub restore: bool,
    #[command(flatten)]
    pub server: ServerArgs,
    /// The data directory of a server on this host, which need not run [default: that of the server].
    #[arg(long, value_name = "DIR", conflicts_with_all = ["connect", "instance"])]
    pub data_directory: Option<PathBuf>,
    /// Where it is kept [default: /var/lib/pgcalm/warm/ and the system identifier, which a standby has in common with its
    /// primary; two servers of one cluster on one host need one each].
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read no more than this.
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<Size>,
    /// Read no more than this per second.
    #[arg(long, value_name = "SIZE", value_parser = Size::per_second)]
    pub rate: Option<Size>,
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub caps: SharedCaps,
}
