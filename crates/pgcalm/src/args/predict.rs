//! Arguments of `pgcalm predict`.

use clap::Args;
use pgcalm_lab::Limit;
use pgcalm_lab::Seconds;
use pgcalm_lab::Size;

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
    /// Bytes of a contiguous write that count as one operation, e.g. 256kB on EBS [default: the largest operation that the
    /// device is sent, or pg_calm.io_size].
    #[arg(long, value_name = "SIZE")]
    pub device_io_size: Option<Size>,
    /// Write JSON to standard output.
    #[arg(long)]
    pub json: bool,
}
