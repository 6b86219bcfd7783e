pub mod caps;
pub mod change;
pub mod doctor;
pub mod export;
pub mod fail_on;
pub mod generate;
pub mod json;
pub mod lag;
pub mod predict;
pub mod replica;
pub mod report_files;
pub mod server;
pub mod servers;
pub mod suite;
pub mod time;
pub mod top;
pub mod trace;
pub mod volume;

use std::path::PathBuf;

use clap::Args;
use clap::Command;
use clap::CommandFactory;
use clap::FromArgMatches;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;
use pgcalm_lab::DEFAULT_DIR;
use pgcalm_lab::DEFAULT_TORTURE_DIR;
use pgcalm_lab::Limit;
use pgcalm_lab::Seconds;
use pgcalm_lab::Size;
use pgcalm_lab::archive::archiver;
use pgcalm_lab::archive::archiver::Archiver;
use pgcalm_lab::contest;
use pgcalm_lab::contestant::Contestant;
use pgcalm_lab::contestant::ContestantSetting;
use pgcalm_lab::interference;
use pgcalm_lab::interference::Layout;
use pgcalm_lab::options;
use pgcalm_lab::options::MountOptions;
use pgcalm_lab::options::SysctlProfile;
use pgcalm_lab::tenants;
use pgcalm_lab::torture::Crash;

use crate::args::caps::ReadCaps;
use crate::args::caps::WriteCaps;
use crate::args::change::ChangeArgs;
use crate::args::doctor::DoctorArgs;
use crate::args::export::ExportArgs;
use crate::args::fail_on::FailOnArg;
use crate::args::generate::GenerateArgs;
use crate::args::json::JsonArg;
use crate::args::lag::LagArgs;
use crate::args::predict::PredictArgs;
use crate::args::predict::PredictGridArgs;
use crate::args::replica::ReplicaArgs;
use crate::args::report_files::ReportFiles;
use crate::args::server::InstanceArg;
use crate::args::servers::LabServerArgs;
use crate::args::suite::SuiteArgs;
use crate::args::top::TopArgs;
use crate::args::trace::TraceVerb;
use crate::args::volume::VolumeArgs;
use crate::exit;

const IN_POSTGRESQL_CONF: &str = "\
In postgresql.conf:
  restore_command = 'pgcalm wal-restore --archive /mnt/archive/wal %f %p'";

/// Reproduces, measures and traces I/O stalls of PostgreSQL on capped volumes, and keeps instances on one host apart.
#[derive(Debug, Parser)]
#[command(name = "pgcalm", version, before_help = "Example: pgcalm doctor")]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Cli {
    /// Reads the command line of this process.
    pub fn of_process() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&command().try_get_matches()?)
    }
}

/// The verbs, each with its exit codes in its help.
pub fn command() -> Command {
    with_exit_codes(Cli::command())
}

