//! An incident of the seconds that it is made of.

use std::collections::BTreeMap;

use pgcalm_monitor::model::CheckpointPhase;
use pgcalm_render::number::{percent, plural, short};

use crate::detect::{Open, Subject};
use crate::incident::{Cause, Change, Incident, LockWait, Moment, Stuck, WaitTime};
use crate::second::{Answer, Second};
use crate::stuck::{Looks, by_function};
use crate::verdict;
use crate::verdict::Window;

/// Rows that are kept of what can be many.
const MOST: usize = 20;

/// Causes in which processes are held in the kernel.
const ON_DISKS: [Cause; 15] = [
    Cause::VolumeHung,
    Cause::MemoryReclaim,
    Cause::ArchiveBlocks,
    Cause::TemporaryFiles,
    Cause::BackupCheckpoint,
    Cause::CheckpointSync,
    Cause::WalAtCap,
    Cause::DirtyLimit,
    Cause::Journal,
    Cause::BackupReads,
    Cause::ColdCache,
    Cause::CheckpointWrite,
    Cause::KernelFlusher,
    Cause::DeviceAtCap,
    Cause::Unknown,
];

/// Longest time between two samples that still counts as one second lost.
const LONGEST_STEP: f64 = 3.0;

/// Makes it. `ended_by` says why it ended where not by itself.
pub fn incident(subject: &Subject, open: &Open, ended_by: Option<&'static str>) -> Incident {
    let during: Vec<&Second> = open.seconds[open.first..=open.last].iter().map(|(second, _)| second).collect();
    let bad: Vec<&Second> =
        open.seconds[open.first..=open.last].iter().filter(|(_, bad)| *bad).map(|(second, _)| second).collect();
    // Those of an incident shortly before are no measure.
    let before: Vec<&Second> =
        open.seconds[..open.first].iter().filter(|(_, bad)| !*bad).map(|(second, _)| second).collect();
    let mut looks = Looks::default();
    during.iter().for_each(|second| looks.join(&second.looks));
    let stuck = looks.all();
    let window = Window { during: bad.clone(), before, usual: open.usual, stuck: &stuck };
    let mut verdicts = verdict::judge(&window);
    let first = (!verdicts.is_empty()).then(|| verdicts.remove(0));
    let (started_ms, ended_ms) = (started_ms(&during), ended_ms(open));
    let fresh = || bad.iter().filter(|second| second.answer == Answer::Fresh);
    let worst = fresh().filter_map(|second| second.commits).min_by(f64::total_cmp);
    let held_sessions = bad.iter().map(|second| second.held().max(second.slow)).max().unwrap_or(0);
    let longest = |second: &&Second| match second.answer {
        Answer::Hung(seconds) => seconds,
        _ => second.blocked.iter().map(|one| one.seconds).fold(second.slow_seconds, f64::max),
    };
    let cause = first.as_ref().map_or(Cause::Unknown, |verdict| verdict.cause);
    Incident {
        pgcalm: env!("CARGO_PKG_VERSION").to_string(),
        id: None,
        server: subject.name.clone(),
        data_directory: subject.data_directory.clone(),
        server_version: subject.version.clone(),
        started_ms,
        ended_ms,
        // The first bad sample stands for the second before it.
        seconds: (ended_ms.saturating_sub(started_ms) as f64 / 1000.0).round() + 1.0,
        ended_by: ended_by.map(str::to_string),
        usual_commits_per_second: (open.usual.commits > 0.0).then_some(open.usual.commits),
        worst_commits_per_second: worst,
        lost_commits: lost_commits(open).round(),
        held_sessions,
        longest_wait_seconds: bad.iter().map(longest).fold(0.0, f64::max),
        cause,
        sentence: match &first {
            Some(verdict) => verdict.sentence.clone(),
            None => unknown(&bad, open),
        },
        chain: chain(cause, &bad, &stuck, open),
        evidence: first.map(|verdict| verdict.evidence).unwrap_or_default(),
        also: verdicts,
        waits: waits(&bad),
        blocked: blocked(&bad),
        stuck: stuck.into_iter().take(MOST).collect(),
        samples: open.samples.clone().map(|samples| samples.bounded(MOST)),
        changes: changes(open),
        cure: verdict::cure(cause),
        timeline: open.seconds.iter().map(|(second, bad)| moment(second, *bad)).collect(),
    }
}

