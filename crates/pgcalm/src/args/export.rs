use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::server::ConnectList;
use super::time;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Address for HTTP: metrics at /metrics, and at /alive whether a probe should leave a server alone [default: 127.0.0.1:9187, or none with --textfile].
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: Option<SocketAddr>,
    #[command(flatten)]
    pub servers: ConnectList,
    /// File that is replaced after each interval, for node_exporter's textfile collector; its name must end in .prom for
    /// that. It is removed at the end.
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Directory of a record of pgcalm record, whose incidents are counted.
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Time between samples, 0.1 s to 1 h.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time::interval)]
    pub interval: Duration,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "give an address and a port, e.g. 127.0.0.1:9187")
}