fn with_exit_codes(command: Command) -> Command {
    let codes = match command.get_name() {
        crate::wal_restore::VERB => exit::restore_help(),
        _ => exit::help(),
    };
    let text = match command.get_after_help() {
        Some(own) => format!("{own}\n\n{codes}"),
        None => codes,
    };
    command.after_help(text).mut_subcommands(with_exit_codes)
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run PostgreSQL under load on devices with caps, and measure.
    #[command(
        subcommand,
        before_help = "Example: sudo pgcalm lab run checkpoint --quick"
    )]
    Lab(LabVerb),
    /// Say what will stall a server on its host and what to change, worst first; make and take back changes.
    ///
    /// Reads the host, the server's settings and statistics, and judges them by the rules of
    /// docs/reference/doctor-rules.md. Root sees most. Without a server to ask, it judges the host alone, and ends with exit
    /// code 4. Nothing is changed without --apply.
    #[command(before_help = "Example: sudo pgcalm doctor --iops 3000 --bandwidth 125MB")]
    Doctor(DoctorArgs),
    /// Show, limit and check the I/O of PostgreSQL instances that share this host.
    #[command(subcommand, before_help = "Example: sudo pgcalm isolate check")]
    Isolate(IsolateVerb),
    /// Watch the instances of this host: checkpoints, unflushed pages, disks against caps, waits, archive, lag, governor.
    ///
    /// A live picture in the terminal that looks back up to an hour. Works with any server: without pg_calm, and without
    /// root, it says what is missing and why. Nothing is written, on the host or in a server.
    #[command(after_help = top::AFTER_HELP, before_help = "Example: pgcalm top")]
    Top(TopArgs),
    /// Trace a running PostgreSQL with eBPF: no module, no restart, no debug symbols (needs root).
    #[command(
        subcommand,
        before_help = "Example: sudo pgcalm trace why --duration 60"
    )]
    Trace(TraceVerb),
    /// How far each standby of a primary lags, where it is held up, and when WAL that it needs is removed.
    #[command(before_help = "Example: pgcalm lag --once")]
    Lag(LagArgs),
    /// Export what the instances are doing as OpenMetrics, for Prometheus; only reads.
    ///
    /// Needs no root: an ordinary user with a role of his name that is a member of pg_monitor sees all but where WAL and
    /// tablespaces lie. docs/reference/metrics.md lists the metrics. Ends with SIGTERM.
    #[command(before_help = "Example: pgcalm export --listen 127.0.0.1:9187")]
    Export(ExportArgs),
    /// Look at a running server and say what pg_calm would gain there, or why it would not help.
    ///
    /// Best with the module loaded in shadow mode; without it, the data files' part of the page cache is sampled, for which
    /// it has to run on the server's host as root or as the server's user. Changes nothing.
    #[command(
        before_help = "Example: sudo pgcalm predict --iops 3000 --bandwidth 125MB --io-size 256kB"
    )]
    Predict(PredictArgs),
    /// Restore a WAL file from an archive, checked: for restore_command.
    ///
    /// Takes the file as it is, .lz4 or .zst, whatever the archive has. It must decompress, match its checksum, have the
    /// length of its segment, and hold on every page the WAL that its name tells, of the cluster that asks for it (by
    /// global/pg_control beside pg_wal). It is written beside PATH, synced, and renamed.
    #[command(
        name = crate::wal_restore::VERB,
        before_help = "Example: pgcalm wal-restore --archive /mnt/archive/wal %f %p",
        after_help = IN_POSTGRESQL_CONF,
    )]
    WalRestore(WalRestoreArgs),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Generate(GenerateArgs),
}

#[derive(Debug, Subcommand)]
pub enum IsolateVerb {
    /// List the instances: where their files lie, on which devices, in which control groups, under which limits.
    ///
    /// Instances are found by the postmaster.pid in the working directory of a process. Only root sees those of others.
    #[command(before_help = "Example: sudo pgcalm isolate show")]
    Show(IsolateShowArgs),
    /// Limit what an instance reads and writes on a disk, until clear or the next boot (needs root).
    ///
    /// Nothing is changed without --apply. Makes a control group inside the one that the instance is in, sets the limits and
    /// moves all its processes; what they fork is in it, too. Prints what makes the limits permanent. Set again to change
    /// them. Interrupted half-way, it puts everything back; killed, it leaves a note by which clear does.
    #[command(
        before_help = "Example: sudo pgcalm isolate set --instance 5433 --device /dev/sda --write-iops 500 --apply",
        mut_arg("instance", |arg| arg.required(true)),
    )]
    Set(IsolateSetArgs),
    /// Lift the limits: processes go back to the groups that they were in, the group is removed (needs root).
    ///
    /// Of all instances that isolate set has limited, unless one is named. Nothing is changed without --apply.
    #[command(before_help = "Example: sudo pgcalm isolate clear --instance 5433 --apply")]
    Clear(IsolateClearArgs),
    /// Name what is dangerous about how the instances share the host, with evidence and cure.
    #[command(before_help = "Example: sudo pgcalm isolate check --fail-on stall")]
    Check(IsolateCheckArgs),
}

#[derive(Debug, Args)]
pub struct IsolateShowArgs {
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Args)]
pub struct IsolateCheckArgs {
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub fail_on: FailOnArg,
}