/// The first second's end. A recorder that gets no processor takes few samples: since when a server hangs is told by each of them.
fn started_ms(during: &[&Second]) -> u64 {
    let hung = during.iter().find(|second| matches!(second.answer, Answer::Hung(_)));
    let hung_ms = hung.map_or(u64::MAX, |second| second.asked_ms + 1000);
    during[0].time_ms.min(hung_ms)
}

/// The last bad second's end; of a server that hung, when it was asked for what it answered again.
fn ended_ms(open: &Open) -> u64 {
    let last = &open.seconds[open.last].0;
    let next = open.seconds[open.last + 1..].iter().find(|(second, _)| second.answer != Answer::Silent);
    match (last.answer, next) {
        (Answer::Hung(_), Some((next, _))) if next.answer == Answer::Fresh => next.asked_ms.max(last.time_ms),
        _ => last.time_ms,
    }
}

/// Commits fewer than usual in the bad seconds.
pub fn lost_commits(open: &Open) -> f64 {
    let mut lost = 0.0;
    for (at, (second, _)) in open.seconds.iter().enumerate().take(open.last + 1).skip(open.first) {
        let step = at
            .checked_sub(1)
            .map_or(1.0, |before| second.time_ms.saturating_sub(open.seconds[before].0.time_ms) as f64 / 1000.0);
        let commits = match second.answer {
            _ if has_no_word(second) => meanwhile(open, at),
            Answer::Fresh => second.commits.unwrap_or(open.usual.commits),
            _ => 0.0,
        };
        let longest = match second.answer {
            Answer::Hung(seconds) => seconds,
            Answer::Closed => f64::INFINITY,
            _ => LONGEST_STEP,
        };
        lost += (open.usual.commits - commits).max(0.0) * step.min(longest);
    }
    lost
}

/// Whether counters were asked for in vain, so that the rate in the next answer spans this second, too.
fn has_no_word(second: &Second) -> bool {
    match second.answer {
        Answer::Hung(_) | Answer::Silent => true,
        Answer::Fresh => second.is_blind && second.commits.is_none(),
        Answer::Closed | Answer::Away => false,
    }
}

/// Commits per second while nothing was answered: the recorder may wait for what users don't need. The rate of the next answer spans
/// that time, or that of the one after it, where the recorder had the counters before it had to wait. A new session has no rate:
/// then all counts as lost.
fn meanwhile(open: &Open, at: usize) -> f64 {
    let seconds = open.seconds[at..].iter().map(|(second, _)| second);
    let mut answers = seconds.filter(|second| second.answer == Answer::Fresh && !has_no_word(second));
    let Some(rate) = answers.next().and_then(|second| second.commits) else { return 0.0 };
    answers.next().and_then(|second| second.commits).map_or(rate, |next| next.min(rate))
}

/// What can be said where no cause can be shown.
fn unknown(bad: &[&Second], open: &Open) -> String {
    let hung = bad.iter().any(|second| matches!(second.answer, Answer::Hung(_)));
    let what = if hung { "The server did not answer" } else { "Commits stood back" };
    let wait = waits(bad).into_iter().find(|wait| wait.event != "cpu");
    let wait = wait.map_or(String::new(), |wait| format!(" while sessions waited in {}", wait.event));
    let lost = open.samples.iter().flat_map(|samples| &samples.totals.shares).find(|share| share.share >= 0.5);
    match lost {
        Some(share) => {
            let (part, why) = (percent(share.share), share.cause.label());
            format!("{what}{wait}. By samples, {part} of the time that sessions lost went to: {why}.")
        }
        None => format!("{what}{wait}, and nothing that was recorded shows why: the cause is unknown."),
    }
}

fn moment(second: &Second, bad: bool) -> Moment {
    let operations = |disk: &crate::second::Disk| disk.reads + disk.writes;
    let wal = second.wal.as_ref().filter(|disk| !disk.is_shared);
    let phase = second.checkpoint.as_ref().map(|checkpoint| checkpoint.phase);
    Moment {
        time_ms: second.time_ms,
        bad,
        commits: second.commits.filter(|_| second.answer == Answer::Fresh),
        held: second.held().max(second.slow),
        data_operations: second.data.as_ref().map(operations),
        wal_operations: wal.map(operations),
        checkpoint: phase.filter(|phase| *phase != CheckpointPhase::Idle).map(|phase| phase.name().to_string()),
    }
}

