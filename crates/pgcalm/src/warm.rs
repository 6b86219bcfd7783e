use std::io::IsTerminal;
use std::time::{Duration, Instant};

use pgcalm_host::stop::Stop;
use pgcalm_host::{Failure, HostRoot};
use pgcalm_record::when;
use pgcalm_warm::cluster::Cluster;
use pgcalm_warm::pace::Caps;
use pgcalm_warm::report::{End, Report, view};
use pgcalm_warm::restore::Options;
use pgcalm_warm::{rest, restore, save};

use crate::args::warm::WarmArgs;
use crate::output;

/// Between two lines about how far it is, to somebody who watches and to a log.
const LIVE: Duration = Duration::from_secs(1);
const LOGGED: Duration = Duration::from_secs(10);

/// Keeps what is cached, or reads it again.
pub(crate) fn run(args: &WarmArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    let stop = Stop::install()?;
    let root = HostRoot::default();
    let mut cluster = Cluster::find(&root, args.data_directory.as_deref(), args.server.wanted())?;
    let file = args.file.clone().unwrap_or_else(|| cluster.default_file());
    // A list of another name is for who names it to replace.
    let is_own = args.file.is_none();
    if args.save {
        let age = if is_own { cluster.age() } else { None };
        if let Some(why) = age.and_then(|age| save::stays(age, &file)) {
            output::say(&format!("pgcalm warm: {why}"));
            return Ok(());
        }
        let saving = save::save(cluster, &file, &|| stop.is_set())?;
        let error = saving.read_error.clone();
        show(args, &Report::Saving(saving))?;
        return ended(error);
    }
    let options = Options {
        limit: args.limit.map(pgcalm_lab::Size::bytes),
        rate: args.rate.map(pgcalm_lab::Size::bytes),
        caps: Caps {
            operations: args.caps.iops.map(f64::from),
            bytes: args.caps.bandwidth.map(|size| size.bytes() as f64),
        }
        .or(cluster.caps()),
    };
    let every = if std::io::stderr().is_terminal() { LIVE } else { LOGGED };
    let mut told = Instant::now();
    let mut tell = |restoring: &_| {
        if told.elapsed() >= every {
            told = Instant::now();
            output::say(&format!("pgcalm warm: {}", view::progress(restoring)));
        }
    };
    let Cluster { data, system_identifier, .. } = cluster;
    if is_own {
        rest::keep(&file);
    }
    let restoring = restore::restore(&root, &data, system_identifier, &file, &options, &|| stop.is_set(), &mut tell)?;
    if is_own && restoring.cold_bytes() == 0 {
        rest::drop(&file);
    }
    let (end, error) = (restoring.end, restoring.read_error.clone());
    show(args, &Report::Restoring(restoring))?;
    match end {
        End::Interrupted => Err(Failure::Interrupted("what was read stays in the page cache").into()),
        _ => ended(error),
    }
}

/// What could not be read is a failed file operation (exit code 1), though all else was.
fn ended(error: Option<String>) -> anyhow::Result<()> {
    error.map_or(Ok(()), |error| Err(anyhow::Error::msg(error)))
}

fn show(args: &WarmArgs, report: &Report) -> anyhow::Result<()> {
    let time_ms = match report {
        Report::Saving(saving) => saving.time_ms,
        Report::Restoring(restoring) => restoring.saved_ms,
    };
    let document = view::document(report, &when::text(time_ms));
    output::present(&args.json, report, &document.text())
}
