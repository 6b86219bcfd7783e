//! Arguments of `pgcalm trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pgcalm_host::quantity;
use pgcalm_host::quantity::{COUNT, SECONDS};

use super::fail_on::FailOnArg;
use super::json::JsonArg;
use super::record::DirArg;
use super::server::InstanceArg;
use super::time;
use super::time::DurationArg;

#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    /// Each checkpoint, phase by phase and file by file, with the transactions around it.
    #[command(before_help = "Example: sudo pgcalm trace checkpoint --count 1")]
    Checkpoint(TraceCheckpointArgs),
    /// Waits for locks, before, during and after each checkpoint, and in all.
    #[command(before_help = "Example: sudo pgcalm trace locks --duration 5min")]
    Locks(TraceLocksArgs),
    /// Why transactions stall: for each such second what the backends' time was lost to, with kernel stacks.
    #[command(before_help = "Example: sudo pgcalm trace why --duration 60")]
    Why(TraceWhyArgs),
    /// What each process reads, writes, syncs, sends and receives, by kind of file.
    #[command(before_help = "Example: sudo pgcalm trace io --interval 10 --duration 60")]
    Io(TraceIoArgs),
    /// Where new connections spend their time until they are ready for a query.
    #[command(before_help = "Example: sudo pgcalm trace connect --threshold 200ms")]
    Connect(TraceConnectArgs),
}

/// What every trace takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub instance: InstanceArg,
    #[command(flatten)]
    pub time: DurationArg,
    #[command(flatten)]
    pub json: JsonArg,
    /// Write one HTML file at the end.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Of traces that also ask the server. Unlike with other verbs, without it nothing is asked.
#[derive(Debug, Args)]
pub(crate) struct AskArg {
    /// The server, as a connection string of libpq's or a URI, which may be empty; it is asked, too, for names of relations,
    /// and for what eBPF can't tell where that can't be used [default: the server is not asked].
    ///
    /// Host and port are the traced server's unless given; the port tells which of several servers is traced. PG* variables,
    /// ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/operate/integrations.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TraceCheckpointArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Stop after this many checkpoints [default: no limit].
    #[arg(long, value_name = "N", value_parser = |text: &str| COUNT.read(text))]
    pub count: Option<u64>,
    /// Time the flush and the write of every single buffer, too; costs more.
    #[arg(long)]
    pub per_buffer: bool,
    /// Tell each file's fsync calls and flush hints (sync_file_range), not only the ten slowest fsync calls; costs more.
    #[arg(long)]
    pub files: bool,
    /// Time before and after each checkpoint whose transactions are shown, whole seconds up to 5min.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = |text: &str| around(text, 0))]
    pub around: Duration,
    #[command(flatten)]
    pub ask: AskArg,
}

#[derive(Debug, Args)]
pub(crate) struct TraceLocksArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Stop after this many checkpoints [default: no limit].
    #[arg(long, value_name = "N", value_parser = |text: &str| COUNT.read(text))]
    pub count: Option<u64>,
    /// Estimate acquisitions of lightweight locks, too, from slices of the time, in one process at a time.
    #[arg(long)]
    pub acquisitions: bool,
    /// Count each acquisition of a lightweight lock; slows the server down: a busy one makes hundreds of thousands per second.
    #[arg(long, conflicts_with = "acquisitions")]
    pub all_acquisitions: bool,
    /// Time before and after each checkpoint whose waits are shown apart, whole seconds up to 5min.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = |text: &str| around(text, 1))]
    pub around: Duration,
    /// Time from each checkpoint's start whose waits are shown apart, too, whole seconds up to 5min.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = |text: &str| around(text, 1))]
    pub first: Duration,
    #[command(flatten)]
    pub ask: AskArg,
}

#[derive(Debug, Args)]
pub(crate) struct TraceWhyArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Give a verdict, too, when a backend stays longer than this in one system call.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time::some)]
    pub threshold: Duration,
    /// Count writes and fsyncs of WAL files, too; costs every system call of the host some time.
    #[arg(long)]
    pub wal_calls: bool,
    #[command(flatten)]
    pub ask: AskArg,
    #[command(flatten)]
    pub fail_on: FailOnArg,
    /// Answer from the record of pgcalm record instead: what stalled at this time, e.g. 03:12 or "yesterday 03:12".
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["duration", "connect", "fail_on", "threshold", "wal_calls"])]
    pub at: Option<String>,
    #[command(flatten)]
    pub dir: DirArg,
}

#[derive(Debug, Args)]
pub(crate) struct TraceIoArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Report each time of this length, too, 0.1 s to 1 h [default: only the total].
    #[arg(long, value_name = "TIME", value_parser = time::interval)]
    pub interval: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct TraceConnectArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Stop after this many connections [default: no limit].
    #[arg(long, value_name = "N", value_parser = |text: &str| COUNT.read(text))]
    pub count: Option<u64>,
    /// Report a connection that takes longer than this before it is ready.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time::some)]
    pub threshold: Duration,
}

/// Around a checkpoint: whole seconds, as transactions are counted by.
fn around(text: &str, least: u64) -> Result<Duration, String> {
    let second = Duration::from_secs(1).as_nanos() as u64;
    let quantity = SECONDS.within(least * second, 300 * second, "of whole seconds up to 5min");
    quantity::time(quantity, text).and_then(|time| match time.subsec_nanos() {
        0 => Ok(time),
        _ => Err("give whole seconds up to 5min, e.g. 30s".to_string()),
    })
}
