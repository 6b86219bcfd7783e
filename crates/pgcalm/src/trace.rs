use pgcalm_doctor::report::Severity;
use pgcalm_host::HostRoot;
use pgcalm_trace::error::{INTERRUPTED, server_ended};
use pgcalm_trace::locks::Acquisitions;
use pgcalm_trace::report::EndReason;
use pgcalm_trace::report::view::{Shown, page};
use pgcalm_trace::stop::Stop;
use pgcalm_trace::target::{Selection, Target};
use pgcalm_trace::why::report as why;
use serde::Serialize;

use crate::args::trace::{
    AskArg, RunArgs, TraceCheckpointArgs, TraceConnectArgs, TraceIoArgs, TraceLocksArgs, TraceVerb, TraceWhyArgs,
};
use crate::output::JsonLines;
use crate::{output, record};

/// Traces a server until something ends it.
pub(crate) fn run(verb: TraceVerb) -> anyhow::Result<()> {
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
        duration: args.run.time.duration,
        count: args.count,
        per_buffer: args.per_buffer,
        files: args.files,
        transactions: true,
        under_way: false,
        around: args.around.as_secs(),
        connect: args.ask.connect.clone(),
    };
    let target = find(&args.run, Some(&args.ask))?;
    let mut sink = Sink::new(&args.run, stop);
    let reason = pgcalm_trace::checkpoint::run(&target, &options, stop, &mut |line| sink.take(line));
    sink.end(reason, args.count.is_some(), &target)
}

fn run_locks(args: &TraceLocksArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::locks::Options {
        duration: args.run.time.duration,
        count: args.count,
        acquisitions: match (args.acquisitions, args.all_acquisitions) {
            (_, true) => Acquisitions::All,
            (true, false) => Acquisitions::Estimated,
            (false, false) => Acquisitions::No,
        },
        around: args.around,
        first: args.first,
        connect: args.ask.connect.clone(),
    };
    let target = find(&args.run, Some(&args.ask))?;
    let mut sink = Sink::new(&args.run, stop);
    let reason = pgcalm_trace::locks::run(&target, &options, stop, &mut |line| sink.take(line));
    sink.end(reason, args.count.is_some(), &target)
}

fn run_why(args: &TraceWhyArgs, stop: &Stop) -> anyhow::Result<()> {
    if let Some(at) = &args.at {
        let instance = args.run.instance.instance.as_deref();
        return record::at(at, instance, &args.dir.dir, args.run.html.as_deref(), &args.run.json);
    }
    let options = pgcalm_trace::why::Options {
        duration: args.run.time.duration,
        threshold: args.threshold,
        probes: true,
        wal_calls: args.wal_calls,
        connect: args.ask.connect.clone(),
    };
    let target = find(&args.run, Some(&args.ask))?;
    let mut sink = Sink::new(&args.run, stop);
    let mut stalls = 0;
    let reason = pgcalm_trace::why::run(&target, &options, stop, &mut |line| {
        stalls += usize::from(matches!(line, why::Line::Verdict(_)));
        sink.take(line)
    });
    sink.end(reason, false, &target)?;
    Ok(args.fail_on.judge(std::iter::repeat_n(Severity::Stall, stalls))?)
}

fn run_io(args: &TraceIoArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::io::Options { duration: args.run.time.duration, interval: args.interval };
    let target = find(&args.run, None)?;
    let mut sink = Sink::new(&args.run, stop);
    let reason = pgcalm_trace::io::run(&target, &options, stop, &mut |line| sink.take(line));
    sink.end(reason, false, &target)
}

fn run_connect(args: &TraceConnectArgs, stop: &Stop) -> anyhow::Result<()> {
    let options = pgcalm_trace::connect::Options {
        duration: args.run.time.duration,
        count: args.count,
        threshold: args.threshold,
    };
    let target = find(&args.run, None)?;
    let mut sink = Sink::new(&args.run, stop);
    let reason = pgcalm_trace::connect::run(&target, &options, stop, &mut |line| sink.take(line));
    sink.end(reason, args.count.is_some(), &target)
}

/// The server, once it is known that what is seen there can be written.
fn find(args: &RunArgs, ask: Option<&AskArg>) -> anyhow::Result<Target> {
    output::check_writable("--json", args.json.file())?;
    output::check_writable("--html", args.html.as_deref())?;
    Target::find(
        &HostRoot::default(),
        &Selection {
            pid: None,
            instance: args.instance.instance.clone(),
            connect: ask.and_then(|ask| ask.connect.clone()),
        },
    )
}

/// Where the lines of a trace go: text or JSON at once, HTML at the end.
struct Sink<'a, T> {
    args: &'a RunArgs,
    stop: &'a Stop,
    json: Option<JsonLines>,
    lines: Vec<T>,
    /// Nobody is left for whom the trace could go on.
    is_unread: bool,
    /// The first of standard output or the JSON file.
    failure: Option<anyhow::Error>,
}

impl<'a, T: Serialize + Shown> Sink<'a, T> {
    fn new(args: &'a RunArgs, stop: &'a Stop) -> Self {
        Self { args, stop, json: None, lines: Vec::new(), is_unread: false, failure: None }
    }

    fn take(&mut self, line: T) -> anyhow::Result<()> {
        let text = if self.args.json.replaces_text() { output::json_line(&line)? } else { line.text() };
        // Not sooner: a trace that can't start leaves the file of another one as it is.
        if self.json.is_none()
            && let Some(path) = self.args.json.file()
        {
            self.json = Some(JsonLines::create(path)?);
        }
        let written = self.json.as_mut().map_or(Ok(()), |file| file.take(&line));
        // A trace may run for days; only HTML needs all of it.
        if self.args.html.is_some() {
            self.lines.push(line);
        }
        let has_file = self.json.is_some() || self.args.html.is_some();
        let is_read = output::offer(&text);
        match written.and(is_read) {
            Ok(is_read) if is_read || has_file => return Ok(()),
            Ok(_) => self.is_unread = true,
            // The lines that it ends with belong in the files, too.
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
        self.stop.set();
        Ok(())
    }

    /// How the command ends: a signal is the usual end of a trace without a limit, and so is a reader who has gone.
    fn end(mut self, reason: anyhow::Result<EndReason>, has_count: bool, target: &Target) -> anyhow::Result<()> {
        // Whatever has ended the trace, its files are written.
        let closed = self.close();
        self.failure.map_or(Ok(()), Err)?;
        let reason = reason?;
        closed?;
        match reason {
            EndReason::ServerEnded => Err(server_ended(target.pid()).into()),
            EndReason::Interrupted if !self.is_unread && (has_count || self.args.time.duration.is_some()) => {
                Err(INTERRUPTED.into())
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> anyhow::Result<()> {
        if let Some(file) = self.json.take() {
            file.close();
        }
        if let Some(path) = &self.args.html
            && !self.lines.is_empty()
        {
            output::write(path, &page(&self.lines))?;
            output::say(&format!("HTML: {}", path.display()));
        }
        Ok(())
    }
}
