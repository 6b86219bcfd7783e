use std::fmt;
use std::io;
use std::io::Write;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_lag::History;
use pgcalm_lag::Host;
use pgcalm_lag::model::End;
use pgcalm_lag::model::Line;
use pgcalm_lag::model::Start;
use pgcalm_lag::text;
use pgcalm_trace::stop::Stop;

use crate::args::lag::LagArgs;

/// How often a signal is looked for while nothing is to be done.
const LOOK: Duration = Duration::from_millis(50);

/// A signal ended it before it had what it was asked for.
#[derive(Debug)]
pub struct Interrupted {
    samples: u64,
    wanted: u64,
}

impl std::error::Error for Interrupted {}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, wanted } = self;
        write!(f, "interrupted after {samples} of {wanted} samples")
    }
}

/// Shows samples of a primary until something ends it.
pub fn run(args: &LagArgs) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    let mut client = pgcalm_lag::connect::connect(&args.connect, "pgcalm lag")?;
    let server = pgcalm_lag::collect::server(&mut client)?;
    let host = Host::new(HostRoot::default());
    let mut history = History::default();
    let mut samples = 0;
    let is_open = print(
        args,
        &Line::Start(Start {
            pgcalm: env!("CARGO_PKG_VERSION").to_string(),
            time: server.time,
            server_version: server.server_version,
            cluster_name: server.cluster_name,
            port: server.port,
            interval_s: args.interval,
        }),
    )?;
    if !is_open {
        return Ok(());
    }

    let interval = Duration::from_secs_f64(args.interval);
    let mut next = Instant::now();
    if args.once {
        pgcalm_lag::sample(&mut client, &mut history, Some(&host))?;
        next += interval;
    }
    let wanted = if args.once { Some(1) } else { args.count };
    loop {
        while Instant::now() < next && !stop.is_set() {
            std::thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
        }
        if stop.is_set() {
            break;
        }
        let sample = pgcalm_lag::sample(&mut client, &mut history, Some(&host))?;
        samples += 1;
        if !print(args, &Line::Sample(Box::new(sample)))? {
            return Ok(());
        }
        if wanted == Some(samples) {
            break;
        }
        // After a server that took longer than an interval there is nothing to catch up with.
        next = (next + interval).max(Instant::now());
    }
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    print(args, &Line::End(End { time, samples }))?;
    match wanted {
        // A signal is the usual end of one without a limit.
        Some(wanted) if samples < wanted => Err(Interrupted { samples, wanted }.into()),
        _ => Ok(()),
    }
}

/// Writes a line to standard output; false if whoever read it has closed it.
fn print(args: &LagArgs, line: &Line) -> anyhow::Result<bool> {
    let text = if args.json {
        let mut text = serde_json::to_string(line).context("write a sample as JSON")?;
        text.push('\n');
        text
    } else {
        text::render(line)
    };
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("write to standard output"),
    }
}