/// From what began it to whom it held.
fn chain(cause: Cause, bad: &[&Second], stuck: &[Stuck], open: &Open) -> Vec<String> {
    let mut chain = Vec::new();
    let phases: Vec<&str> = bad
        .iter()
        .filter_map(|second| second.checkpoint.as_ref())
        .filter(|checkpoint| checkpoint.phase != CheckpointPhase::Idle)
        .map(|checkpoint| checkpoint.phase.name())
        .collect();
    if let Some(most) = most_often(&phases) {
        chain.push(format!("checkpoint, {most} phase"));
    }
    if matches!(cause, Cause::BackupCheckpoint | Cause::BackupReads) {
        let runs = bad.iter().flat_map(|second| &second.maintenance);
        chain.extend(runs.filter(|one| matches!(one.kind.as_str(), "base_backup" | "dump")).map(named).next());
    }
    // Of other causes, who slept in the kernel for a moment says nothing.
    let often = |stuck: &&Stuck| stuck.seconds >= 0.3 * bad.len() as f64;
    if let Some(first) = by_function(stuck).iter().find(often).filter(|_| ON_DISKS.contains(&cause)) {
        let Stuck { process, seconds, function, waits_for, .. } = first;
        let place = if function.is_empty() { "the kernel" } else { function.as_str() };
        let what = waits_for.as_ref().map_or(String::new(), |what| format!(": {what}"));
        chain.push(format!("{process} {} s in {place}{what}", short(*seconds)));
    }
    let lost = open.samples.iter().flat_map(|samples| &samples.totals.shares);
    if let Some((lock, share)) = lost.filter(|share| share.share >= 0.3).find_map(|it| Some((it.through.as_ref()?, it)))
    {
        chain.push(format!("backends behind {lock}, whose holder waited for: {}", share.cause.label()));
    }
    let disks: Vec<_> = bad.iter().flat_map(|second| second.disks()).collect();
    let fullest = disks.iter().max_by(|a, b| (a.cap_share() + a.busy).total_cmp(&(b.cap_share() + b.busy)));
    if let Some(disk) = fullest.filter(|disk| disk.is_full() || cause == Cause::VolumeHung) {
        chain.push(match &disk.cap {
            Some(cap) if cap.share() >= 0.85 => {
                format!(
                    "disk {}: {} of {} {} per second",
                    disk.name,
                    cap.amount(cap.used),
                    cap.amount(cap.allowed),
                    cap.what
                )
            }
            _ => format!("disk {}: busy {} of the time", disk.name, percent(disk.busy)),
        });
    }
    if let Some(wait) = waits(bad).into_iter().find(|wait| wait.event != "cpu") {
        chain.push(format!("{} waiting in {}", plural(wait.sessions as f64, "session"), wait.event));
    }
    let worst = bad.iter().filter_map(|second| second.commits).min_by(f64::total_cmp);
    if let (Some(worst), true) = (worst, open.usual.commits > 0.0) {
        chain.push(format!("commits: {} per second instead of {}", short(worst), short(open.usual.commits)));
    }
    chain
}

fn most_often<'a>(names: &[&'a str]) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name)
}

fn named(one: &pgcalm_monitor::model::Maintenance) -> String {
    let kind = one.kind.replace('_', " ");
    one.object.as_ref().map_or(kind.clone(), |object| format!("{kind} of {object}"))
}

fn waits(bad: &[&Second]) -> Vec<WaitTime> {
    let mut times: BTreeMap<&str, WaitTime> = BTreeMap::new();
    for (event, sessions) in bad.iter().flat_map(|second| &second.events) {
        let time =
            times.entry(event).or_insert_with(|| WaitTime { event: event.clone(), sessions: 0, session_seconds: 0.0 });
        time.sessions = time.sessions.max(*sessions);
        time.session_seconds += *sessions as f64;
    }
    let mut times: Vec<WaitTime> = times.into_values().collect();
    times.sort_by(|a, b| b.session_seconds.total_cmp(&a.session_seconds));
    times.truncate(MOST);
    times
}

