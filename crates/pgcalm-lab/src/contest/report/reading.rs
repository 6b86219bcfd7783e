//! The comparison in words: computed facts only, no judgement.

use std::cmp::Ordering;

use pgcalm_render::number::{factor, plural, printable, short};

use crate::contest::report::metric::{DEVICE_WRITE_OPS, SECONDS_ZERO, TPS_MEAN, TPS_MIN};
use crate::contest::report::{Backlog, CapKind, Contestant, Report, Run, cached, troubles};

/// The contestant that the others are there to be compared with.
const SUBJECT: &str = "pg_calm";
/// Not a rival but the rate that no writeback could slow down; compared by throughput only.
const REFERENCE: &str = "stock-uncapped";
/// So little dirty page cache is left on a host that is otherwise idle.
const DRAINED_MIB: f64 = 16.0;
/// Steal that can be seen in the TPS of a load that takes what CPU time it can get.
const STEAL_PERCENT: f64 = 5.0;
/// Late answers of an emulated volume that make it another one than was asked for.
const LATE_PERCENT: f64 = 1.0;

/// One line per rival of the subject, the most telling first: `pg_calm: 3.1x stock's mean TPS, ...`.
///
/// The subject is `pg_calm`, or the last contestant where it did not run; `stock` comes first among the rivals. Never
/// empty: with a single contestant it gives that one's own figures.
pub fn lines(report: &Report) -> Vec<String> {
    let ran: Vec<&Contestant> =
        report.contestants.iter().filter(|contestant| TPS_MEAN.of(contestant).is_some()).collect();
    let candidates = || ran.iter().copied().filter(|contestant| contestant.name != REFERENCE);
    let subject = candidates()
        .find(|contestant| contestant.name == SUBJECT)
        .or_else(|| candidates().next_back())
        .or_else(|| ran.last().copied());
    let Some(subject) = subject else { return vec!["No run was completed.".to_string()] };
    let others = || ran.iter().copied().filter(|contestant| !std::ptr::eq(*contestant, subject));
    // Figures of what is not steady are not to be compared: they are other ones in a longer run.
    let steady = |contestant: &&Contestant| contestant.objection().is_none();
    let mut lines: Vec<String> = Some(subject)
        .filter(steady)
        .into_iter()
        .flat_map(|subject| {
            let mut rivals: Vec<&Contestant> =
                others().filter(|contestant| contestant.name != REFERENCE).filter(steady).collect();
            // `stock` is what a reader has today.
            rivals.sort_by_key(|rival| rival.name != "stock");
            match rivals.is_empty() {
                true => vec![alone(subject)],
                false => rivals.into_iter().map(|rival| against(subject, rival)).collect(),
            }
        })
        .collect();
    if let Some(line) = lines.first_mut()
        && report.cap.kind == CapKind::CloudVolume
    {
        let (volume, _) = report.cap.description.split_once(':').unwrap_or((&report.cap.description, ""));
        line.push_str(&format!(" ({})", printable(volume)));
    }
    let (steady, unsteady): (Vec<_>, Vec<_>) =
        ran.iter().filter_map(|contestant| steadiness(contestant)).partition(|(steady, _line)| *steady);
    let line = |(_steady, line)| line;
    lines.splice(0..0, unsteady.into_iter().map(line));
    lines.extend(steady.into_iter().map(line));
    // Where a run had not come to rest, its other figures are not what a longer run would have.
    let (steady, unsteady): (Vec<_>, Vec<_>) =
        ran.iter().filter_map(|contestant| backlog(contestant)).partition(|(steady, _line)| *steady);
    lines.extend(unsteady.into_iter().chain(steady).map(|(_steady, line)| line));
    lines.extend(ran.iter().filter_map(|contestant| under_way(contestant)));
    lines.extend(ran.iter().filter_map(|contestant| failure(contestant)));
    lines.extend(ran.iter().filter_map(|contestant| caps_lifted(contestant)));
    lines.extend(ran.iter().filter_map(|contestant| steal(contestant)));
    lines.extend(ran.iter().filter_map(|contestant| held_up(contestant)));
    lines.extend(ran.iter().filter_map(|contestant| late(contestant)));
    lines.extend(ran.iter().filter_map(|contestant| from_server(contestant)));
    lines.extend(troubles::lines(report));
    lines.extend(ran.iter().filter_map(|contestant| cached::line(contestant)));
    let reference = others().find(|contestant| contestant.name == REFERENCE);
    if let Some(share) = reference.and_then(|reference| share_of(subject, reference)) {
        lines.push(format!("{}: {share} of the uncapped mean TPS", name(subject)));
    }
    lines
}

