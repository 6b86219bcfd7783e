//! Arguments of `pgcalm predict` and `pgcalm lab run predict`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pgcalm_lab::DEFAULT_DIR;
use pgcalm_lab::Limit;
use pgcalm_lab::Seconds;
use pgcalm_lab::Size;
use pgcalm_lab::predict::grid;
use pgcalm_lab::predict::grid::GridPoint;
use pgcalm_predict::observe::Reads;

use super::FsArg;
use super::caps::DiskCaps;
use super::count;
use super::json::JsonArg;
use super::report_files::ReportFiles;
use super::rows;
use super::server::ServerArgs;
use super::servers::LabServerArgs;
use super::time;

#[derive(Debug, Args)]
pub struct PredictArgs {
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
    /// Bytes of a contiguous write that count as one operation, e.g. 256kB on EBS [default: the largest operation that the
    /// device is sent, or pg_calm.io_size].
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Caps of the disk of the data"
    )]
    pub io_size: Option<Size>,
}

fn reads(text: &str) -> Result<Reads, String> {
    if text == "seen" {
        return Ok(Reads::Seen);
    }
    let number: u32 = text
        .parse()
        .map_err(|_| "use a number of reads per second, or seen".to_string())?;
    Ok(Reads::PerSecond(number.into()))
}

/// Options that have a default are absent here unless given.
#[derive(Debug, Args)]
pub struct PredictGridArgs {
    /// Three points with small tables; other options still hold.
    #[arg(long)]
    pub quick: bool,
    /// Which points, separated by commas; `pgcalm lab list` tells them [default: all].
    #[arg(long, value_name = "LIST", value_parser = points)]
    pub points: Option<Points>,
    /// Rows of the table at all points, instead of their own.
    #[arg(long, value_name = "N", value_parser = rows)]
    pub rows: Option<u64>,
    /// Time under load before the server is looked at [default: 45].
    #[arg(long, value_name = "S")]
    pub lead: Option<Seconds>,
    /// For how long it is looked at in shadow mode [default: 30].
    #[arg(long, value_name = "S")]
    pub observe: Option<Seconds>,
    /// Time that pg_calm has to get going, then; more than checkpoint_timeout [default: 35].
    #[arg(long, value_name = "S")]
    pub settle: Option<Seconds>,
    /// For how long it is measured, from the end of a checkpoint in it to that of the last [default: 180; quick: 90].
    #[arg(long, value_name = "S")]
    pub seconds: Option<Seconds>,
    /// checkpoint_timeout, at least 30 [default: 30].
    #[arg(long, value_name = "S")]
    pub checkpoint_timeout: Option<Seconds>,
    /// Connections of the load [default: 4].
    #[arg(long, value_name = "N", value_parser = count)]
    pub clients: Option<u32>,
    /// Write operations per second that the WAL device takes, or none [default: 4000].
    #[arg(long, value_name = "N|none")]
    pub wal_iops: Option<Limit<u32>>,
    /// File system of both devices [default: ext4].
    #[arg(long, value_name = "FS")]
    pub fs: Option<FsArg>,
    #[command(flatten)]
    pub servers: LabServerArgs,
    /// Directory for devices, the loaded tables and logs; needs room for all of them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub report: ReportFiles,
}

/// clap takes a `Vec` for an option that may be repeated.
#[derive(Debug, Clone)]
pub struct Points(pub Vec<&'static GridPoint>);

fn points(text: &str) -> Result<Points, String> {
    grid::parse_list(text).map(Points)
}