#[derive(Debug, Args)]
pub struct IsolateSetArgs {
    #[command(flatten)]
    pub instance: InstanceArg,
    /// The disk, e.g. /dev/sda or /dev/mapper/vg-pg; the kernel takes no limits on partitions, so one stands for its disk.
    #[arg(long, value_name = "NODE")]
    pub device: PathBuf,
    #[command(flatten)]
    pub writes: WriteCaps,
    #[command(flatten)]
    pub reads: ReadCaps,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Hold the limits until this command is interrupted (Ctrl-C, SIGTERM, SIGHUP) or the instance ends, then lift them.
    #[arg(long, requires = "apply")]
    pub hold: bool,
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Args)]
pub struct IsolateClearArgs {
    #[command(flatten)]
    pub instance: InstanceArg,
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// List scenarios, contestants and profiles of volumes.
    #[command(before_help = "Example: pgcalm lab list")]
    List,
    /// Run a scenario (needs root).
    #[command(
        subcommand,
        before_help = "Example: sudo pgcalm lab run checkpoint --quick"
    )]
    Run(ScenarioArgs),
    /// A block device that behaves like a cloud's volume, until Ctrl-C (needs root).
    ///
    /// Operations and bytes per second that reads and writes share or have for themselves, operations counted as the
    /// provider counts them, a latency, a queue of limited depth: `pgcalm lab list` tells the profiles, docs/guides/lab-volume.md how
    /// well it does. Works beside a lab: it locks its directory only.
    #[command(before_help = "Example: sudo pgcalm lab volume --profile gp3 --size 20GB")]
    Volume(Box<VolumeArgs>),
    /// Start a server on capped devices to connect to with whatever one has, until Ctrl-C (needs root).
    ///
    /// The same devices, limits, memory and table as a run of scenario checkpoint has, stock or with the module. Prints how
    /// to connect, and shows what the devices do. `lab clean` takes down what a killed one has left.
    #[command(
        before_help = "Example: sudo pgcalm lab up --rows 4000000",
        mut_arg("contestants", |arg| arg.default_value("stock").value_name("NAME")),
    )]
    Up(Box<UpArgs>),
    /// Show the report of a run that --json wrote, or make HTML, a chart or Markdown of it.
    #[command(before_help = "Example: pgcalm lab report report.json --html report.html")]
    Report(ReportArgs),
    /// Read a cluster into the page cache, charged to a control group: a process of lab run.
    #[command(name = pgcalm_lab::warm::VERB, hide = true)]
    Warm(WarmArgs),
    /// Remove what a killed run has left: servers, caps, mounts, loop devices, sysctls, files (needs root).
    #[command(before_help = "Example: sudo pgcalm lab clean")]
    Clean(CleanArgs),
}

#[derive(Debug, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub options: contest::Options,
    /// Take TCP connections at this port of 127.0.0.1, beside those at the socket; nobody on this host is asked for a
    /// password.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