fn against(subject: &Contestant, rival: &Contestant) -> String {
    let pair =
        |metric: &crate::contest::report::metric::Metric| Some((metric.median_of(subject)?, metric.median_of(rival)?));
    let mut facts = Vec::new();
    if let Some((ours, theirs)) = pair(&TPS_MEAN) {
        facts.push(match factor(ours, theirs) {
            Some(factor) => format!("{factor} {}'s mean TPS", name(rival)),
            None => format!("{} TPS against {}'s {}", short(ours), name(rival), short(theirs)),
        });
    }
    match (pair(&SECONDS_ZERO), pair(&TPS_MIN)) {
        // Neither came to a halt: the worst second tells them apart.
        (Some((0.0, 0.0)), Some((ours, theirs))) => {
            facts.push(format!("worst second {} TPS against {}", short(ours), short(theirs)));
        }
        (Some((ours, theirs)), _) => {
            facts.push(format!("{} at zero against {}", plural(ours, "second"), short(theirs)));
        }
        _ => {}
    }
    if let Some((ours, theirs)) = pair(&DEVICE_WRITE_OPS) {
        facts.push(match factor(ours, theirs) {
            Some(factor) => format!("{factor} the device write operations"),
            None => format!("{} device write operations/s against {}", short(ours), short(theirs)),
        });
    }
    format!("{}: {}", name(subject), facts.join(", "))
}

/// For how long the machine held up the emulated volume, where it did, and how many runs were made again for that.
fn held_up(contestant: &Contestant) -> Option<String> {
    let longest = contestant.runs.iter().filter_map(|run| run.volume_held_up_s).fold(0.0, f64::max);
    let again = contestant.held_up_runs;
    (again > 0 || longest > 0.0).then(|| {
        let name = name(contestant);
        let again = if again > 0 {
            format!("; {} made again for that", plural(f64::from(again), "run"))
        } else {
            String::new()
        };
        format!("{name}: the machine held up the volume for {longest:.2} s at most in a run{again}")
    })
}

/// How many answers of the emulated volume were late, where that was more than a few: of the worst run.
fn late(contestant: &Contestant) -> Option<String> {
    let most = contestant.runs.iter().filter_map(|run| run.volume_late_share).fold(0.0, f64::max) * 100.0;
    (most > LATE_PERCENT).then(|| {
        format!(
            "{}: {} % of the volume's answers in a run were late by more than 0.2 ms",
            name(contestant),
            short(most)
        )
    })
}

/// Whether it went on until it was steady, of the run that tells worst of it.
fn steadiness(contestant: &Contestant) -> Option<(bool, String)> {
    let name = name(contestant);
    if let Some(objection) = contestant.objection() {
        return Some((false, format!("{name}: not steady: {}", printable(objection))));
    }
    let (of_run, steadiness) = contestant.runs.iter().find_map(|run| Some((run, run.steadiness.as_ref()?)))?;
    let (first, last) = steadiness.dirty.first().zip(steadiness.dirty.last())?;
    Some((
        true,
        format!(
            "{name}: steady over {} in {} s, after {} s of load; {} MiB dirty after the last, {} MiB at the beginning",
            plural(f64::from(contestant.checkpoints()), "checkpoint"),
            of_run.series.tps.len(),
            short(steadiness.warm_up_s),
            short(last.dirty.mib()),
            short(first.dirty.mib())
        ),
    ))
}

/// Whether writes kept up with what was dirtied, and what was left at the end: of the run that tells worst of it.
fn backlog(contestant: &Contestant) -> Option<(bool, String)> {
    let undrained = |backlog: &Backlog| {
        let bound = backlog.drain_bound_s.unwrap_or(0.0);
        backlog.drain_s.unwrap_or(bound + 1.0)
    };
    let backlog = contestant.runs.iter().filter_map(|run| run.backlog.as_ref()).max_by(|a, b| {
        (!a.steady_state, undrained(a)).partial_cmp(&(!b.steady_state, undrained(b))).unwrap_or(Ordering::Equal)
    })?;
    let mut line = format!("{}: ", name(contestant));
    if backlog.steady_state {
        line.push_str("steady");
    } else {
        line.push_str(&format!(
            "not steady: {} MiB were dirty {} s before the end, and {} MiB written since",
            short(backlog.minute_before_end.mib()),
            short(backlog.last_minute_s),
            short(backlog.written_last_minute_mib)
        ));
    }
    line.push_str(&format!("; {} MiB dirty at the end", short(backlog.end.mib())));
    if backlog.end.dirty_shared_buffers_mib.is_none() {
        line.push_str(" beside shared buffers, which are not known");
    }
    match (backlog.drain_s, backlog.drain_bound_s) {
        (Some(seconds), _) => {
            line.push_str(&format!(", drained in {} s", short(seconds)));
            // What did not fall any more is hardly the server's: it had completed a checkpoint.
            if let Some(left) = backlog.left_after_drain_mib.filter(|left| *left >= DRAINED_MIB) {
                line.push_str(&format!(", but for {} MiB of the host", short(left)));
            }
        }
        (None, Some(bound)) => {
            line.push_str(&format!(", not drained in {} s", short(bound)));
        }
        (None, None) => {}
    }
    Some((backlog.steady_state, line))
}

