use std::io;
use std::io::BufRead;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use pgcalm_doctor::DoctorError;
use pgcalm_doctor::apply;
use pgcalm_doctor::collect;
use pgcalm_doctor::connection::Connection;
use pgcalm_doctor::rules;
use pgcalm_doctor::undo;
use pgcalm_host::HostRoot;
use pgcalm_report::doctor::Report;
use pgcalm_report::doctor::Target;
use pgcalm_report::doctor::table;
use pgcalm_report::doctor::text;

use crate::args::doctor::DoctorArgs;
use crate::args::doctor::STANDARD_OUTPUT;
use crate::output;

/// Looks, and changes something if it was told to.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    if args.rules {
        return output::print(&table::markdown(&rules::rows()));
    }
    let unknown = args
        .only
        .iter()
        .find(|id| !rules::table::RULES.iter().any(|rule| rule.id == **id));
    if let Some(id) = unknown {
        return Err(DoctorError::Usage(format!(
            "--only {id}: no such rule; pgcalm doctor --rules lists them"
        ))
        .into());
    }
    if let Some(file) = json_file(args) {
        output::check_writable("--json", Some(file))?;
    }
    let root = HostRoot::default();
    let collected = collect::collect(
        &root,
        &collect::Options {
            connect: args.server.connect.clone(),
            port: args.server.port,
            datadir: args.server.datadir.clone(),
            write_iops: args.write_iops,
            write_bandwidth: args.write_bandwidth.map(|size| size.bytes()),
            // Nothing is judged then.
            sample: Duration::from_secs(if args.undo { 0 } else { args.sample }),
        },
    )?;
    let mut connection = collected.connection;
    let mut report = rules::judge(collected.facts);
    if args.undo {
        take_back(&root, args, &mut report, connection.as_mut())?;
    } else if args.apply {
        make(&root, args, &mut report, connection.as_mut())?;
    }
    present(args, &report)
}

fn take_back(
    root: &HostRoot,
    args: &DoctorArgs,
    report: &mut Report,
    connection: Option<&mut Connection>,
) -> anyhow::Result<()> {
    let undone = undo::undo(root, &args.state_dir, connection)?;
    report.action = "undo".to_string();
    report.findings.clear();
    report.clear.clear();
    report.unanswered.clear();
    report.facts.missing.clear();
    report.applied = !undone.changes.is_empty();
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
    let plan = apply::plan(
        root,
        rules::changes(report, &args.only),
        connection.as_deref_mut(),
    )?;
    report.action = "apply".to_string();
    report.notes = plan.notes;
    if plan.changes.is_empty() {
        return Ok(());
    }
    if !args.yes && !agreed(report, &plan.changes)? {
        report.changes = plan.changes;
        return Ok(());
    }
    apply::apply(root, &args.state_dir, &plan.changes, connection).with_context(
        || "changes made before this one stay; pgcalm doctor --undo takes them back",
    )?;
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

/// Shows what would be changed and asks, on standard error: standard output may be a file.
fn agreed(report: &Report, changes: &[pgcalm_report::doctor::Change]) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(DoctorError::Usage(
            "--apply asks before it changes anything, and standard input is no terminal; give --yes"
                .to_string(),
        )
        .into());
    }
    output::say(text::render(report).trim_end());
    output::say("");
    output::say(text::diff(changes).trim_end());
    output::say("Make these changes? Type yes:");
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("read the answer")?;
    Ok(answer.trim() == "yes")
}

fn json_file(args: &DoctorArgs) -> Option<&Path> {
    args.json
        .as_deref()
        .filter(|file| *file != Path::new(STANDARD_OUTPUT))
}

fn present(args: &DoctorArgs, report: &Report) -> anyhow::Result<()> {
    match (&args.json, json_file(args)) {
        (Some(_), None) => output::print(&pgcalm_report::to_json_pretty(report)?),
        (_, file) => {
            if let Some(file) = file {
                output::write(file, &pgcalm_report::to_json_pretty(report)?)?;
            }
            output::print(&text::render(report))
        }
    }
}
