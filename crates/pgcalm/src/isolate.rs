use pgcalm_doctor::isolate::hold::End;
use pgcalm_doctor::isolate::report::{Report, text};
use pgcalm_doctor::isolate::{Setting, check, clear, hold, set};
use pgcalm_doctor::rules::table::RULES;
use pgcalm_host::throttle::Kind;
use pgcalm_host::{Failure, HostRoot};
use pgcalm_lab::Size;
use pgcalm_lab::interrupt::Interrupt;

use crate::args::change::ChangeArgs;
use crate::args::json::JsonArg;
use crate::args::{IsolateCheckArgs, IsolateClearArgs, IsolateSetArgs, IsolateShowArgs};
use crate::output;

/// Lists the instances.
pub(crate) fn show(args: &IsolateShowArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    present(&args.json, &pgcalm_doctor::isolate::show::show(&HostRoot::default())?)
}

/// Names the hazards.
pub(crate) fn check(args: &IsolateCheckArgs) -> anyhow::Result<()> {
    output::check_writable("--json", args.json.file())?;
    let report = check::check(&HostRoot::default())?;
    present(&args.json, &report)?;
    // Each is a rule of doctor's, too, which says how bad it is.
    let severities = report.hazards.iter().filter_map(|hazard| {
        let rule = RULES.iter().find(|rule| rule.id == hazard.name)?;
        Some(rule.severity)
    });
    args.fail_on.judge(severities)?;
    if args.fail_on.fail_on.is_some() && report.hidden_processes > 0 {
        anyhow::bail!(Failure::Host(
            "--fail-on: servers run here that this user may not look at: run it as root".to_string(),
        ));
    }
    Ok(())
}

/// Limits an instance, and with `--hold` waits and lifts the limits again.
pub(crate) fn set(args: IsolateSetArgs) -> anyhow::Result<()> {
    check_change(args.change)?;
    output::check_writable("--json", args.json.file())?;
    let root = HostRoot::default();
    let (json, change, hold) = (args.json.clone(), args.change, args.hold);
    let mut options = options(args);
    if !change.yes {
        let plan = set::set(&root, &options, &|| false)?;
        if !change.agreed(&text::render(&plan))? {
            return present(&json, &plan);
        }
    }
    // Not before: whoever is asked may answer with Ctrl-C.
    let interrupt = Interrupt::install()?;
    let interrupted = || interrupt.check().is_err();
    options.plan = false;
    let presented = present(&json, &set::set(&root, &options, &interrupted)?);
    if hold {
        // Whoever reads the report may have gone: no reason to leave limits behind.
        let (end, _) = hold::until(&root, &interrupted)?;
        output::say(match end {
            End::Interrupted => "pgcalm: limits lifted, all is as before",
            End::InstanceEnded => "pgcalm: the instance has ended, its control group is removed",
            End::Cleared => "pgcalm: the limits were lifted by another command",
        });
    }
    presented
}

/// Lifts the limits.
pub(crate) fn clear(args: IsolateClearArgs) -> anyhow::Result<()> {
    check_change(args.change)?;
    output::check_writable("--json", args.json.file())?;
    let root = HostRoot::default();
    let mut options = clear::Options { instance: args.instance.instance, plan: true };
    if !args.change.yes {
        let plan = clear::clear(&root, &options, &|| false)?;
        if !args.change.agreed(&text::render(&plan))? {
            return present(&args.json, &plan);
        }
    }
    let interrupt = Interrupt::install()?;
    options.plan = false;
    let report = clear::clear(&root, &options, &|| interrupt.check().is_err())?;
    present(&args.json, &report)
}

/// Nobody is asked about what can't be done.
fn check_change(change: ChangeArgs) -> anyhow::Result<()> {
    if change.apply {
        pgcalm_doctor::isolate::need_root()?;
    }
    change.check()
}

fn present(json: &JsonArg, report: &Report) -> anyhow::Result<()> {
    output::present(json, report, &text::render(report))
}

fn options(args: IsolateSetArgs) -> set::Options {
    let settings = [
        (Kind::ReadIops, args.reads.read_iops.map(|limit| limit.0.map(u64::from))),
        (Kind::ReadBps, args.reads.read_bandwidth.map(|limit| limit.0.map(Size::bytes))),
        (Kind::WriteIops, args.writes.write_iops.map(|limit| limit.0.map(u64::from))),
        (Kind::WriteBps, args.writes.write_bandwidth.map(|limit| limit.0.map(Size::bytes))),
    ];
    set::Options {
        instance: args.instance.instance.unwrap_or_default(),
        device: args.device,
        settings: settings.into_iter().filter_map(|(kind, value)| Some(Setting { kind, value: value? })).collect(),
        plan: true,
        hold: args.hold,
    }
}
