//! `pgcalm ready-to-stop`: what is asked for, said while it works, and its exit code.

use std::fmt;
use std::time::Duration;

use pgcalm_doctor::ready_to_stop::{self, Options};
use pgcalm_host::HostRoot;
use pgcalm_trace::stop::Stop;

use crate::args::ready_to_stop::ReadyToStopArgs;
use crate::output;

/// A stop would take longer than it may, when the time was over.
#[derive(Debug)]
pub(crate) struct NotReady(String);

impl std::error::Error for NotReady {}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not ready: {}", self.0)
    }
}

/// Has written ahead what a stop would have to write.
pub(crate) fn run(args: &ReadyToStopArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    let stop = Stop::install()?;
    let options = Options {
        collect: args.caps.collect(args.server.wanted(), Duration::ZERO),
        within: args.within,
        timeout: args.timeout,
    };
    let report = ready_to_stop::run(&HostRoot::default(), &options, &|| stop.is_set(), &mut |report| {
        output::say(&format!("pgcalm: {}", report.text()));
    })?;
    if report.ready {
        return output::present(&args.json, &report, &format!("Ready: {}.\n", report.text()));
    }
    output::present(&args.json, &report, "")?;
    Err(NotReady(report.text()).into())
}
