use std::time::Duration;

use anyhow::Context;
use pgcalm_doctor::connection::Connection;
use pgcalm_doctor::report::{Change, Report, Target, text};
use pgcalm_doctor::{apply, collect, rules, undo};
use pgcalm_host::{Failure, HostRoot};

use crate::args::doctor::DoctorArgs;
use crate::output;

/// Looks, and changes something if it was told to.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    if args.rules {
        return output::print(&rules::markdown(&rules::table::RULES));
    }
    let unknown = args.only.iter().find(|id| !rules::table::RULES.iter().any(|rule| rule.id == **id));
    if let Some(id) = unknown {
        return Err(Failure::Usage(format!("--only {id}: no such rule; pgcalm doctor --rules lists them")).into());
    }
    args.change.check()?;
    output::check_writable("--json", args.json.file())?;
    let root = HostRoot::default();
    let wanted = args.server.wanted();
    // To take back, nothing is judged.
    let sample = if args.undo { Duration::ZERO } else { args.duration };
    let collected = collect::collect(&root, &args.caps.collect(wanted, sample))?;
    if let Some(error) = collected.unasked.as_ref().and_then(|error| error.downcast_ref::<Failure>())
        && matches!(error, Failure::Usage(_))
        && !args.undo
    {
        // A host without any of its servers is judged by next to nothing.
        return Err(error.clone().into());
    }
    let mut connection = collected.connection;
    let mut report = rules::judge(collected.facts);
    let is_named = wanted.connect.is_some() || wanted.instance.is_some();
    if args.undo {
        take_back(&root, args, &mut report, connection.as_mut())?;
    } else if is_named && collected.unasked.is_some() {
        // Half of what is to be changed would be changed by half of what is to be known.
        if args.change.plan || args.change.apply {
            let note = "Nothing was changed: the server that was named was not asked.";
            report.notes.push(note.to_string());
        }
    } else if args.change.plan || args.change.apply {
        make(&root, args, &mut report, connection.as_mut())?;
    }
    output::present(&args.json, &report, &text::render(&report))?;
    args.fail_on.judge(report.findings.iter().map(|finding| finding.severity))?;
    match collected.unasked {
        // What is taken back may be the kernel's alone; what stays is noted.
        Some(error) if !args.undo || is_named || !report.notes.is_empty() => {
            Err(error.context("the server was not asked"))
        }
        _ => Ok(()),
    }
}

fn take_back(
    root: &HostRoot,
    args: &DoctorArgs,
    report: &mut Report,
    mut connection: Option<&mut Connection>,
) -> anyhow::Result<()> {
    report.action = "undo".to_string();
    report.findings.clear();
    report.clear.clear();
    report.unanswered.clear();
    report.facts.missing.clear();
    let mut undone = undo::undo(root, &args.state_dir, connection.as_deref_mut(), true)?;
    // Without a change there still is what somebody else has changed since, and a boot has ended, to be forgotten.
    let agreed = match undone.changes.is_empty() {
        true => args.change.apply,
        false => args.change.agreed(&text::diff(report, &undone.changes))?,
    };
    if agreed {
        announce(report, &undone.changes);
        undone = undo::undo(root, &args.state_dir, connection, false)?;
        report.applied = !undone.changes.is_empty();
    }
    report.changes = undone.changes;
    report.notes = undone.notes;
    Ok(())
}

fn make(
    root: &HostRoot,
    args: &DoctorArgs,
    report: &mut Report,
    mut connection: Option<&mut Connection>,
) -> anyhow::Result<()> {
    let plan = apply::plan(root, rules::changes(report, &args.only), connection.as_deref_mut())?;
    report.action = "apply".to_string();
    report.notes = plan.notes;
    if plan.changes.is_empty() {
        return Ok(());
    }
    let shown = format!("{}\n{}", text::render(report), text::diff(report, &plan.changes));
    if !args.change.agreed(&shown)? {
        report.changes = plan.changes;
        return Ok(());
    }
    announce(report, &plan.changes);
    apply::apply(root, &args.state_dir, &plan.changes, connection)
        .with_context(|| "the other changes stay; pgcalm doctor --undo --apply takes them back")?;
    report.applied = true;
    report.permanent = plan
        .changes
        .iter()
        .filter(|change| change.target == Target::Kernel)
        .filter_map(|change| {
            let name = change.name.strip_prefix("/proc/sys/")?.replace('/', ".");
            Some(format!("{name} = {}", change.to.as_deref()?))
        })
        .collect();
    report.changes = plan.changes;
    Ok(())
}

/// Says where changes are about to be written to, before they are.
fn announce(report: &Report, changes: &[Change]) {
    if let Some(text) = text::written(report, changes) {
        output::say(&format!("pgcalm: {text}"));
    }
}
