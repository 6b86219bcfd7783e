//! Arguments of `pgcalm record`, `incidents` and `incident`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pgcalm_host::quantity::{COUNT, Size};
use pgcalm_record::store::DIRECTORY;

use super::json::JsonArg;
use super::server::ConnectList;
use super::time;

/// Where the record is.
#[derive(Debug, Clone, Args)]
pub(crate) struct DirArg {
    /// Directory of the record, or a file that --export wrote.
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub dir: DirArg,
    /// What is older is removed.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = time::some)]
    pub keep: Duration,
    /// When it is more, the oldest is removed; 16MB at least.
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    pub max_size: Size,
    /// Record onto a device of a server, too, although it stalls with that.
    #[arg(long)]
    pub same_device: bool,
    #[command(flatten)]
    pub servers: ConnectList,
    /// Copy the record into FILE, and end: for a vendor. It has no row data, no query text and no names of users.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["same_device", "connect"])]
    pub export: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct IncidentsArgs {
    #[command(flatten)]
    pub dir: DirArg,
    /// Only those from this time on, e.g. 03:12, "yesterday 03:12", "2 hours ago" or "2026-11-27 03:12" [default: all].
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Args)]
pub(crate) struct IncidentArgs {
    /// Its number, as pgcalm incidents lists it.
    #[arg(value_name = "ID", value_parser = |text: &str| COUNT.read(text))]
    pub id: u64,
    #[command(flatten)]
    pub dir: DirArg,
    /// Write it as one HTML file, too, to be looked at or attached.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArg,
}
