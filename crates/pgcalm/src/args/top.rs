//! Arguments of `pgcalm top`.

use std::time::Duration;

use clap::Args;

/// How the manual and `--help` go on after the options.
pub const AFTER_HELP: &str = "\
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
  PGHOST, ...       what --connect leaves out, as with psql: docs/guides/connecting.md

Exit codes:
  0    quit, or the picture was printed
  1    the terminal or /proc failed
  2    bad option or value, no such instance, or no terminal without --once
  130  ended by SIGINT, SIGTERM or SIGHUP; the terminal is as it was";

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print one picture as text to standard output, and end.
    ///
    /// Everything that the overview can have for the chosen instance, however long, then all that is missing with the
    /// reason and the remedy. Takes two samples, since rates need two; a server that doesn't answer is waited for up to
    /// ten seconds longer. Plain text: no colours, no control characters.
    #[arg(long)]
    pub once: bool,
    /// Seconds from one sample to the next, 0.2 to 60.
    ///
    /// Each sample asks each server a few queries on a connection of its own that stays open. Time travel reaches back
    /// an hour with any interval.
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// The instance that is chosen first: its name in the list, port, process id of its postmaster, or data directory
    /// [default: the first of the list].
    #[arg(long, value_name = "INSTANCE")]
    pub instance: Option<String>,
    /// A connection string of libpq's, e.g. "host=db1 user=monitor dbname=postgres"; may be repeated [default: all
    /// instances of this host, those that are started later, too].
    ///
    /// Of a server on another host there are no devices and no dirty memory. A role that is a member of pg_monitor sees
    /// everything; others see what is theirs, and the page of what is missing tells the rest. PG* variables, ~/.pgpass and
    /// pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: Vec<String>,
}

/// Seconds with a fraction, so many that a server has time for other things, and so few that the picture is live.
fn interval(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(seconds) if (0.2..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give seconds from 0.2 to 60, e.g. 0.5".to_string()),
    }
}