/// A checkpoint that did not end within the run, the longest of all runs.
fn under_way(contestant: &Contestant) -> Option<String> {
    let seconds = contestant.runs.iter().filter_map(|run| run.checkpoint_under_way_s).max_by(f64::total_cmp)?;
    Some(format!("{}: a checkpoint was still under way {} s after it began", name(contestant), short(seconds)))
}

/// The server's end, the earliest of all runs.
fn failure(contestant: &Contestant) -> Option<String> {
    let failure = contestant
        .runs
        .iter()
        .filter_map(|run| run.server_failure.as_ref())
        .min_by(|a, b| a.at_s.total_cmp(&b.at_s))?;
    Some(format!(
        "{}: the server gave up after {} s: {}",
        name(contestant),
        short(failure.at_s),
        printable(&failure.message)
    ))
}

/// That its longest transaction would have been longer, had it been waited for under the caps.
pub(crate) fn caps_lifted(contestant: &Contestant) -> Option<String> {
    let longest = |run: &Run| {
        let of_server = run.latency_server_ms.map(|latency| latency.oldest);
        run.latency_ms.map(|latency| latency.max).or(of_server).unwrap_or(0.0)
    };
    let cut = contestant.runs.iter().filter(|run| run.caps_lifted).map(longest).max_by(f64::total_cmp)?;
    Some(format!(
        "{}: the caps were lifted for clients that were late: the longest transaction is at least {} ms",
        name(contestant),
        short(cut)
    ))
}

/// Seconds whose figures are the machine's: the hypervisor had its CPUs run something else.
fn steal(contestant: &Contestant) -> Option<String> {
    let shares = || contestant.runs.iter().flat_map(|run| &run.series.cpu_steal_percent);
    let most = shares().copied().max_by(f64::total_cmp)?;
    let seconds = shares().filter(|share| **share > STEAL_PERCENT).count();
    (seconds > 0).then(|| {
        format!(
            "{}: the hypervisor withheld more than {STEAL_PERCENT} % of the CPU time in {} of {}, {} % at most",
            name(contestant),
            seconds,
            plural(shares().count() as f64, "second"),
            short(most)
        )
    })
}

/// What is known of latency where the load does not tell; of several runs the slowest.
fn from_server(contestant: &Contestant) -> Option<String> {
    let latency =
        contestant.runs.iter().filter_map(|run| run.latency_server_ms).max_by(|a, b| a.mean.total_cmp(&b.mean))?;
    Some(format!(
        "{}: transactions that wrote, counted in the server; mean latency of all {} ms, the oldest seen under way {} ms",
        name(contestant),
        short(latency.mean),
        short(latency.oldest)
    ))
}

fn alone(subject: &Contestant) -> String {
    let mut facts = Vec::new();
    facts.extend(TPS_MEAN.median_of(subject).map(|tps| format!("{} TPS mean", short(tps))));
    facts.extend(TPS_MIN.median_of(subject).map(|tps| format!("worst second {}", short(tps))));
    facts.extend(SECONDS_ZERO.median_of(subject).map(|seconds| format!("{} at zero", plural(seconds, "second"))));
    facts.extend(DEVICE_WRITE_OPS.median_of(subject).map(|ops| format!("{} device write operations/s", short(ops))));
    format!("{}: {}", name(subject), facts.join(", "))
}

fn share_of(subject: &Contestant, reference: &Contestant) -> Option<String> {
    let (ours, full) = (TPS_MEAN.median_of(subject)?, TPS_MEAN.median_of(reference)?);
    let share = 100.0 * ours / full;
    // One decimal: whether 94.6 or 95.4 % matters.
    (full > 0.0 && share.is_finite() && share < 1e6).then(|| format!("{share:.1} %"))
}

fn name(contestant: &Contestant) -> String {
    printable(&contestant.name)
}
