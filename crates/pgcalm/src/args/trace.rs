//! Arguments of `pgcalm trace`.

use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;
use pgcalm_lab::Seconds;

use crate::args::EXIT_CODES;

#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Each checkpoint, phase by phase and file by file, with the transactions around it.
    #[command(after_help = EXIT_CODES)]
    Checkpoint(TraceCheckpointArgs),
    /// Waits for locks, before, during and after each checkpoint, and in all.
    #[command(after_help = EXIT_CODES)]
    Locks(TraceLocksArgs),
    /// Why transactions stall: for each such second what the backends' time was lost to, with kernel stacks.
    #[command(after_help = EXIT_CODES)]
    Why(TraceWhyArgs),
    /// What each process reads, writes, syncs, sends and receives, by kind of file.
    #[command(after_help = EXIT_CODES)]
    Io(TraceIoArgs),
    /// Where new connections spend their time until they are ready for a query.
    #[command(after_help = EXIT_CODES)]
    Connect(TraceConnectArgs),
}

/// Which server; the only one that runs if nothing is given.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct ServerArgs {
    /// Process id of the postmaster.
    #[arg(long, value_name = "POSTMASTER")]
    pub pid: Option<i32>,
    /// Port of the server.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
}

/// What every trace takes.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Stop after this time [default: Ctrl-C, or when the server ends].
    #[arg(long, value_name = "S")]
    pub duration: Option<Seconds>,
    /// Write JSON lines.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one HTML file at the end.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TraceCheckpointArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Stop after this many checkpoints [default: no limit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Time the flush and the write of every single buffer, too; costs more.
    #[arg(long)]
    pub per_buffer: bool,
    /// Seconds before and after each checkpoint whose transactions are shown.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=300))]
    pub around: u64,
    /// Connect to the server for the names of relations, and for numbers of transactions where eBPF can't be used.
    ///
    /// A connection string of libpq's or a URI, which may be empty: host and port are the traced server's unless given.
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Option<String>,
}

#[derive(Debug, Args)]
pub struct TraceLocksArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Stop after this many checkpoints [default: no limit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Estimate acquisitions of lightweight locks, too, from slices of the time, in one process at a time.
    #[arg(long)]
    pub acquisitions: bool,
    /// Count each acquisition of a lightweight lock; slows the server down: a busy one makes hundreds of thousands per second.
    #[arg(long, conflicts_with = "acquisitions")]
    pub all_acquisitions: bool,
    /// Seconds before and after each checkpoint whose waits are shown apart.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    pub around: u64,
    /// Connect to the server for the names of relations, and where eBPF can't be used for samples of pg_stat_activity.
    ///
    /// A connection string of libpq's or a URI, which may be empty: host and port are the traced server's unless given.
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Option<String>,
}

#[derive(Debug, Args)]
pub struct TraceWhyArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Give a verdict, too, when a backend stays longer than this in one system call, s.
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = threshold)]
    pub threshold: f64,
    /// Count writes and fsyncs of WAL files, too; costs every system call of the host some time.
    #[arg(long)]
    pub wal_calls: bool,
    /// Where eBPF can't be used, connect to the server for its numbers of transactions and WAL.
    ///
    /// A connection string of libpq's or a URI, which may be empty: host and port are the traced server's unless given.
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Option<String>,
}

#[derive(Debug, Args)]
pub struct TraceIoArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Report each time of this length, too [default: only the total].
    #[arg(long, value_name = "S")]
    pub interval: Option<Seconds>,
}

#[derive(Debug, Args)]
pub struct TraceConnectArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Stop after this many connections [default: no limit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Report a connection that takes longer than this before it is ready, s.
    #[arg(long, value_name = "S", default_value = "1", value_parser = threshold)]
    pub threshold: f64,
}

/// Seconds with a fraction, more than none and at most a day.
fn threshold(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("give seconds, e.g. 0.5, up to 86400".to_string()),
    }
}
