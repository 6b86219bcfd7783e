use pgcalm_host::HostRoot;
use pgcalm_host::throttle::Kind;
use pgcalm_isolate::check;
use pgcalm_isolate::clear;
use pgcalm_isolate::set;
use pgcalm_isolate::set::Setting;
use pgcalm_lab::Size;
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

/// Limits an instance.
pub fn set(args: IsolateSetArgs) -> anyhow::Result<()> {
    let json = args.json;
    present(&set::set(&HostRoot::default(), &options(args))?, json)
}

/// Lifts the limits.
pub fn clear(args: IsolateClearArgs) -> anyhow::Result<()> {
    let options = clear::Options {
        instance: args.instance,
        plan: args.plan,
    };
    present(&clear::clear(&HostRoot::default(), &options)?, args.json)
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
    }
}