#[derive(Debug, Args)]
pub struct WarmArgs {
    /// As --warm of lab run.
    #[arg(long)]
    pub how: options::Warm,
    /// The file that lists the processes of the group.
    #[arg(long)]
    pub members: PathBuf,
    /// The cluster.
    pub data: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum ScenarioArgs {
    /// Upserts of random rows on an IOPS-capped data volume: do checkpoints and writeback stall them?
    ///
    /// Each contestant gets new file systems on the same two loop devices (direct I/O), a copy of the same loaded
    /// table, and the same load under the same caps. Caps hold from the start of the load to its end only. Sizes have
    /// PostgreSQL's units: kB, MB and GB are powers of 1024.
    #[command(
        before_help = "Example: sudo pgcalm lab run checkpoint --contestants stock,pg_calm --json report.json"
    )]
    Checkpoint(Box<CheckpointArgs>),
    /// Two instances, one capped and making databases: does the other hang in the journal, and which layout helps?
    ///
    /// For each layout: two new clusters; pgbench, connects and a process that makes and syncs files on the one, first
    /// with the other idle, then with sessions of the other making databases under its cap; and a look, ten times a
    /// second, at where processes are stuck in the kernel.
    #[command(before_help = "Example: sudo pgcalm lab run journal --quick")]
    Journal(Box<JournalArgs>),
    /// Many instances on one capped device, all checkpoints in lockstep: does any of them stand still?
    ///
    /// Each instance has a volume for data and one for WAL, both with caps; all volumes are parts of one loop device, with
    /// a cap that binds them together. Each contestant gets new copies of the same loaded cluster; a CHECKPOINT in all
    /// instances right before the load starts their clocks together.
    #[command(before_help = "Example: sudo pgcalm lab run tenants --instances 20")]
    Tenants(Box<TenantsArgs>),
    /// Crashes under load with pg_calm: is anything lost that was acknowledged, is anything corrupt?
    ///
    /// Each cycle: clients upsert rows and note what is acknowledged, checkpoints are asked for at random moments, the
    /// server is crashed after 1 to 8 s, recovers, and every row is compared with the notes; then pg_amcheck and
    /// pg_checksums. Works beside other labs: it changes no sysctls, and locks its directory only.
    #[command(before_help = "Example: sudo pgcalm lab run torture --cycles 20")]
    Torture(Box<TortureArgs>),
    /// A backlog of WAL is drained beside pgbench: how fast, at what cost, and does it survive a power cut?
    ///
    /// Each archiver gets new file systems on the same three loop devices (cluster, pg_wal, archive; direct I/O) and a copy
    /// of the same cluster with WAL that was never archived. It drains one part alone, one beside pgbench, both under the
    /// same caps, and a last one under strace; right after the last acknowledgement of that the archive's file system is
    /// shut down without flushing its log, mounted again, and compared. Only archivers that lost nothing are ranked.
    #[command(before_help = "Example: sudo pgcalm lab run archive --archivers cp-sync,pg_calm-2")]
    Archive(Box<ArchiveArgs>),
    /// A primary floods its standby with WAL over a slow link: how far does it fall behind, and does it come back?
    ///
    /// Each server has its own loop devices (direct I/O) and network namespace; between them is a link with a rate. In each
    /// case both begin as copies of a new cluster, a table of 201 columns is made, filled and dropped in a loop, and the
    /// standby is watched until it has replayed all WAL. `pgcalm lab list` tells the cases.
    #[command(before_help = "Example: sudo pgcalm lab run replica")]
    Replica(Box<ReplicaArgs>),
    /// Over a grid of tables, loads, caps and buffers: is what is predicted for pg_calm what it then does?
    ///
    /// At each point a new server is observed under load in shadow mode, as `pgcalm predict` does; then pg_calm is switched
    /// on, and what the device and the server do is measured. Points marked as held back have not shaped the model.
    #[command(before_help = "Example: sudo pgcalm lab run predict --quick")]
    Predict(Box<PredictGridArgs>),
    /// Many runs, described in a file, and one matrix of their results: who wins where, losses first.
    ///
    /// Each result is written when its row has ended; called again after an interruption, the suite goes on where it was. A
    /// row that fails is told, and the others are run.
    #[command(
        before_help = "Example: sudo pgcalm lab run suite bench/suites/clouds.toml --part 8GB-gp3"
    )]
    Suite(Box<SuiteArgs>),
}

