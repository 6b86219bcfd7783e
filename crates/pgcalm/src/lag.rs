use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pgcalm_host::HostRoot;
use pgcalm_host::stop::Stop;
use pgcalm_lag::model::{End, Line, Start};
use pgcalm_lag::{History, Host, text};

use crate::args::json::JsonArg;
use crate::args::lag::LagArgs;
use crate::output;
use crate::output::JsonLines;

/// How often a signal is looked for while nothing is to be done.
const LOOK: Duration = Duration::from_millis(50);

/// A signal ended it before it had what it was asked for.
#[derive(Debug)]
pub(crate) struct Interrupted {
    samples: u64,
    /// `--count`; else there was a `--duration`.
    wanted: Option<u64>,
}

impl std::error::Error for Interrupted {}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = self.samples;
        match self.wanted {
            Some(wanted) => write!(f, "interrupted after {samples} of {wanted} samples"),
            None => write!(f, "interrupted after {samples} samples, before --duration was over"),
        }
    }
}

/// Shows samples of a primary until something ends it.
pub(crate) fn run(args: &LagArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    let stop = Stop::install()?;
    let root = HostRoot::default();
    let mut client = pgcalm_lag::connect::connect(&root, args.server.wanted(), "pgcalm lag")?;
    let server = pgcalm_lag::collect::server(&mut client)?;
    let host = Host::new(root);
    let mut history = History::default();
    let mut samples = 0;
    let mut lines = Lines::open(&args.json)?;
    let is_open = lines.take(&Line::Start(Start {
        pgcalm: env!("CARGO_PKG_VERSION").to_string(),
        time: server.time,
        server_version: server.server_version,
        cluster_name: server.cluster_name,
        port: server.port,
        interval_s: args.interval.as_secs_f64(),
    }))?;
    if !is_open {
        return Ok(());
    }

    let interval = args.interval;
    let mut next = Instant::now();
    let end = args.time.duration.map(|time| next + time);
    if args.once {
        pgcalm_lag::sample(&mut client, &mut history, Some(&host))?;
        next += interval;
    }
    let wanted = if args.once { Some(1) } else { args.count };
    loop {
        let until = end.map_or(next, |end| next.min(end));
        while Instant::now() < until && !stop.is_set() {
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        if stop.is_set() || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let sample = match pgcalm_lag::sample(&mut client, &mut history, Some(&host)) {
            // It has ended the wait for an answer, too.
            Err(_) if stop.is_set() => break,
            sample => sample?,
        };
        samples += 1;
        if !lines.take(&Line::Sample(Box::new(sample)))? {
            return Ok(());
        }
        if wanted == Some(samples) {
            break;
        }
        // After a server that took longer than an interval there is nothing to catch up with.
        next = (next + interval).max(Instant::now());
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    lines.take(&Line::End(End { time, samples }))?;
    // A signal is the usual end of one without a limit.
    let is_short = wanted.map_or(end.is_some(), |wanted| samples < wanted);
    if stop.is_set() && is_short { Err(Interrupted { samples, wanted }.into()) } else { Ok(()) }
}

/// Where lines go.
struct Lines {
    json_only: bool,
    file: Option<JsonLines>,
}

impl Lines {
    fn open(json: &JsonArg) -> anyhow::Result<Self> {
        Ok(Self { json_only: json.replaces_text(), file: json.file().map(JsonLines::create).transpose()? })
    }

    /// Writes a line; false if whoever reads standard output has closed it.
    fn take(&mut self, line: &Line) -> anyhow::Result<bool> {
        if let Some(file) = &mut self.file {
            file.take(line)?;
        }
        let text = if self.json_only { output::json_line(line)? } else { text::render(line) };
        output::offer(&text)
    }
}
