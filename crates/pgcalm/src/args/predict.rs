//! Arguments of `pgcalm predict` and `pgcalm lab run predict`.

use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::DEFAULT_DIR;
use pgcalm_lab::Limit;
use pgcalm_lab::Seconds;
use pgcalm_lab::Size;
use pgcalm_lab::predict::grid;
use pgcalm_lab::predict::grid::GridPoint;
use pgcalm_predict::observe::Reads;

use super::FsArg;
use super::count;
use super::report_files::ReportFiles;
use super::rows;
use super::servers::ServerArgs;

/// As libpq's tools default it, but for user and database.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// The server, as a connection string of libpq's or a URI; what is left out is the local socket, user postgres, database
    /// postgres.
    ///
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO", default_value = "")]
    pub connect: String,
    /// For how long it is looked at; a checkpoint interval at least, for certainty.
    #[arg(long, value_name = "S", default_value = "60")]
    pub seconds: Seconds,
    /// Write operations per second that the device of the data directory takes, or none [default: the caps of the control
    /// groups, or what pg_calm.write_iops says].
    #[arg(long, value_name = "N|none")]
    pub device_iops: Option<Limit<u32>>,
    /// Bytes per second that it takes, or none [default: likewise].
    #[arg(long, value_name = "SIZE|none")]
    pub device_bps: Option<Limit<Size>>,
    /// Reads count against these limits, as on most cloud volumes, and so many come per second; seen: as many as come while it is looked
    /// at [default: as pg_calm.iops and pg_calm.bandwidth say].
    #[arg(long, value_name = "N|seen", value_parser = reads)]
    pub device_reads: Option<Reads>,
    /// Bytes of a contiguous write that count as one operation, e.g. 256kB on EBS [default: the largest operation that the
    /// device is sent, or pg_calm.io_size].
    #[arg(long, value_name = "SIZE")]
    pub device_io_size: Option<Size>,
    /// Write JSON to standard output.
    #[arg(long)]
    pub json: bool,
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
    pub servers: ServerArgs,
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
