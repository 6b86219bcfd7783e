//! The stall card: one incident, for somebody who knows no kernel.

use pgcalm_render::chart::{Chart, Entry, Limit, Scale, style};
use pgcalm_render::document::{Block, Column, Document, Section, Table};
use pgcalm_render::number::{MISSING, plural, short};
use pgcalm_render::text::width;

use super::time::{time, with_zone};
use crate::incident::{Cause, Evidence, GOES_ON, Incident, Moment};
use crate::stuck::by_function;

/// Rows of a table that a terminal has room for.
const IN_TERMINAL: usize = 8;

/// Causes, calls and stacks that are shown of samples, the longest of each.
const SAMPLED: usize = 5;

/// The card.
pub fn document(incident: &Incident) -> Document {
    let number = incident.id.map_or(String::new(), |id| format!(" {id}"));
    let mut document = Document::new("pgcalm", &format!("incident{number}"), &with_zone(incident.started_ms));
    document.title = Some(headline(incident));
    let mut server = vec![format!("instance {}", incident.server)];
    server.extend(incident.server_version.as_ref().map(|version| format!("PostgreSQL {version}")));
    server.extend(incident.data_directory.clone());
    document.conditions = vec![server, vec![format!("recorded by pgcalm {}", incident.pgcalm)]];

    let first = document.section("");
    first.add(Block::Elsewhere(vec![Block::Text(headline(incident))]));
    first.text(incident.sentence.clone());
    first.table(held(incident));
    for other in &incident.also {
        first.text(format!("At the same time: {}", other.sentence));
    }
    if !incident.chain.is_empty() {
        document.section("Why").text(format!("{}.", incident.chain.join(" → ")));
    }
    proof(document.section("The proof"), incident);
    let cure = document.section(if incident.cause == Cause::Unknown { "Next" } else { "The cure" });
    cure.text(incident.cure.text.clone()).add(Block::Command(incident.cure.command.clone()));
    if let Some(rule) = &incident.cure.rule {
        cure.note(format!("pgcalm doctor judges it by its rule {rule}."));
    }
    changes(&mut document, incident);
    whom(&mut document, incident);
    if let Some(samples) = &incident.samples {
        samples.clone().bounded(SAMPLED).show(document.section("Who waited for whom"));
    }
    document
}

/// What, from when to when, in one line.
pub fn headline(incident: &Incident) -> String {
    let span = if incident.started_ms / 1000 == incident.ended_ms / 1000 {
        format!("at {}", time(incident.started_ms))
    } else {
        format!("from {} to {}", time(incident.started_ms), time(incident.ended_ms))
    };
    format!("Instance {} stalled for {} s, {span}: {}", incident.server, short(incident.seconds), words(incident.cause))
}

/// The cause in words.
pub fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::VolumeHung => "the volume hung",
        Cause::MemoryReclaim => "memory ran out",
        Cause::CpuQuota => "the CPU quota was used up",
        Cause::CpuSteal => "the hypervisor took the processors",
        Cause::LockPileUp => "a queue for a lock",
        Cause::SlowSynchronousStandby => "a slow synchronous standby",
        Cause::ArchiveBlocks => "the archive",
        Cause::ConnectionStorm => "a storm of connections",
        Cause::TemporaryFiles => "temporary files",
        Cause::BackupCheckpoint => "a base backup's checkpoint",
        Cause::CheckpointSync => "fsync of a checkpoint",
        Cause::WalAtCap => "WAL on a disk at its cap",
        Cause::DirtyLimit => "the kernel's dirty limit",
        Cause::Journal => "the file system's journal",
        Cause::BackupReads => "a backup that read",
        Cause::ColdCache => "reads of a cold cache",
        Cause::CheckpointWrite => "a checkpoint's writes",
        Cause::KernelFlusher => "the kernel's flusher",
        Cause::LwlockConvoy => "a queue for a lightweight lock",
        Cause::DeviceAtCap => "a disk at its cap",
        Cause::CpuBusy => "no processor was free",
        Cause::ServerRestarted => "the server restarted or recovered",
        Cause::Unknown => "cause unknown",
    }
}

