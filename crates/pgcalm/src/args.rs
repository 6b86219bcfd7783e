pub(crate) mod caps;
pub(crate) mod change;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fail_on;
pub(crate) mod generate;
pub(crate) mod json;
pub(crate) mod lag;
pub(crate) mod predict;
pub(crate) mod ready_to_stop;
pub(crate) mod record;
pub(crate) mod report_files;
pub(crate) mod server;
pub(crate) mod suite;
pub(crate) mod targets;
pub(crate) mod time;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod volume;
pub(crate) mod warm;

use std::path::PathBuf;

use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use pgcalm_host::quantity::{PORT, number};
use pgcalm_lab::chosen::Chosen;
use pgcalm_lab::{contest, options};

use crate::args::caps::{ReadCaps, WriteCaps};
use crate::args::change::ChangeArgs;
use crate::args::doctor::DoctorArgs;
use crate::args::export::ExportArgs;
use crate::args::fail_on::FailOnArg;
use crate::args::generate::GenerateArgs;
use crate::args::json::JsonArg;
use crate::args::lag::LagArgs;
use crate::args::predict::PredictArgs;
use crate::args::ready_to_stop::ReadyToStopArgs;
use crate::args::record::{IncidentArgs, IncidentsArgs, RecordArgs};
use crate::args::report_files::ReportFiles;
use crate::args::server::InstanceArg;
use crate::args::suite::SuiteArgs;
use crate::args::targets::TargetsArgs;
use crate::args::top::TopArgs;
use crate::args::trace::TraceVerb;
use crate::args::volume::VolumeArgs;
use crate::args::warm::WarmArgs;
use crate::{exit, lab};

/// The verb whose exit code the server reads.
pub(crate) const WAL_RESTORE: &str = "wal-restore";

const IN_POSTGRESQL_CONF: &str = "\
In postgresql.conf:
  restore_command = 'pgcalm wal-restore --archive /mnt/archive/wal %f %p'";

/// Reproduces, measures and traces I/O stalls of PostgreSQL on capped volumes, and keeps instances on one host apart.
///
/// Without a command it says in three sentences whether a server of this host stalls now, what stalled in the last day, and what
/// to do first. Root sees most.
///
/// Where a text names docs/..., that is in the source tree, and with the Debian package in /usr/share/doc/pgcalm.
#[derive(Debug, Parser)]
#[command(name = "pgcalm", version, before_help = "Example: pgcalm doctor")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

impl Cli {
    /// Reads the command line of this process.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&command().try_get_matches()?)
    }
}

/// The verbs, each with its exit codes in its help.
pub(crate) fn command() -> Command {
    taking_negatives(with_exit_codes(Cli::command()))
}

/// What quantities are called in the help.
pub(crate) const QUANTITIES: [&str; 9] = ["N", "N|none", "N|seen", "S", "S|none", "SIZE", "SIZE|none", "TIME", "PORT"];

/// So that "-1" is a quantity that is refused, with what to give, and no unknown option.
fn taking_negatives(command: Command) -> Command {
    let is_quantity = |arg: &Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        names.iter().any(|name| QUANTITIES.contains(&name.as_str()))
    };
    command
        .mut_args(|arg| if is_quantity(&arg) { arg.allow_hyphen_values(true) } else { arg })
        .mut_subcommands(taking_negatives)
}

