use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::Seconds;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Address for HTTP; the metrics are at /metrics [default: 127.0.0.1:9187, or none with --textfile].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// A server, as a connection string of libpq's, e.g. "host=db1 user=monitor", or a URI; may be repeated [default: all
    /// instances of this host, those that are started later, too].
    ///
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "STRING")]
    pub connect: Vec<String>,
    /// File that is replaced after each interval, for node_exporter's textfile collector; its name must end in .prom for
    /// that. It is removed at the end.
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Time between samples.
    #[arg(long, value_name = "S", default_value = "5")]
    pub interval: Seconds,
}
