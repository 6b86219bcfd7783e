//! Arguments of `pgcalm top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pgcalm_record::store::DIRECTORY;

use super::server::{ConnectList, InstanceArg};
use super::time;

/// How the manual and `--help` go on after the options.
pub(crate) const AFTER_HELP: &str = "\
Keys:
  ?                 all keys, and what the picture's signs mean
  Up Down           previous, next instance
  Tab, 1 2 3        overview, charts, all that is missing with reasons and remedies
  Space             pause, go on live
  Left Right, [ ]   a sample, a minute back and on, within the last hour
  Home End          oldest sample, live
  + -               curves of less, more time
  q, Ctrl-C         quit

Environment:
  NO_COLOR          if not empty: bold and reverse video only
  COLUMNS           width of --once where standard output is not a terminal [default: 100]
  PGHOST, ...       what --connect leaves out, as with psql: docs/operate/integrations.md";

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print one picture as text to standard output, and end.
    ///
    /// Everything that the overview can have for the chosen instance, however long, then all that is missing with the
    /// reason and the remedy. Takes two samples, since rates need two; a server that doesn't answer is waited for up to
    /// ten seconds longer. Plain text: no colours, no control characters.
    #[arg(long)]
    pub once: bool,
    /// Time between samples, 0.1 s to 1 h.
    ///
    /// Each sample asks each server a few queries on a connection of its own that stays open. Time travel reaches back
    /// an hour with any interval.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time::interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub instance: InstanceArg,
    #[command(flatten)]
    pub servers: ConnectList,
    /// Show the record of this time, half an hour around it, e.g. 03:12, "yesterday 03:12" or "2 hours ago".
    #[arg(long, value_name = "WHEN", conflicts_with = "connect")]
    pub at: Option<String>,
    /// The record: a directory of pgcalm record, or a file that its --export wrote. Without --at its last hour is shown.
    #[arg(
        long,
        visible_alias = "dir",
        value_name = "FILE",
        conflicts_with = "connect",
        default_value_if("at", clap::builder::ArgPredicate::IsPresent, DIRECTORY)
    )]
    pub replay: Option<PathBuf>,
}
