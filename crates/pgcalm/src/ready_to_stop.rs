use std::fmt;
use std::time::Duration;

use pgcalm_doctor::collect;
use pgcalm_doctor::ready_to_stop::{self, Options};
use pgcalm_host::HostRoot;
use pgcalm_host::quantity::Size;
use pgcalm_trace::stop::Stop;

use crate::args::ready_to_stop::ReadyToStopArgs;
use crate::output;

/// A stop would take longer than it may, when the time was over.
#[derive(Debug)]
pub struct NotReady(String);

impl std::error::Error for NotReady {}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not ready: {}", self.0)
    }
}

/// Has written ahead what a stop would have to write.
pub fn run(args: &ReadyToStopArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    let stop = Stop::install()?;
    let (write_iops, write_bandwidth) = args.caps.of_writes();
    let wanted = args.server.wanted();
    let options = Options {
        collect: collect::Options {
            connect: wanted.connect.map(str::to_string),
            instance: wanted.instance.map(str::to_string),
            write_iops,
            write_bandwidth,
            iops: args.caps.shared.iops.map(u64::from),
            bandwidth: args.caps.shared.bandwidth.map(Size::bytes),
            sample: Duration::ZERO,
        },
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