/// Whom it held, and how badly.
fn held(incident: &Incident) -> Table {
    let mut table = Table { is_pairs: true, ..Table::new(["what", "how much"].map(Column::text)) };
    let mut row = |what: &str, how: String| table.row([what.to_string(), how]);
    if let Some(usual) = incident.usual_commits_per_second {
        let worst = incident.worst_commits_per_second.unwrap_or(0.0);
        row("commits per second", format!("{} at worst, {} usually", short(worst), short(usual)));
        row("commits lost", short(incident.lost_commits));
    }
    row("sessions held at once", short(incident.held_sessions as f64));
    if incident.longest_wait_seconds > 0.0 {
        row("longest wait", format!("{} s", short(incident.longest_wait_seconds)));
    }
    match incident.ended_by.as_deref() {
        Some("server_away") => row("ended", "as the server went away".to_string()),
        Some("recorder_gap") => {
            row("ended", "for the recorder, which was stopped; users may have been held longer".to_string());
        }
        Some(GOES_ON) => row("ended", "not yet when this was written".to_string()),
        Some("became_usual") => row("ended", "not: after ten minutes it is what is usual".to_string()),
        _ => {}
    }
    table
}

fn proof(section: &mut Section, incident: &Incident) {
    section.add(Block::Charts(charts(incident)));
    let usual = incident.usual_commits_per_second;
    section.add(Block::Elsewhere(vec![Block::Text(format!("commits    {}", bars(&incident.timeline, usual)))]));
    section.add(Block::Elsewhere(vec![Block::Text(format!("stalled    {}", marks(&incident.timeline)))]));
    section.table(evidence(&incident.evidence));
    for other in &incident.also {
        section.table(evidence(&other.evidence));
    }
}

fn evidence(rows: &[Evidence]) -> Table {
    let mut table = Table::new([Column::text("figure"), Column::text("then"), Column::text("before")]);
    for one in rows {
        let before = if one.before.is_empty() { MISSING } else { &one.before };
        table.row([one.what.clone(), one.during.clone(), before.to_string()]);
    }
    table
}

