use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pgcalm_host::Failure;
use pgcalm_monitor::model::Host;
use pgcalm_monitor::{History, HistoryLimits};
use pgcalm_record::store::COARSE_S;
use pgcalm_record::when;
use pgcalm_top::run;
use pgcalm_top::run::{Options, Record};
use pgcalm_trace::stop::Stop;

use crate::args::top::TopArgs;
use crate::{output, record};

/// Columns of `--once` where nothing else is known: a line of a report.
const DEFAULT_WIDTH: u16 = 100;

/// So much of a record is shown before and after the moment that was asked for: curves reach back an hour.
const AROUND_MS: u64 = 1_800_000;

/// What is shown instead of a moment without a sample is told if it is farther away: a time of day names a minute.
const MINUTE_MS: u64 = 60_000;

/// Memory for the samples of a record.
const RECORD_BYTES: usize = 64 << 20;

/// Shows live pictures, or prints one.
pub(crate) fn run(args: TopArgs) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    let options = Options {
        monitor: pgcalm_monitor::Options {
            connect: args.servers.connect,
            interval: args.interval,
            ..pgcalm_monitor::Options::default()
        },
        instance: args.instance.instance,
        record: match &args.replay {
            Some(file) => Some(Arc::new(recorded(file, args.at.as_deref(), RECORD_BYTES)?)),
            None => None,
        },
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
    let variable = || {
        let columns = std::env::var("COLUMNS").ok()?;
        columns.parse().ok().filter(|columns| *columns > 0)
    };
    output::columns().or_else(variable).unwrap_or(DEFAULT_WIDTH)
}

/// The samples of a record around a moment, or its last hour, in so much memory.
fn recorded(file: &Path, at: Option<&str>, bytes: usize) -> anyhow::Result<Record> {
    let at_ms = at.map(|text| when::parse("--at", text, &when::now())).transpose()?;
    let reader = record::open(file)?;
    let range = reader.range()?;
    let nothing = |what: &str| Failure::Usage(format!("{}: {what}", reader.path().display()));
    let Some((first, last)) = range else { return Err(nothing("holds no sample yet").into()) };
    let (from, to) = match at_ms {
        Some(at) => (at.saturating_sub(AROUND_MS), at + AROUND_MS),
        None => (last.saturating_sub(2 * AROUND_MS), last),
    };
    let samples = History::new(HistoryLimits { span: Duration::from_millis(2 * AROUND_MS), bytes });
    let mut problem = Ok(());
    let mut nearest: Option<u64> = None;
    let take = |host: Host| {
        // What comes later would take the place of what was asked for.
        let is_full = samples.bytes() > bytes / 16 * 15;
        if is_full && at_ms.is_some_and(|at| host.time_ms > at) {
            return;
        }
        if let Some(at) = at_ms
            && nearest.is_none_or(|nearest| host.time_ms.abs_diff(at) < nearest.abs_diff(at))
        {
            nearest = Some(host.time_ms);
        }
        if let Err(error) = samples.push(&host) {
            problem = Err(error);
        }
    };
    reader.samples(from, to, take)?;
    problem?;
    if samples.is_empty() {
        let (first, last) = (when::text(first), when::text(last));
        return Err(nothing(&format!("holds samples from {first} to {last}, none around --at")).into());
    }
    if let (Some(text), Some(at), Some(nearest)) = (at, at_ms, nearest)
        && nearest.abs_diff(at) > MINUTE_MS
    {
        output::say(&format!(
            "--at {text}: nothing was recorded then; the nearest sample is of {}",
            when::text(nearest)
        ));
    }
    Ok(Record { samples, at_ms: nearest, interval: Duration::from_secs(COARSE_S) })
}

#[cfg(test)]
mod tests {
    use pgcalm_record::store::{Limits, Packer, Writer};

    use super::*;

    #[test]
    fn a_moment_that_was_asked_for_is_kept_where_memory_is_short() {
        let directory = tempfile::tempdir().unwrap();
        let text = "2025-07-01T12:08:00Z";
        let at = when::parse("--at", text, &when::now()).unwrap();
        let limits = Limits { keep: Duration::from_secs(60), bytes: Limits::LEAST_BYTES };
        let mut writer = Writer::open(directory.path(), limits).unwrap();
        let (mut packer, mut items) = (Packer::default(), Vec::new());
        for second in 0..1000 {
            let host = Host { time_ms: at + second * 1000 - 480_000, ..Host::default() };
            items.extend(packer.pack(&host).unwrap());
        }
        writer.write(&items).unwrap();
        drop(writer);
        let record = recorded(directory.path(), Some(text), 20_000).unwrap();
        assert!(record.samples.len() < 480, "{}", record.samples.len());
        assert_eq!((record.at_ms, record.samples.at(at).map(|host| host.time_ms)), (Some(at), Some(at)));
    }
}
