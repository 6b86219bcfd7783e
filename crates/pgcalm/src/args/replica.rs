//! `lab run replica`.

use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::DEFAULT_DIR;
use pgcalm_lab::Seconds;
use pgcalm_lab::Size;
use pgcalm_lab::replica;
use pgcalm_lab::replica::Case;
use pgcalm_lab::scenarios;

use super::report_files::ReportFiles;
use super::servers::LabServerArgs;

/// Options that have a default are absent here unless given.
#[derive(Debug, Args)]
pub struct ReplicaArgs {
    /// What is run, separated by commas; `pgcalm lab list` tells what there is [default: all].
    #[arg(long, value_name = "LIST", value_parser = cases)]
    pub cases: Option<Cases>,
    /// Duration of the load [default: 40].
    #[arg(long, value_name = "S")]
    pub seconds: Option<Seconds>,
    /// How long the standby is watched after the load, at most [default: 120].
    #[arg(long, value_name = "S")]
    pub catch_up: Option<Seconds>,
    /// Connections of the load [default: 1].
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub clients: Option<u32>,
    /// Rows of each filling of the table, about 1.7 kB of WAL each [default: 5000].
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub rows: Option<u32>,
    /// Write operations per second that either WAL device takes in the case capped [default: 200].
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub wal_iops: Option<u32>,
    /// Bytes per second that the link carries in either direction, headers counted [default: 125000000, 1 Gbit/s, or half of
    /// the WAL that the load makes here if that is less].
    #[arg(long, value_name = "SIZE")]
    pub link_bps: Option<Size>,
    /// pg_calm.governor_max_lag in the case governed [default: 128MB].
    #[arg(long, value_name = "SIZE")]
    pub max_lag: Option<Size>,
    /// max_wal_size of both [default: 512MB].
    #[arg(long, value_name = "SIZE")]
    pub max_wal_size: Option<Size>,
    /// Size of either WAL device and of the archive's. The load ends early before one is full [default: 4GB].
    #[arg(long, value_name = "SIZE")]
    pub wal_size: Option<Size>,
    #[command(flatten)]
    pub servers: LabServerArgs,
    /// Directory where pg_calm was built [default: the installed one].
    #[arg(long, value_name = "DIR")]
    pub module_dir: Option<PathBuf>,
    /// Directory for devices and logs; needs room for them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub report: ReportFiles,
    /// Keep server logs in pgcalm-kept of --dir; `lab clean` removes them.
    #[arg(long)]
    pub keep: bool,
}

impl ReplicaArgs {
    /// What was given over the preset.
    pub fn options(self) -> replica::Options {
        let preset = scenarios::replica::full();
        replica::Options {
            dir: self.dir,
            pg_bindir: self.servers.pg_bindir,
            module_dir: self.module_dir,
            cases: self.cases.map_or(preset.cases, |list| list.0),
            seconds: self.seconds.unwrap_or(preset.seconds),
            catch_up: self.catch_up.unwrap_or(preset.catch_up),
            clients: self.clients.unwrap_or(preset.clients),
            rows: self.rows.unwrap_or(preset.rows),
            wal_iops: self.wal_iops.unwrap_or(preset.wal_iops),
            link_bps: self.link_bps.or(preset.link_bps),
            max_lag: self.max_lag.unwrap_or(preset.max_lag),
            max_wal_size: self.max_wal_size.unwrap_or(preset.max_wal_size),
            wal_size: self.wal_size.unwrap_or(preset.wal_size),
            set: self.servers.set,
            volume: self.servers.volume,
            keep: self.keep,
        }
    }
}

/// Cases, of which clap needs a type of their own.
#[derive(Debug, Clone)]
pub struct Cases(pub Vec<&'static Case>);

fn cases(text: &str) -> Result<Cases, String> {
    replica::parse_list(text).map(Cases)
}
