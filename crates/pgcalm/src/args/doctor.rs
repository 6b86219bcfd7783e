//! Arguments of `pgcalm doctor`.

use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::Size;

/// Standard output, where an option takes a file.
pub const STANDARD_OUTPUT: &str = "-";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub server: DoctorServerArgs,
    /// Write operations per second that the disk of the data takes: a cloud volume's cap is nowhere on the host.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub write_iops: Option<u64>,
    /// Bytes written per second that it takes, likewise.
    #[arg(long, value_name = "SIZE")]
    pub write_bandwidth: Option<Size>,
    /// Seconds over which rates of WAL and disks are measured; 0: not at all.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub sample: u64,
    /// Write the report as JSON, to standard output if no file is given.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    pub json: Option<PathBuf>,
    /// After showing the changes and asking, make those that can be taken back: sysctls, ALTER SYSTEM and a reload.
    ///
    /// Former values go into a state file first. Nothing is restarted.
    #[arg(long, group = "action")]
    pub apply: bool,
    /// Don't ask.
    #[arg(long, requires = "apply")]
    pub yes: bool,
    /// Only what these rules propose, separated by commas.
    #[arg(long, value_name = "RULES", value_delimiter = ',', requires = "apply")]
    pub only: Vec<String>,
    /// Take back what --apply has changed: sysctls, and settings of the server that is connected to.
    #[arg(long, group = "action")]
    pub undo: bool,
    /// Print the table of rules in Markdown, and look at nothing.
    #[arg(long, group = "action", conflicts_with_all = ["json", "connect", "port", "datadir"])]
    pub rules: bool,
    /// Where former values are kept.
    #[arg(long, value_name = "DIR", default_value = pgcalm_doctor::state::DIRECTORY)]
    pub state_dir: PathBuf,
}

/// Which server; the only one that runs on this host if nothing is given.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct DoctorServerArgs {
    /// A server, as a connection string of libpq's or a URI; user and database are postgres unless given.
    ///
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Option<String>,
    /// Port of a server of this host.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Data directory of a server of this host.
    #[arg(long, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
}