fn blocked(bad: &[&Second]) -> Vec<LockWait> {
    let mut waits: BTreeMap<(i32, i32), LockWait> = BTreeMap::new();
    for one in bad.iter().flat_map(|second| &second.blocked) {
        let wait = waits.entry((one.pid, one.by)).or_insert_with(|| LockWait {
            pid: one.pid,
            by: one.by,
            by_state: one.by_state.clone(),
            lock: one.lock.clone(),
            seconds: 0.0,
        });
        wait.seconds = wait.seconds.max(one.seconds);
    }
    let mut waits: Vec<LockWait> = waits.into_values().collect();
    waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    waits.truncate(MOST);
    waits
}

/// What began or ended from the minute before on.
fn changes(open: &Open) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut says = |time_ms, what: String| {
        if changes.len() < MOST {
            changes.push(Change { time_ms, what });
        }
    };
    // A server that was away is compared with what it was before.
    let answered =
        || open.seconds[..=open.last].iter().map(|(second, _)| second).filter(|it| it.answer == Answer::Fresh);
    for (before, now) in answered().zip(answered().skip(1)) {
        let at = now.time_ms;
        let phase = |second: &Second| second.checkpoint.as_ref().map(|checkpoint| checkpoint.phase);
        match (phase(before), phase(now)) {
            (Some(CheckpointPhase::Idle), Some(phase)) if phase != CheckpointPhase::Idle => {
                says(at, format!("checkpoint began{}", reason(before, now)));
            }
            (Some(phase), Some(CheckpointPhase::Idle)) if phase != CheckpointPhase::Idle => {
                says(at, "checkpoint ended".to_string());
            }
            _ => {}
        }
        let is_new = |one: &&pgcalm_monitor::model::Maintenance, than: &Second| {
            !than.maintenance.iter().any(|other| other.kind == one.kind && other.object == one.object)
        };
        for one in now.maintenance.iter().filter(|one| is_new(one, before)) {
            says(at, format!("{} began", named(one)));
        }
        for one in before.maintenance.iter().filter(|one| is_new(one, now)) {
            says(at, format!("{} ended", named(one)));
        }
        for disk in now.disks().filter(|disk| disk.cap_share() >= 0.9) {
            let was = before.disks().find(|other| other.name == disk.name);
            if let (Some(cap), true) = (&disk.cap, was.is_some_and(|was| was.cap_share() < 0.9)) {
                says(
                    at,
                    format!(
                        "disk {} reached its cap of {} {} per second",
                        disk.name,
                        cap.amount(cap.allowed),
                        cap.what
                    ),
                );
            }
        }
        if now.archive_fails && !before.archive_fails && before.archives {
            says(at, "an attempt to archive failed".to_string());
        }
        if now.is_primary == Some(true) && before.is_primary == Some(false) {
            says(at, "the server was promoted".to_string());
        }
        if let (Some(uptime), Some(was)) = (now.uptime, before.uptime)
            && uptime < was
        {
            says(at, "the server was restarted".to_string());
        }
        let throttled = |second: &Second| second.group.and_then(|group| group.throttled).unwrap_or(0.0);
        if throttled(now) >= 0.2 && throttled(before) < 0.2 {
            says(at, "the control group's quota of CPU was used up".to_string());
        }
        let steal = |second: &Second| second.cpu.map_or(0.0, |cpu| cpu.steal);
        if steal(now) >= 0.15 && steal(before) < 0.15 {
            says(at, "the hypervisor took processors away".to_string());
        }
        let memory = |second: &Second| second.pressure.map_or(0.0, |pressure| pressure.memory_some);
        if memory(now) >= 0.2 && memory(before) < 0.2 {
            says(at, "tasks began to wait for memory".to_string());
        }
    }
    changes
}

/// Why a checkpoint was begun, as far as it is known.
fn reason(before: &Second, now: &Second) -> String {
    if let Some(reason) = now.checkpoint.as_ref().and_then(|checkpoint| checkpoint.reason.as_ref()) {
        return format!(" ({reason})");
    }
    // The counters tell when it is over before PostgreSQL 17, when it begins since.
    if now.checkpoints_requested > before.checkpoints_requested {
        return " (asked for, by WAL or a command)".to_string();
    }
    String::new()
}
