use std::time::Duration;

use pgcalm_doctor::targets;
use pgcalm_doctor::targets::report::view;
use pgcalm_host::HostRoot;
use pgcalm_record::when;

use crate::args::targets::TargetsArgs;
use crate::output;

/// Says what targets would cost.
pub(crate) fn run(args: &TargetsArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.report.json.file())?;
    output::check_writable("--html", args.report.html.as_deref())?;
    let options = args.caps.collect(args.server.wanted(), Duration::ZERO);
    let report = targets::run(&HostRoot::default(), &options, args.duration, args.wal.bytes())?;
    let document = view::document(&report, &when::now().strftime("%F %T").to_string());
    let presented = output::present(&args.report.json, &report, &document.text());
    if let Some(file) = &args.report.html {
        output::write(file, &document.html())?;
    }
    presented
}
