//! `pgcalm trace checkpoint`.

use std::time::Duration;

use pgcalm_report::trace::EndReason;
use pgcalm_report::trace::checkpoint::Line;

use crate::session::Session;
use crate::session::Status;
use crate::stop::Stop;
use crate::target::Target;

/// What is to be traced.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How long; until something else ends it if none.
    pub duration: Option<Duration>,
    /// How many checkpoints; no limit if none.
    pub count: Option<u64>,
}

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(
    target: &Target,
    options: &Options,
    stop: &Stop,
    take: &mut dyn FnMut(Line) -> anyhow::Result<()>,
) -> anyhow::Result<EndReason> {
    let mut session = Session::start(target, stop, options.duration)?;
    take(Line::Start(session.start_line("checkpoint", Vec::new())))?;
    let reason = loop {
        match session.wait(&[])? {
            Status::Running => {}
            Status::TimeIsUp => break EndReason::Duration,
            Status::Stopped => break EndReason::Interrupted,
            Status::ServerEnded => break EndReason::ServerEnded,
        }
    };
    take(Line::End(session.end_line(reason, session.drops())))?;
    Ok(reason)
}