fn with_exit_codes(command: Command) -> Command {
    let codes = match command.get_name() {
        WAL_RESTORE => exit::restore_help(),
        _ => exit::help(),
    };
    let text = match command.get_after_help() {
        Some(own) => format!("{own}\n\n{codes}"),
        None => codes,
    };
    command.after_help(text).mut_subcommands(with_exit_codes)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run PostgreSQL under load on devices with caps, and measure.
    #[command(subcommand, before_help = "Example: sudo pgcalm lab run checkpoint --quick")]
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
    /// Watch the instances of this host: checkpoints, unflushed pages, disks against caps, waits, archive, lag, guard.
    ///
    /// A live picture in the terminal that looks back up to an hour. Works with any server: without pg_calm, and without
    /// root, it says what is missing and why. Nothing is written, on the host or in a server.
    #[command(after_help = top::AFTER_HELP, before_help = "Example: pgcalm top")]
    Top(TopArgs),
    /// Trace a running PostgreSQL with eBPF: no module, no restart, no debug symbols (needs root).
    #[command(subcommand, before_help = "Example: sudo pgcalm trace why --duration 60")]
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
    /// Record each second of all instances of this host, and what stalled them: a flight recorder, always on.
    ///
    /// Into one SQLite file, docs/guides/record.md. Root sees most: what is missing is told at the start. Samples wait in memory
    /// while the disk of the record takes none. Ends with SIGTERM. Nothing is written in a server.
    #[command(before_help = "Example: sudo pgcalm record --dir /mnt/other-disk/pgcalm --keep 7d --max-size 1GB")]
    Record(RecordArgs),
    /// List the stalls that pgcalm record has seen.
    #[command(before_help = "Example: pgcalm incidents --since yesterday")]
    Incidents(IncidentsArgs),
    /// Explain a stall: what, from when to when, whom it held, why, the proof, the cure.
    #[command(before_help = "Example: pgcalm incident 7 --html stall.html")]
    Incident(IncidentArgs),
    /// Look at a running server and say what pg_calm would gain there, or why it would not help.
    ///
    /// The module in shadow mode counts what it would write; without it, it is only told what stock takes of the caps. On the
    /// server's host, as root or as the server's user, what the device does is seen, too. Changes nothing.
    #[command(before_help = "Example: sudo pgcalm predict --iops 3000 --bandwidth 125MB")]
    Predict(PredictArgs),
    /// Have written ahead what a stop would have to write, by spread checkpoints, until a fast stop would be short.
    ///
    /// For preStop hooks, systemctl and switchovers: docs/operate/stop-start.md. The load feels no more than of checkpoints by time.
    /// Dirty buffers are counted by pg_calm or pg_buffercache. Needs EXECUTE on pg_backup_start, or pg_checkpoint since 19.
    #[command(before_help = "Example: pgcalm ready-to-stop --within 10s --timeout 5min")]
    ReadyToStop(ReadyToStopArgs),
    /// Say what pg_calm.stop_target and pg_calm.recovery_target would cost: five values of each, by what the last WAL tells.
    ///
    /// With pg_calm or without. Reads WAL with the server's own pg_waldump, as the server's user, on its host; asks the server
    /// for no more than settings and views. Best after at least a checkpoint interval of the load that it is about.
    #[command(before_help = "Example: sudo pgcalm targets --iops 3000 --bandwidth 125MB")]
    Targets(TargetsArgs),
    /// Keep what a server has cached, and read it again after a restart, a failover or on a new standby.
    ///
    /// --save asks the kernel which blocks of tables and indexes are in the page cache and, by the extension pg_buffercache, the
    /// server which are in shared buffers. --restore reads the hottest first, beside what else the disk does, until all is
    /// cached or memory that is not in use is full. Needs no root: run it as the server's user, on its host.
    #[command(before_help = "Example: pgcalm warm --save")]
    Warm(WarmArgs),
    /// Restore a WAL file from an archive, checked: for restore_command.
    ///
    /// Takes the file as it is, .zst, .lz4 or .gz, whatever the archive has. It must decompress, match its checksum, have the
    /// length of its segment, and hold on every page the WAL that its name tells, of the cluster that asks for it (by
    /// global/pg_control beside pg_wal). It is written beside PATH, synced, and renamed; only a file is replaced. What is in
    /// the archive under another name that begins with FILE stops recovery.
    #[command(
        name = WAL_RESTORE,
        before_help = "Example: pgcalm wal-restore --archive /mnt/archive/wal %f %p",
        after_help = IN_POSTGRESQL_CONF,
    )]
    WalRestore(WalRestoreArgs),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Generate(GenerateArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum IsolateVerb {
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
pub(crate) struct IsolateShowArgs {
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Args)]
pub(crate) struct IsolateCheckArgs {
    #[command(flatten)]
    pub json: JsonArg,
    #[command(flatten)]
    pub fail_on: FailOnArg,
}

#[derive(Debug, Args)]
pub(crate) struct IsolateSetArgs {
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
pub(crate) struct IsolateClearArgs {
    #[command(flatten)]
    pub instance: InstanceArg,
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// List scenarios, contestants and profiles of volumes.
    #[command(before_help = "Example: pgcalm lab list")]
    List,
    /// Run a scenario (needs root).
    #[command(subcommand, before_help = "Example: sudo pgcalm lab run checkpoint --quick")]
    Run(ScenarioArgs),
    /// A block device that behaves like a cloud's volume, until Ctrl-C (needs root).
    ///
    /// Operations and bytes per second that reads and writes share or have for themselves, operations counted as the
    /// provider counts them, a latency, a queue of limited depth: `pgcalm lab list` tells the profiles, docs/guides/lab.md how
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
    Warm(LabWarmArgs),
    /// Write, sync or read beside a server until killed: a process of lab run.
    #[command(name = pgcalm_lab::trouble::neighbour::VERB, hide = true)]
    Neighbour(NeighbourArgs),
    /// Remove what a killed run has left: servers, caps, mounts, loop devices, sysctls, files (needs root).
    #[command(before_help = "Example: sudo pgcalm lab clean")]
    Clean(CleanArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub options: contest::Options,
    /// Take TCP connections at this port of 127.0.0.1, beside those at the socket; nobody on this host is asked for a
    /// password.
    #[arg(long, value_name = "PORT", value_parser = |text: &str| number::<u16>(PORT, text))]
    pub port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct LabWarmArgs {
    /// As --warm of lab run.
    #[arg(long)]
    pub how: options::Warm,
    /// The file that lists the processes of the group.
    #[arg(long)]
    pub members: PathBuf,
    /// The cluster.
    pub data: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct NeighbourArgs {
    /// What it does.
    #[arg(long)]
    pub how: pgcalm_lab::trouble::neighbour::How,
    /// On which file.
    pub file: PathBuf,
}

/// A scenario's own options, and where its report goes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs<O: Args> {
    #[command(flatten)]
    pub options: O,
    #[command(flatten)]
    pub report: ReportFiles,
}

macro_rules! scenario_args {
    ($($scenario:ident($module:ident),)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum ScenarioArgs {
            $(
                #[command(
                    name = pgcalm_lab::$module::HELP.name,
                    about = pgcalm_lab::$module::HELP.about(),
                    long_about = pgcalm_lab::$module::HELP.text,
                    before_help = pgcalm_lab::$module::HELP.example
                )]
                $scenario(Box<RunArgs<pgcalm_lab::$module::Options>>),
            )*
            /// Many runs, described in a file, and one matrix of their results: who wins where, losses first.
            ///
            /// Each result is written when its row has ended; called again after an interruption, the suite goes on where it was. A
            /// row that fails is told, and the others are run.
            #[command(before_help = "Example: sudo pgcalm lab run suite bench/suites/arena.toml --part gp3-tables")]
            Suite(Box<SuiteArgs>),
        }

        impl ScenarioArgs {
            /// The scenario with its options, and where its report is to go; none of a suite.
            pub(crate) fn chosen(self) -> Option<(Chosen, ReportFiles)> {
                match self {
                    $(Self::$scenario(args) => Some((Chosen::$scenario(Box::new(args.options)), args.report)),)*
                    Self::Suite(_) => None,
                }
            }

            /// Runs it.
            pub(crate) fn run(self) -> anyhow::Result<()> {
                match self {
                    $(Self::$scenario(args) => lab::run_one(*args, pgcalm_lab::$module::run),)*
                    Self::Suite(args) => crate::suite::run(&args),
                }
            }
        }
    };
}

pgcalm_lab::scenarios!(scenario_args);

#[derive(Debug, Args)]
pub(crate) struct WalRestoreArgs {
    /// Directory of the archive, as in pg_calm_archive.directory.
    #[arg(long, value_name = "DIR")]
    pub archive: PathBuf,
    /// Name of the file: %f.
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Where it is to appear: %p.
    #[arg(value_name = "PATH", required_unless_present = "check")]
    pub target: Option<PathBuf>,
    /// Only read, decompress and check the file; nothing is written. With PATH it must be of the cluster that %p lies in.
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Directory of the lab [default: those of all scenarios].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Remove the loaded tables, too, which later runs would use again.
    #[arg(long)]
    pub templates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The report.
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,
    /// Write it as one HTML file instead of showing the table.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the chart of transactions per second as an SVG file instead; of a suite, means and worst seconds of all rows.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    pub svg: Option<PathBuf>,
    /// Print each second of each run instead, as a line of values with tabs between, under a line of their names.
    #[arg(long, conflicts_with_all = ["html", "svg"])]
    pub seconds: bool,
    /// Write it as Markdown instead. Of a suite each row is a section, and a file that is there keeps those of rows without a
    /// result.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "svg", "seconds"])]
    pub markdown: Option<PathBuf>,
    /// Print the tables alone instead, with tabs between the cells, for awk and spreadsheets.
    #[arg(long, conflicts_with_all = ["html", "svg", "seconds", "markdown"])]
    pub tables: bool,
}