/// Options that have a default are absent here unless given.
#[derive(Debug, Args)]
pub struct ArchiveArgs {
    /// Who takes part, separated by commas; `pgcalm lab list` tells who there is [default:
    /// cp-sync,basic_archive,pg_calm-2].
    #[arg(long, value_name = "LIST", value_parser = archivers)]
    pub archivers: Option<Archivers>,
    /// WAL files of a drain [default: 64].
    #[arg(long, value_name = "N", value_parser = count)]
    pub files: Option<u32>,
    /// Empty WAL files, so that there is only acknowledging to do; for archivers that copy nothing.
    #[arg(long)]
    pub empty: bool,
    /// Size of a WAL file, 1MB to 1GB [default: 16MB].
    #[arg(long, value_name = "SIZE")]
    pub segment_size: Option<Size>,
    /// Write operations per second that the device of pg_wal takes, or none [default: 800].
    #[arg(long, value_name = "N|none")]
    pub wal_iops: Option<Limit<u32>>,
    /// Bytes per second that the device of pg_wal takes, or none [default: 125MB].
    #[arg(long, value_name = "SIZE|none")]
    pub wal_bps: Option<Limit<Size>>,
    /// Write operations per second that the device of the archive takes, or none [default: 800].
    #[arg(long, value_name = "N|none")]
    pub archive_iops: Option<Limit<u32>>,
    /// Bytes per second that the device of the archive takes, or none [default: 125MB].
    #[arg(long, value_name = "SIZE|none")]
    pub archive_bps: Option<Limit<Size>>,
    /// File system of all devices [default: ext4].
    #[arg(long, value_name = "FS")]
    pub fs: Option<FsArg>,
    /// Connections of pgbench [default: 4].
    #[arg(long, value_name = "N", value_parser = count)]
    pub clients: Option<u32>,
    /// Seconds of pgbench from the start of the drain beside it, or none for no such drain [default: 20].
    #[arg(long, value_name = "S|none")]
    pub seconds: Option<Limit<Seconds>>,
    /// Runs of each archiver, in turn; figures are medians [default: 1].
    #[arg(long, value_name = "N", value_parser = count)]
    pub repeat: Option<u32>,
    #[command(flatten)]
    pub servers: LabServerArgs,
    /// Directory where pg_calm was built [default: the installed one].
    #[arg(long, value_name = "DIR")]
    pub module_dir: Option<PathBuf>,
    /// The shared library of the archive module that copies nothing, for noop and noop-pg_calm; bench/noop_archive.
    #[arg(long, value_name = "FILE")]
    pub noop_module: Option<PathBuf>,
    /// Directory for devices, backlogs and logs; needs room for them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub report: ReportFiles,
    /// Keep server logs in pgcalm-kept of --dir; `lab clean` removes them.
    #[arg(long)]
    pub keep: bool,
}

