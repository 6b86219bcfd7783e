use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_report::trace::EndReason;
use pgcalm_report::trace::checkpoint;
use pgcalm_report::trace::connect;
use pgcalm_report::trace::io;
use pgcalm_report::trace::locks;
use pgcalm_report::trace::why;
use pgcalm_trace::TraceError;
use pgcalm_trace::locks::Acquisitions;
use pgcalm_trace::stop::Stop;
use pgcalm_trace::target::Selection;
use pgcalm_trace::target::Target;
use serde::Serialize;

use crate::args::trace::RunArgs;
use crate::args::trace::ServerArgs;
use crate::args::trace::TraceCheckpointArgs;
use crate::args::trace::TraceConnectArgs;
use crate::args::trace::TraceIoArgs;
use crate::args::trace::TraceLocksArgs;
use crate::args::trace::TraceVerb;
use crate::args::trace::TraceWhyArgs;
use crate::output;

/// Traces a server until something ends it.
pub fn run(verb: TraceVerb) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    match verb {
        TraceVerb::Checkpoint(args) => run_checkpoint(&args, &stop),
        TraceVerb::Locks(args) => run_locks(&args, &stop),
        TraceVerb::Why(args) => run_why(&args, &stop),
        TraceVerb::Io(args) => run_io(&args, &stop),
        TraceVerb::Connect(args) => run_connect(&args, &stop),
    }
}

fn run_checkpoint(args: &TraceCheckpointArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::checkpoint::Options {
        duration: duration(&args.run),
        count: args.count,
        per_buffer: args.per_buffer,
        transactions: true,
        under_way: false,
        around: args.around,
        connect: args.connect.clone(),
    };
    let target = find(&args.run.server)?;
    let mut sink = Sink::open(&args.run, checkpoint::text::render)?;
    let reason =
        pgcalm_trace::checkpoint::run(&target, &options, stop, &mut |line| sink.take(line))?;
    sink.close(checkpoint::html::render)?;
    outcome(reason, &args.run, args.count.is_some(), &target)
}

fn run_locks(args: &TraceLocksArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::locks::Options {
        duration: duration(&args.run),
        count: args.count,
        acquisitions: match (args.acquisitions, args.all_acquisitions) {
            (_, true) => Acquisitions::All,
            (true, false) => Acquisitions::Estimated,
            (false, false) => Acquisitions::No,
        },
        around: Duration::from_secs(args.around),
        connect: args.connect.clone(),
    };
    let target = find(&args.run.server)?;
    let mut sink = Sink::open(&args.run, locks::text::render)?;
    let reason = pgcalm_trace::locks::run(&target, &options, stop, &mut |line| sink.take(line))?;
    sink.close(locks::html::render)?;
    outcome(reason, &args.run, args.count.is_some(), &target)
}

fn run_why(args: &TraceWhyArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::why::Options {
        duration: duration(&args.run),
        threshold: Duration::from_secs_f64(args.threshold),
        wal_calls: args.wal_calls,
        connect: args.connect.clone(),
    };
    let target = find(&args.run.server)?;
    let mut sink = Sink::open(&args.run, why::text::render)?;
    let reason = pgcalm_trace::why::run(&target, &options, stop, &mut |line| sink.take(line))?;
    sink.close(why::html::render)?;
    outcome(reason, &args.run, false, &target)
}

fn run_io(args: &TraceIoArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::io::Options {
        duration: duration(&args.run),
        interval: args
            .interval
            .map(|seconds| Duration::from_secs(u64::from(seconds.0))),
    };
    let target = find(&args.run.server)?;
    let mut sink = Sink::open(&args.run, io::text::render)?;
    let reason = pgcalm_trace::io::run(&target, &options, stop, &mut |line| sink.take(line))?;
    sink.close(io::html::render)?;
    outcome(reason, &args.run, false, &target)
}

fn run_connect(args: &TraceConnectArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::connect::Options {
        duration: duration(&args.run),
        count: args.count,
        threshold: Duration::from_secs_f64(args.threshold),
    };
    let target = find(&args.run.server)?;
    let mut sink = Sink::open(&args.run, connect::text::render)?;
    let reason = pgcalm_trace::connect::run(&target, &options, stop, &mut |line| sink.take(line))?;
    sink.close(connect::html::render)?;
    outcome(reason, &args.run, args.count.is_some(), &target)
}

fn find(server: &ServerArgs) -> anyhow::Result<Target> {
    Target::find(
        &HostRoot::default(),
        &Selection {
            pid: server.pid,
            port: server.port,
            datadir: server.datadir.clone(),
        },
    )
}

fn duration(args: &RunArgs) -> Option<Duration> {
    args.duration
        .map(|seconds| Duration::from_secs(u64::from(seconds.0)))
}

/// How the command ends: a signal is the usual end of a trace without a limit.
fn outcome(
    reason: EndReason,
    args: &RunArgs,
    has_count: bool,
    target: &Target,
) -> anyhow::Result<()> {
    match reason {
        EndReason::ServerEnded => Err(TraceError::ServerEnded { pid: target.pid() }.into()),
        EndReason::Interrupted if has_count || args.duration.is_some() => {
            Err(TraceError::Interrupted.into())
        }
        _ => Ok(()),
    }
}

/// Where the lines of a trace go: text at once, JSON at once, HTML at the end.
struct Sink<T> {
    text: fn(&T) -> String,
    json: Option<(PathBuf, File)>,
    html: Option<PathBuf>,
    lines: Vec<T>,
}

impl<T: Serialize> Sink<T> {
    fn open(args: &RunArgs, text: fn(&T) -> String) -> anyhow::Result<Self> {
        output::check_writable("--html", args.html.as_deref())?;
        output::check_writable("--json", args.json.as_deref())?;
        let json = match &args.json {
            Some(file) => Some((
                file.clone(),
                File::create(file).with_context(|| format!("create {}", file.display()))?,
            )),
            None => None,
        };
        Ok(Self {
            text,
            json,
            html: args.html.clone(),
            lines: Vec::new(),
        })
    }

    fn take(&mut self, line: T) -> anyhow::Result<()> {
        // Names of databases and processes are other users'; they must not be able to steer the terminal.
        let text = (self.text)(&line).replace(|c: char| c.is_control() && c != '\n', " ");
        output::print(&text)?;
        if let Some((path, file)) = &mut self.json {
            let mut text = serde_json::to_string(&line)?;
            text.push('\n');
            file.write_all(text.as_bytes())
                .with_context(|| format!("write {}", path.display()))?;
        }
        // A trace may run for days; only HTML needs all of it.
        if self.html.is_some() {
            self.lines.push(line);
        }
        Ok(())
    }

    fn close(self, html: fn(&[T]) -> String) -> anyhow::Result<()> {
        if let Some((path, _)) = &self.json {
            output::say(&format!("JSON: {}", path.display()));
        }
        if let Some(path) = &self.html {
            output::write(path, &html(&self.lines))?;
            output::say(&format!("HTML: {}", path.display()));
        }
        Ok(())
    }
}
