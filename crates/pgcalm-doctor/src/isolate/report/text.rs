//! What `pgcalm isolate` has to say, for a terminal.

use pgcalm_render::number::{plural, printable};
use pgcalm_render::text::paragraph;

use super::{Disk, Hazard, Instance, Limit, Place, Report, Slave, Step};

/// The whole report; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    for instance in &report.instances {
        instance_lines(&mut out, instance);
        out.push('\n');
    }
    for hazard in &report.hazards {
        hazard_lines(&mut out, hazard);
        out.push('\n');
    }
    for step in &report.steps {
        line(&mut out, &step_line(step, report.applied));
    }
    if !report.permanent.is_empty() {
        out.push_str("\nUntil clear, or the next start of the server. To make it permanent:\n");
        for text in &report.permanent {
            line(&mut out, text);
        }
    }
    for note in &report.notes {
        paragraph(&mut out, note);
    }
    if report.hidden_processes > 0 {
        paragraph(
            &mut out,
            &format!(
                "Server processes that may not be looked at: {}; run it as root on the host to see their instances.",
                report.hidden_processes
            ),
        );
    }
    paragraph(&mut out, &summary(report));
    out
}

fn summary(report: &Report) -> String {
    let group = match report.cgroup_version.as_ref() {
        Ok(Some(version)) => format!("block I/O limits by cgroup {version}"),
        Ok(None) => "no block I/O controller".to_string(),
        Err(why) => format!("block I/O limits not known: {why}"),
    };
    let unclear = report.instances.iter().filter(|i| !i.not_known().is_empty());
    let unclear = match unclear.count() {
        0 => String::new(),
        _ => " in what is known, which is not all".to_string(),
    };
    match report.verb.as_str() {
        "check" if !report.hazards.is_empty() => {
            format!("Hazards: {}{unclear}; {group}.", report.hazards.len())
        }
        "check" if report.instances.is_empty() && report.hidden_processes > 0 => {
            format!("No server could be looked at, so nothing was checked; {group}.")
        }
        "check" if report.instances.is_empty() => {
            format!("No server was found on this host, so nothing was checked; {group}.")
        }
        "check" if !unclear.is_empty() => {
            format!("No hazard{unclear}; {group}.")
        }
        "check" => format!("No hazard found; {group}."),
        "show" => format!("Instances: {}; {group}.", report.instances.len()),
        _ if report.steps.is_empty() => "Nothing to do.".to_string(),
        _ if report.applied => format!("Done, {}.", plural(report.steps.len() as f64, "change")),
        _ => "Nothing was changed: --apply makes these changes.".to_string(),
    }
}

fn instance_lines(out: &mut String, instance: &Instance) {
    let version = instance.version.as_deref().unwrap_or("?");
    let port = instance.port.map_or_else(String::new, |port| format!(", port {port}"));
    line(
        out,
        &format!(
            "{}: PostgreSQL {version}{port}, pid {}, {}",
            instance.data_directory,
            instance.pid,
            if instance.processes == 1 { "1 process".to_string() } else { format!("{} processes", instance.processes) }
        ),
    );
    for place in &instance.places {
        line(out, &format!("  {}", place_line(place)));
    }
    if let Some(group) = instance.group.there() {
        let ours = if instance.isolated { " (made by pgcalm)" } else { "" };
        line(out, &format!("  group       {group}{ours}"));
    }
    for group in &instance.other_groups {
        line(out, &format!("  also in     {group}"));
    }
    for limit in &instance.limits {
        line(out, &format!("  limit       {}", limit_line(limit)));
    }
    let unknown = instance.not_known();
    for why in &unknown {
        line(out, &format!("  not known   {why}"));
    }
    let is_limited = instance.limits.iter().any(|limit| limit.in_force);
    if unknown.is_empty() && instance.group.there().is_some() && !is_limited {
        line(out, "  no limit in force");
    }
}

fn place_line(place: &Place) -> String {
    let device = match (&place.device, place.disk.as_ref()) {
        (Some(device), Ok(Some(disk))) if *device != disk.name => {
            format!("{device} of disk {} ({})", disk.name, disk.number)
        }
        (Some(device), _) => format!("{device} ({})", place.device_number),
        (None, Err(_)) => format!("device not known ({})", place.device_number),
        (None, Ok(_)) => format!("no block device ({})", place.device_number),
    };
    let below = made_of(&place.slaves);
    let journal = match place.journal.there() {
        Some(journal) => {
            let place = match &journal.device {
                None => ", journal on a device that is not known".to_string(),
                Some(device) if journal.external => {
                    format!(", journal on {device}{}", made_of(&journal.slaves))
                }
                Some(_) => ", journal inside".to_string(),
            };
            let mode = journal.data_mode.as_ref().map_or_else(String::new, |mode| format!(", data={mode}"));
            let waits = if journal.waits_for_data {
                ", its commits wait for data"
            } else if journal.shows_unwritten {
                ", a crash can damage tables"
            } else {
                ""
            };
            format!("{place}{mode}{waits}")
        }
        None => String::new(),
    };
    format!(
        "{:<11} {} on {} ({}), {device}{below}{journal}",
        place.role,
        place.path,
        place.mountpoint,
        [std::slice::from_ref(&place.fs), &place.mount_options].concat().join(" "),
    )
}

/// The devices below one, down to the disks.
fn made_of(slaves: &[Slave]) -> String {
    if slaves.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = slaves
        .iter()
        .map(|slave| {
            let below = made_of(&slave.slaves);
            let Disk { name, number } = &slave.disk;
            if slave.device == *name {
                format!("{name} ({number}){below}")
            } else {
                format!("{} of disk {name} ({number}){below}", slave.device)
            }
        })
        .collect();
    format!(" made of {}", parts.join(" and "))
}

fn limit_line(limit: &Limit) -> String {
    let felt = if limit.in_force { "" } else { ", not passed down to this group" };
    format!("{} {} on {} ({}){felt}", limit.kind, limit.value, limit.disk.name, limit.file)
}

fn hazard_lines(out: &mut String, hazard: &Hazard) {
    line(out, &format!("{}: {}", hazard.name, hazard.instances.join(", ")));
    for evidence in &hazard.evidence {
        paragraph(out, &format!("  seen: {evidence}"));
    }
    paragraph(out, &format!("  cure: {}", hazard.cure));
}

fn step_line(step: &Step, applied: bool) -> String {
    let value = step.value.as_deref().unwrap_or_default();
    let (will, did) = match step.action.as_str() {
        "make-group" => ("make group", "made group"),
        "remove-group" => ("remove group", "removed group"),
        "move" => ("move process", "moved process"),
        _ => ("write", "wrote"),
    };
    let action = if applied { did } else { will };
    match step.value {
        Some(_) => format!("{action} {value} to {}", step.path),
        None => format!("{action} {}", step.path),
    }
}

/// A line that is not wrapped: paths are copied from it. Names come from other users.
fn line(out: &mut String, text: &str) {
    out.push_str(&printable(text));
    out.push('\n');
}
