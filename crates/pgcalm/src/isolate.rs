use pgcalm_host::HostRoot;
use pgcalm_host::throttle::Kind;
use pgcalm_isolate::check;
use pgcalm_isolate::clear;
use pgcalm_isolate::hold;
use pgcalm_isolate::hold::End;
use pgcalm_isolate::set;
use pgcalm_isolate::set::Setting;
use pgcalm_lab::Size;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_report::isolate::Report;

use crate::args::IsolateClearArgs;
use crate::args::IsolateSetArgs;
use crate::args::IsolateShowArgs;
use crate::output;

/// Lists the instances.
pub fn show(args: &IsolateShowArgs) -> anyhow::Result<()> {
    present(
        &pgcalm_isolate::show::show(&HostRoot::default())?,
        args.json,
    )
}

/// Names the hazards.
pub fn check(args: &IsolateShowArgs) -> anyhow::Result<()> {
    present(&check::check(&HostRoot::default())?, args.json)
}

/// Limits an instance, and with `--hold` waits and lifts the limits again.
pub fn set(args: IsolateSetArgs) -> anyhow::Result<()> {
    let root = HostRoot::default();
    let (json, hold) = (args.json, args.hold);
    let interrupt = Interrupt::install()?;
    let interrupted = || interrupt.check().is_err();
    let presented = present(&set::set(&root, &options(args), &interrupted)?, json);
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
pub fn clear(args: IsolateClearArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let options = clear::Options {
        instance: args.instance,
        plan: args.plan,
    };
    let report = clear::clear(&HostRoot::default(), &options, &|| {
        interrupt.check().is_err()
    })?;
    present(&report, args.json)
}

fn present(report: &Report, json: bool) -> anyhow::Result<()> {
    let text = if json {
        pgcalm_report::to_json_pretty(report)?
    } else {
        pgcalm_report::isolate::text::render(report)
    };
    output::print(&text)
}

fn options(args: IsolateSetArgs) -> set::Options {
    let settings = [
        (
            Kind::ReadIops,
            args.read_iops.map(|limit| limit.0.map(u64::from)),
        ),
        (
            Kind::ReadBps,
            args.read_bps.map(|limit| limit.0.map(Size::bytes)),
        ),
        (
            Kind::WriteIops,
            args.write_iops.map(|limit| limit.0.map(u64::from)),
        ),
        (
            Kind::WriteBps,
            args.write_bps.map(|limit| limit.0.map(Size::bytes)),
        ),
    ];
    set::Options {
        instance: args.instance,
        device: args.device,
        settings: settings
            .into_iter()
            .filter_map(|(kind, value)| {
                Some(Setting {
                    kind,
                    value: value?,
                })
            })
            .collect(),
        plan: args.plan,
        hold: args.hold,
    }
}