/// Archivers, of whom clap needs a type of their own.
#[derive(Debug, Clone)]
pub struct Archivers(pub Vec<&'static Archiver>);

#[derive(Debug, Args)]
pub struct WalRestoreArgs {
    /// Directory of the archive, as in pg_calm.archive_directory.
    #[arg(long, value_name = "DIR")]
    pub archive: PathBuf,
    /// Name of the file: %f.
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Where it is to appear: %p.
    #[arg(value_name = "PATH")]
    pub target: PathBuf,
}

/// Options that have a default are absent here unless given.
#[derive(Debug, Args)]
pub struct TenantsArgs {
    /// Servers [default: 20].
    #[arg(long, value_name = "N", value_parser = count)]
    pub instances: Option<u32>,
    /// Rows of the table of each, about 125 bytes each with its index [default: 300000].
    #[arg(long, value_name = "N", value_parser = rows)]
    pub rows: Option<u64>,
    /// shared_buffers of each [default: 8MB].
    #[arg(long, value_name = "SIZE")]
    pub shared_buffers: Option<Size>,
    /// Connections to each [default: 4].
    #[arg(long, value_name = "N", value_parser = count)]
    pub clients: Option<u32>,
    /// Transactions per second that are begun on each, at random intervals [default: 15].
    #[arg(long, value_name = "N", value_parser = count)]
    pub rate: Option<u32>,
    /// Write operations per second that a data volume takes, or none [default: 800].
    #[arg(long, value_name = "N|none")]
    pub data_iops: Option<Limit<u32>>,
    /// Bytes per second that a data volume takes, or none [default: 125MB].
    #[arg(long, value_name = "SIZE|none")]
    pub data_bps: Option<Limit<Size>>,
    /// Write operations per second that a WAL volume takes, or none [default: 4000].
    #[arg(long, value_name = "N|none")]
    pub wal_iops: Option<Limit<u32>>,
    /// Write operations per second that the device below all volumes takes, or none [default: 1000].
    #[arg(long, value_name = "N|none")]
    pub device_iops: Option<Limit<u32>>,
    /// Bytes per second that it takes, or none [default: 125MB].
    #[arg(long, value_name = "SIZE|none")]
    pub device_bps: Option<Limit<Size>>,
    /// Duration of each run [default: 120].
    #[arg(long, value_name = "S")]
    pub seconds: Option<Seconds>,
    /// checkpoint_timeout, at least 30 [default: 60].
    #[arg(long, value_name = "S")]
    pub checkpoint_timeout: Option<Seconds>,
    /// Writeback sysctls during the runs: default is the kernel's, default:SIZE what its ratios come to on a host with
    /// SIZE of memory (small: 4 GB), roomy gives dirty pages room and time, early has the flusher look each second for more than 102
    /// MB; former values come back [default: default].
    #[arg(long, value_name = "PROFILE")]
    pub sysctl: Option<SysctlProfile>,
    /// Options that the volumes' file systems (ext4) are mounted with, beside noatime: e.g. nodelalloc,data=writeback or barrier=0.
    #[arg(long, value_name = "LIST")]
    pub mount_options: Option<MountOptions>,
    /// Who takes part, separated by commas: stock, pg_calm (each instance by itself), pg_calm-arbiter (they share the
    /// device's budget) [default: all three].
    #[arg(long, value_name = "LIST", value_parser = tenants_contestants)]
    pub contestants: Option<Contestants>,
    #[command(flatten)]
    pub servers: LabServerArgs,
    /// A server setting for one contestant; may be repeated.
    #[arg(long, value_name = "CONTESTANT:NAME=VALUE")]
    pub set_contestant: Vec<ContestantSetting>,
    /// Directory for devices, the loaded table and logs; needs room for all of them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub report: ReportFiles,
    /// Keep server logs and pgbench's transaction logs, in pgcalm-kept of --dir; `lab clean` removes them.
    #[arg(long)]
    pub keep: bool,
}

/// Options that have a default are absent here unless given.
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// Crashes [default: 20].
    #[arg(long, value_name = "N", value_parser = count)]
    pub cycles: Option<u32>,
    /// File system of the cluster, or both in turn [default: both].
    #[arg(long, value_name = "FS")]
    pub fs: Option<TortureFsArg>,
    /// kill: SIGKILL to all processes of the server, the page cache survives; shutdown: the file system is shut down
    /// without flushing its log, then the same, and the page cache is lost; or both in turn [default: both].
    #[arg(long, value_name = "HOW")]
    pub crash: Option<CrashArg>,
    /// Rows of the table; half of them are there at the start [default: 300000].
    #[arg(long, value_name = "N", value_parser = count)]
    pub rows: Option<u32>,
    /// Connections that write [default: 4].
    #[arg(long, value_name = "N", value_parser = count)]
    pub clients: Option<u32>,
    /// Longest time under load before a crash; the shortest is 1 s [default: 8].
    #[arg(long, value_name = "S")]
    pub seconds: Option<Seconds>,
    /// Write operations per second that the device takes until the crash, or none; so that much is unflushed then. Where
    /// caps are not in the root group of cgroup v1, there is none [default: 1000].
    #[arg(long, value_name = "N|none")]
    pub iops: Option<Limit<u32>>,
    /// Size of the device of each file system [default: 2GB].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    #[command(flatten)]
    pub servers: LabServerArgs,
    /// Seed of all random choices; the report tells which it was [default: a random one].
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
    /// Crash two servers as well that don't sync as they should, one with fsync=off, one whose checkpointer's fsync of the
    /// table does nothing (by strace); it fails unless the losses are detected.
    #[arg(long)]
    pub control: bool,
    /// Directory where pg_calm was built [default: the installed one].
    #[arg(long, value_name = "DIR")]
    pub module_dir: Option<PathBuf>,
    /// Directory for devices and logs; needs room for them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_TORTURE_DIR)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub json: JsonArg,
    /// Keep server logs, and the cluster of a cycle that failed, in pgcalm-torture-kept of --dir; `lab clean` removes
    /// them.
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub struct CheckpointArgs {
    #[command(flatten)]
    pub options: contest::Options,
    #[command(flatten)]
    pub report: ReportFiles,
}

/// Options that have a default in both forms are absent here unless given.
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// The quick form: measures 8 s of each phase after 6 s, scale 10; other options still hold.
    #[arg(long)]
    pub quick: bool,
    /// What is run, separated by commas [default: ext4-nodelalloc,ext4-ordered,ext4-writeback,ext4-separate,xfs,
    /// xfs-logdev].
    #[arg(long, value_name = "LIST", value_parser = layouts)]
    pub layouts: Option<Layouts>,
    /// Time that is measured of each of the two phases [default: 12].
    #[arg(long, value_name = "S")]
    pub seconds: Option<Seconds>,
    /// Time under load, and noise, before that [default: 8].
    #[arg(long, value_name = "S")]
    pub lead: Option<Seconds>,
    /// Write operations per second of the neighbour [default: 100].
    #[arg(long, value_name = "N", value_parser = count)]
    pub write_iops: Option<u32>,
    /// Sessions of the neighbour, each of which makes one database after another [default: 16].
    #[arg(long, value_name = "N", value_parser = count)]
    pub sessions: Option<u32>,
    /// Connections of the victim's pgbench [default: 4].
    #[arg(long, value_name = "N", value_parser = count)]
    pub clients: Option<u32>,
    /// Scale of its tables. Each page costs its full size of WAL when first written, so that the victim needs new WAL
    /// segments [default: 20].
    #[arg(long, value_name = "N", value_parser = count)]
    pub scale: Option<u32>,
    /// Size of the device that both are on, and of the neighbour's own; the size of the journal follows it
    /// [default: 2GB].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    #[command(flatten)]
    pub servers: LabServerArgs,
    /// Directory for devices and logs; needs room for them, on ext4 or XFS.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub report: ReportFiles,
}