/// Commits, and what the disks did, by second; the stall as a lane of its own.
fn charts(incident: &Incident) -> Vec<Chart> {
    let timeline = by_second(&incident.timeline);
    let values = |of: fn(&Moment) -> Option<f64>| timeline.iter().map(|moment| moment.as_ref().and_then(of)).collect();
    let names = ["commits", "during the stall", "disk of the data", "disk of WAL"];
    let styles = style::assign(&names, names.into_iter());
    let entry = |at: usize, line: Vec<Option<f64>>| Entry {
        name: names[at].to_string(),
        style: styles[at],
        lines: vec![line],
        checkpoints: Vec::new(),
    };
    let usual = incident
        .usual_commits_per_second
        .map(|usual| Limit { value: usual, label: format!("usual: {}", short(usual)) });
    // What had waited comes at once: beside such a peak the stall would hardly be seen.
    let most = incident.usual_commits_per_second.map_or(f64::INFINITY, |usual| 2.0 * usual);
    let cut = |line: Vec<Option<f64>>| line.into_iter().map(|value| value.map(|value: f64| value.min(most))).collect();
    // Drawn apart, so that the one does not lie on the other.
    let good = cut(values(|moment| moment.commits.filter(|_| !moment.bad)));
    let bad = cut(values(|moment| moment.commits.filter(|_| moment.bad)));
    let mut commits =
        Chart::of("Commits per second", "commits", vec![entry(0, good), entry(1, bad)], Scale::Linear, usual);
    let begin = incident.timeline.first().map_or(incident.started_ms, |moment| moment.time_ms);
    let stall = incident.started_ms.saturating_sub(begin) / 1000;
    commits.note = format!(
        "Second 0 is {}; the stall begins at second {stall} and lasts {} s.",
        time(begin),
        short(incident.seconds)
    );
    if timeline.iter().flatten().any(|moment| moment.commits.is_some_and(|commits| commits > most)) {
        commits.note.push_str(&format!(" Cut at {}: what had waited came at once.", short(most)));
    }
    let mut disks =
        vec![entry(2, values(|moment| moment.data_operations)), entry(3, values(|moment| moment.wal_operations))];
    disks.retain(|entry| entry.lines.iter().flatten().any(Option::is_some));
    let mut operations = Chart::of("Operations per second", "operations", disks, Scale::Linear, None);
    operations.note = "Reads and writes that the disks completed.".to_string();
    let mut charts = vec![commits, operations];
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// One moment for each second; none where there was no sample.
fn by_second(timeline: &[Moment]) -> Vec<Option<Moment>> {
    let Some(first) = timeline.first() else { return Vec::new() };
    let mut seconds: Vec<Option<Moment>> = Vec::new();
    for moment in timeline {
        let at = (moment.time_ms.saturating_sub(first.time_ms) as f64 / 1000.0).round() as usize;
        // A clock that was set may not ask for memory without end.
        if at < 4 * 3600 {
            seconds.resize(seconds.len().max(at + 1), None);
            seconds[at] = Some(moment.clone());
        }
    }
    seconds
}

/// Commits as one character each second, from nothing to half more than usual: those that had waited come at once.
fn bars(timeline: &[Moment], usual: Option<f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let seconds = around(timeline);
    let most = seconds.iter().flatten().filter_map(|moment| moment.commits).fold(0.0, f64::max);
    let most = usual.map_or(most, |usual| most.min(1.5 * usual));
    let bar = |moment: &Option<Moment>| match moment.as_ref().and_then(|moment| moment.commits) {
        Some(commits) if most > 0.0 => BARS[((commits / most * 7.0).round() as usize).min(7)],
        Some(_) => BARS[0],
        None => '·',
    };
    seconds.iter().map(bar).collect()
}

/// Which of these were bad.
fn marks(timeline: &[Moment]) -> String {
    let is_bad = |moment: &Option<Moment>| moment.as_ref().is_some_and(|moment| moment.bad);
    let marks: String = around(timeline).iter().map(|moment| if is_bad(moment) { '^' } else { '-' }).collect();
    marks
}

/// Seconds for which a line has room, with the stall among them.
fn around(timeline: &[Moment]) -> Vec<Option<Moment>> {
    // The rest of the line is its name.
    const NAME: usize = 11;
    const MOST: usize = 80;
    let room = MOST.min(usize::from(width()) - NAME);
    let seconds = by_second(timeline);
    let first = seconds.iter().position(|moment| moment.as_ref().is_some_and(|moment| moment.bad)).unwrap_or(0);
    let begin = first.saturating_sub(room / 4).min(seconds.len().saturating_sub(room));
    seconds.into_iter().skip(begin).take(room).collect()
}

fn changes(document: &mut Document, incident: &Incident) {
    if incident.changes.is_empty() {
        return;
    }
    let mut table = Table::new([Column::text("time"), Column::text("what else changed")]);
    table.most_in_terminal = Some(IN_TERMINAL);
    for change in &incident.changes {
        table.row([time(change.time_ms), change.what.clone()]);
    }
    document.section("What else changed").table(table);
}

/// Who waited for what.
fn whom(document: &mut Document, incident: &Incident) {
    let section = document.section("Who waited");
    let mut waits = Table::new([
        Column::text("waiting in"),
        Column::figures("sessions,\nmost").meaning("Sessions that waited there at once."),
        Column::figures("session\nseconds").meaning("Their waiting time added up, by one look per second."),
    ]);
    waits.most_in_terminal = Some(IN_TERMINAL);
    for wait in &incident.waits {
        waits.row([wait.event.clone(), short(wait.sessions as f64), short(wait.session_seconds)]);
    }
    section.table(waits);
    let mut locks = Table::new([
        Column::text("process"),
        Column::text("lock"),
        Column::figures("waited for\nprocess"),
        Column::text("which was"),
        Column::figures("seconds"),
    ]);
    locks.most_in_terminal = Some(IN_TERMINAL);
    for wait in &incident.blocked {
        let cells =
            [wait.pid.to_string(), wait.lock.clone(), wait.by.to_string(), wait.by_state.clone(), short(wait.seconds)];
        locks.row(cells);
    }
    section.table(locks);
    let mut stuck = Table::new([
        Column::text("asleep in\nthe kernel"),
        Column::figures("seconds").meaning("Time of all such processes added up, by two looks each second."),
        Column::text("waiting for"),
        Column::stack("kernel functions"),
    ]);
    stuck.most_in_terminal = Some(IN_TERMINAL);
    for one in by_function(&incident.stuck) {
        stuck.row([one.process, short(one.seconds), one.waits_for.unwrap_or_default(), one.stack.join("\n")]);
    }
    section.table(stuck);
    if incident.stuck.is_empty() {
        section.note("No process was seen asleep in the kernel.");
    } else if incident.stuck.iter().all(|one| one.stack.is_empty()) {
        section.note("In which kernel functions they slept is for root alone to read.");
    }
    section.note(format!("{} recorded around it.", plural(incident.timeline.len() as f64, "second")));
}
