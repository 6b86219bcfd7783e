use std::io;

use pgcalm_top::run;
use pgcalm_top::run::Options;
use pgcalm_trace::stop::Stop;

use crate::args::top::TopArgs;
use crate::output;

/// Columns of `--once` where nothing else is known: a line of a report.
const DEFAULT_WIDTH: u16 = 100;

/// Shows live pictures, or prints one.
pub fn run(args: TopArgs) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    let options = Options {
        monitor: pgcalm_monitor::Options {
            connect: args.servers.connect,
            interval: args.interval,
            ..pgcalm_monitor::Options::default()
        },
        instance: args.instance.instance,
    };
    if args.once {
        let once = run::once(options, width().into(), &|| stop.is_set())?;
        output::print(&once.text)?;
        return match once.unanswered {
            Some(error) => Err(error.into()),
            None => Ok(()),
        };
    }
    run::live(options, &|| stop.is_set())
}

/// Of the terminal, of `$COLUMNS`, or the default.
fn width() -> u16 {
    let terminal =
        rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    let variable = || {
        let columns = std::env::var("COLUMNS").ok()?;
        columns.parse().ok().filter(|columns| *columns > 0)
    };
    terminal.or_else(variable).unwrap_or(DEFAULT_WIDTH)
}