#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Directory of the lab [default: those of all scenarios].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Remove the loaded tables, too, which later runs would use again.
    #[arg(long)]
    pub templates: bool,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The report.
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,
    /// Write it as one HTML file instead of showing the table.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the chart of transactions per second as an SVG file instead.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    pub svg: Option<PathBuf>,
    /// Print each second of each run instead, as a line of values with tabs between, under a line of their names.
    #[arg(long, conflicts_with_all = ["html", "svg"])]
    pub seconds: bool,
    /// Write the rows of a suite as sections of a Markdown file instead; it keeps its sections of rows without a result.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "svg", "seconds"])]
    pub markdown: Option<PathBuf>,
}

/// clap takes a `Vec` for an option that may be repeated.
#[derive(Debug, Clone)]
pub struct Contestants(pub Vec<&'static Contestant>);

/// Likewise.
#[derive(Debug, Clone)]
pub struct Layouts(pub Vec<&'static Layout>);

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FsArg {
    Ext4,
    Xfs,
}

impl From<FsArg> for options::FsType {
    fn from(arg: FsArg) -> Self {
        match arg {
            FsArg::Ext4 => Self::Ext4,
            FsArg::Xfs => Self::Xfs,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TortureFsArg {
    Ext4,
    Xfs,
    Both,
}

impl TortureFsArg {
    pub fn list(self) -> Vec<options::FsType> {
        match self {
            Self::Ext4 => vec![options::FsType::Ext4],
            Self::Xfs => vec![options::FsType::Xfs],
            Self::Both => vec![options::FsType::Ext4, options::FsType::Xfs],
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum CrashArg {
    Kill,
    Shutdown,
    Both,
}

impl CrashArg {
    pub fn list(self) -> Vec<Crash> {
        match self {
            Self::Kill => vec![Crash::Kill],
            Self::Shutdown => vec![Crash::Shutdown],
            Self::Both => vec![Crash::Shutdown, Crash::Kill],
        }
    }
}

fn rows(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "give a whole number of rows such as 4000000".to_string())
}

fn count(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "give a whole number such as 4".to_string())
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "give a whole number such as 42".to_string())
}

fn layouts(text: &str) -> Result<Layouts, String> {
    interference::parse_list(text).map(Layouts)
}

fn tenants_contestants(text: &str) -> Result<Contestants, String> {
    tenants::parse_list(text).map(Contestants)
}

fn archivers(text: &str) -> Result<Archivers, String> {
    archiver::parse_list(text).map(Archivers)
}
