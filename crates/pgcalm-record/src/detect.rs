//! Which seconds were bad for users, and incidents of these.
//!
//! A second is bad by what it did to users against what is usual for this server at this load: commits far below the usual while
//! sessions have work, statements that pile up, processes that serve users and don't come out of the kernel, a server that takes
//! several times its usual time to answer the recorder, or does not answer at all. Load that goes away takes its sessions with it,
//! and is no stall.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pgcalm_monitor::model::{Host, Instance, WaitCause};
use pgcalm_trace::why::report::Samples;

use crate::baseline::{Baseline, Usual};
use crate::incident::{GOES_ON, Incident};
use crate::report::build;
use crate::second::{Answer, Second};
use crate::stuck::{Looks, Target};

/// Seconds that are kept from before an incident, and added after it.
const AROUND: usize = 60;

/// So many good seconds in a row end an incident.
const GOOD_AT_END: usize = 3;

/// After so many seconds a stall is what is usual from now on; a server that hangs or recovers never is.
const LONGEST: usize = 600;

/// So many seconds without a connection end an incident: the server was stopped.
const AWAY_AT_END: usize = 5;

/// After so many samples without it an instance is forgotten, and what was usual for it.
const FORGOTTEN: usize = 3600;

/// One that goes on for as long is told before it ends: nobody knows whether the recorder lives to see that.
const LONG_MS: u64 = 30_000;

/// A longer time between two samples, and than two intervals, is a gap: the recorder or the machine was stopped, or the clock was set.
const GAP_MS: u64 = 10_000;

/// Watches all instances.
pub struct Detector {
    servers: BTreeMap<String, Server>,
    gap_ms: u64,
}

/// What a sample came to.
#[derive(Debug, Default)]
pub struct Step {
    /// Each instance's second, and whether it was bad.
    pub seconds: Vec<(String, Second, bool)>,
    /// Incidents that are over. One that is given again, with the same server and beginning, has more of what followed.
    pub incidents: Vec<Incident>,
}

/// An instance, as far as incidents name it.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its data directory.
    pub data_directory: Option<String>,
    /// Its version.
    pub version: Option<String>,
    pid: Option<i32>,
    cluster_name: String,
}

#[derive(Default)]
struct Server {
    subject: Subject,
    baseline: Baseline,
    recent: VecDeque<(Second, bool)>,
    /// Samples in which it was not there.
    absent: usize,
    last_asked: Option<u64>,
    last_commits: Option<f64>,
    /// Whether it took writes when that was last known.
    is_primary: Option<bool>,
    /// What was seen of its processes since the last second.
    looks: Looks,
    open: Option<Open>,
    /// Last bad second of the last incident: milliseconds since 1970.
    ended_ms: u64,
    /// The last incident, while what follows it is added.
    after: Option<(Open, Option<&'static str>, usize)>,
}

/// An incident that goes on.
#[derive(Debug, Clone, Default)]
pub struct Open {
    /// The minute before, then all since, and which were bad.
    pub seconds: Vec<(Second, bool)>,
    /// The first bad one.
    pub first: usize,
    /// The last bad one so far.
    pub last: usize,
    /// What was usual when it began.
    pub usual: Usual,
    /// What was sampled of it.
    pub samples: Option<Samples>,
    /// Whether it was told while it went on, so that its end is, too.
    pub is_told: bool,
}

impl Open {
    /// From the first bad second to the last one.
    fn lasted_ms(&self) -> u64 {
        let time = |at: usize| self.seconds.get(at).map(|(second, _)| second.time_ms);
        time(self.last).zip(time(self.first)).map_or(0, |(last, first)| last.saturating_sub(first))
    }
}

/// Of a sample each second.
impl Default for Detector {
    fn default() -> Self {
        Self::every(Duration::from_secs(1))
    }
}

impl Detector {
    /// Of samples at this interval.
    pub fn every(interval: Duration) -> Self {
        Self { servers: BTreeMap::new(), gap_ms: GAP_MS.max(interval.as_millis() as u64 * 5 / 2) }
    }

    /// Takes a sample.
    pub fn push(&mut self, host: &Host) -> Step {
        let mut step = Step::default();
        for instance in &host.instances {
            let server = self.servers.entry(instance.identity.name.clone()).or_default();
            server.subject.update(instance);
            server.absent = 0;
            let looks = std::mem::take(&mut server.looks);
            let second = Second { looks, ..Second::of(host, instance, server.last_asked) };
            server.last_asked = instance.sampled_ms.or(server.last_asked);
            let bad = server.push(second.clone(), self.gap_ms, &mut step.incidents);
            step.seconds.push((instance.identity.name.clone(), second, bad));
        }
        // One that is stopped is found no more.
        for (name, server) in &mut self.servers {
            if !host.instances.iter().any(|instance| instance.identity.name == *name) {
                server.absent += 1;
                server.push(
                    Second { time_ms: host.time_ms, answer: Answer::Away, ..Second::default() },
                    self.gap_ms,
                    &mut step.incidents,
                );
            }
        }
        // One that was given another port does not come back.
        self.servers.retain(|_, server| server.absent < FORGOTTEN);
        step
    }

    /// What holds users now, as far as it can be told already.
    pub fn going_on(&self) -> impl Iterator<Item = Incident> {
        self.servers.values().filter_map(|server| {
            let open = server.open.as_ref().filter(|open| open.last < open.seconds.len())?;
            Some(build::incident(&server.subject, open, None))
        })
    }

    /// Those that have gone on for long and meant something, as far as they can be told.
    pub fn tell_long(&mut self) -> Vec<Incident> {
        let mut incidents = Vec::new();
        for server in self.servers.values_mut() {
            if let Some(open) = server.open.as_mut().filter(|open| open.lasted_ms() >= LONG_MS && is_worth_it(open)) {
                open.is_told = true;
                incidents.push(build::incident(&server.subject, open, Some(GOES_ON)));
            }
        }
        incidents
    }

    /// Those whose processes are looked at.
    pub fn targets(&self) -> Vec<Target> {
        let target = |server: &Server| {
            let Subject { name, cluster_name, pid, .. } = &server.subject;
            let held = server.open.is_some();
            Some(Target { server: name.clone(), postmaster: (*pid)?, cluster_name: cluster_name.clone(), held })
        };
        self.servers.values().filter(|server| server.absent == 0).filter_map(target).collect()
    }

    /// Adds what was seen of these processes; it goes into the second that comes next.
    pub fn add_looks(&mut self, looks: &[(String, Looks)]) {
        for (name, looks) in looks {
            if let Some(server) = self.servers.get_mut(name) {
                server.looks.join(looks);
            }
        }
    }

    /// Adds what `of` says was sampled of a server; what comes after a good second is of that.
    pub fn add_samples(&mut self, of: impl Fn(&str) -> Option<Samples>) {
        for (name, server) in &mut self.servers {
            if let Some(open) = server.open.as_mut().filter(|open| open.last + 1 == open.seconds.len()) {
                open.samples = of(name);
            }
        }
    }

    /// Ends all that goes on, as at the end of the recording.
    pub fn finish(&mut self) -> Vec<Incident> {
        let mut incidents = Vec::new();
        for server in self.servers.values_mut() {
            server.close(Some("recorder_gap"), &mut incidents);
            server.complete(&mut incidents);
        }
        incidents
    }
}

impl Subject {
    fn update(&mut self, instance: &Instance) {
        let identity = &instance.identity;
        self.name.clone_from(&identity.name);
        self.pid = identity.pid;
        // A server that doesn't answer still has its name.
        if identity.data_directory.is_some() {
            self.data_directory.clone_from(&identity.data_directory);
        }
        if instance.reachability.is_reachable() {
            self.version.clone_from(&identity.version);
            self.cluster_name = identity.cluster_name.clone().unwrap_or_default();
        }
    }
}

impl Server {
    /// Takes a second; whether it was bad.
    fn push(&mut self, second: Second, gap_ms: u64, incidents: &mut Vec<Incident>) -> bool {
        if let Some((before, _)) = self.recent.back()
            && (second.time_ms < before.time_ms || second.time_ms - before.time_ms > gap_ms)
        {
            self.close(Some("recorder_gap"), incidents);
            self.complete(incidents);
            self.recent.clear();
            self.last_commits = None;
        }
        // Of another role nothing is usual yet: what reports leave of a primary's commits is no stall.
        if self.is_primary.zip(second.is_primary).is_some_and(|(was, is)| was != is) {
            self.close(None, incidents);
            self.complete(incidents);
            self.baseline.clear();
            self.last_commits = None;
        }
        self.is_primary = second.is_primary.or(self.is_primary);
        let judged = self.judge(&second);
        let bad = judged == Some(true);
        if second.commits.is_some() && second.answer == Answer::Fresh {
            self.last_commits = second.commits;
        }
        if bad && self.open.is_none() {
            self.complete(incidents);
            self.begin(&second);
        }
        // Before the usual is known, each second counts for it.
        if !bad && second.answer == Answer::Fresh && self.open.is_none() {
            self.baseline.push(&second);
        }
        self.recent.push_back((second.clone(), bad));
        if self.recent.len() > AROUND {
            self.recent.pop_front();
        }
        if let Some((after, _, left)) = &mut self.after {
            after.seconds.push((second.clone(), false));
            *left -= 1;
            if *left == 0 {
                self.complete(incidents);
            }
        }
        self.go_on(second, bad, incidents);
        bad
    }

    fn go_on(&mut self, mut second: Second, bad: bool, incidents: &mut Vec<Incident>) {
        let Some(open) = &mut self.open else { return };
        let hangs = |second: &Second| matches!(second.answer, Answer::Hung(_) | Answer::Closed);
        // Of a hang that lasts, the newest second stands for those before: what is lost goes by the time between two.
        if open.seconds.len() > open.first + LONGEST
            && hangs(&second)
            && let Some((before, _)) = open.seconds.pop_if(|(before, _)| hangs(before))
        {
            second.looks.join(&before.looks);
        }
        open.seconds.push((second, bad));
        if bad {
            open.last = open.seconds.len() - 1;
        }
        let since = &open.seconds[open.last + 1..];
        let away = since.iter().rev().take_while(|(second, _)| second.answer == Answer::Away).count();
        let fresh = || since.iter().map(|(second, _)| second).filter(|second| second.answer == Answer::Fresh);
        let good = fresh().filter(|second| second.commits_to_judge().is_some()).count();
        if away >= AWAY_AT_END {
            self.close(Some("server_away"), incidents);
        } else if good >= GOOD_AT_END || fresh().count() >= AROUND {
            // Where commits are never known, none is seen to be good.
            self.close(None, incidents);
        } else if open.seconds[open.first..=open.last].iter().filter(|(second, _)| !hangs(second)).count() > LONGEST {
            self.close(Some("became_usual"), incidents);
            self.baseline.clear();
        }
    }

    /// Whether users were held; `None` if the second does not tell.
    fn judge(&self, second: &Second) -> Option<bool> {
        match second.answer {
            Answer::Hung(_) => return Some(true),
            // One that was up a moment ago and was not stopped: of a crash there is no other sign.
            Answer::Closed => {
                let mut last = self.recent.iter().rev().take(AWAY_AT_END);
                let was_up = last.any(|(second, _)| second.answer == Answer::Fresh);
                return (was_up || self.open.is_some()).then_some(true);
            }
            Answer::Silent | Answer::Away => return None,
            Answer::Fresh => {}
        }
        let usual = match &self.open {
            Some(open) => open.usual,
            None => self.baseline.usual()?,
        };
        let answers_late = second.answer_seconds > 1.0 && second.answer_seconds > 5.0 * usual.answer;
        // As of a statement of ours that was cancelled.
        let Some(commits) = second.commits_to_judge() else { return answers_late.then_some(true) };
        let active = second.active as f64;
        let has_work = active >= (0.6 * usual.active).max(1.0);
        // Sessions report their commits once a second at most, so one with few sessions has none in this second and two in the
        // next: two seconds count together, unless sessions are seen to wait.
        let level = match (&self.open, self.last_commits) {
            (None, Some(last)) => (commits + last) / 2.0,
            _ => commits,
        };
        // However uneven a load is: with next to nothing, users are held.
        let uneven = (4.0 * usual.commits_deviation).min(0.8 * usual.commits);
        let below = |level: f64, part: f64| {
            usual.commits >= 5.0 && level < part * usual.commits && level < usual.commits - uneven
        };
        let stands = below(commits, 0.1) && active >= usual.active.max(2.0) && second.held() as f64 >= 0.5 * active;
        let falls = has_work && below(level, 0.5) && below(commits, 0.6);
        let slow = second.slow as f64;
        let queues: u64 = [WaitCause::Lock, WaitCause::SynchronousReplication, WaitCause::Guard]
            .iter()
            .map(|cause| second.waiting(*cause))
            .sum();
        let piles = slow >= (3.0 * usual.slow + 2.0).max(3.0)
            && slow >= 0.3 * active
            && (queues >= 2 || commits < 0.9 * usual.commits);
        // A statement may take as long as it likes, but one that sleeps in the kernel does nothing for its user, however many others
        // commit. Sessions that maintain or dump are expected to wait, and they or their workers may be those that sleep: beside them
        // commits have to fall, too, where these tell anything.
        let maintain = ["vacuum", "index", "cluster", "dump"];
        let maintain = second.maintenance.iter().filter(|one| maintain.contains(&one.kind.as_str())).count() as f64;
        let asleep = second.looks.users as f64 - maintain;
        let fewer = usual.commits < 5.0 || commits < 0.75 * usual.commits;
        let sleeps =
            asleep > 2.0 * usual.asleep && active >= 1.0 && (maintain == 0.0 || asleep >= 0.3 * active && fewer);
        Some(stands || falls || piles || sleeps || answers_late)
    }

    /// Begins an incident at the first of the seconds before that were as bad already.
    fn begin(&mut self, second: &Second) {
        let usual = self.baseline.usual().unwrap_or_default();
        let hung_since = match second.answer {
            Answer::Hung(_) => second.asked_ms,
            _ => u64::MAX,
        };
        let mut seconds: Vec<(Second, bool)> = self.recent.iter().cloned().collect();
        let mut first = seconds.len();
        while let Some((before, bad)) = first.checked_sub(1).map(|at| &mut seconds[at]) {
            let fell = before.answer == Answer::Fresh
                && usual.commits >= 5.0
                && before.commits.is_some_and(|commits| commits < 0.6 * usual.commits)
                && before.active > 0;
            // The recorder's session, too, ends before it is told why.
            let lost = before.answer == Answer::Away && second.answer == Answer::Closed;
            if before.time_ms <= self.ended_ms
                || !(fell || lost || before.answer == Answer::Silent || before.time_ms >= hung_since)
            {
                break;
            }
            *bad = true;
            first -= 1;
        }
        // Silence alone is none.
        while first < seconds.len()
            && seconds[first].0.answer == Answer::Silent
            && seconds[first].0.time_ms < hung_since
        {
            seconds[first].1 = false;
            first += 1;
        }
        let last = seconds.len();
        self.open = Some(Open { seconds, first, last, usual, samples: None, is_told: false });
    }

    /// Ends the incident that goes on, and gives it if it meant anything.
    fn close(&mut self, by: Option<&'static str>, incidents: &mut Vec<Incident>) {
        let Some(mut open) = self.open.take() else { return };
        open.last = open.last.min(open.seconds.len().saturating_sub(1));
        self.ended_ms = open.seconds.get(open.last).map_or(0, |(second, _)| second.time_ms);
        if open.seconds.is_empty() || !open.is_told && !is_worth_it(&open) {
            return;
        }
        incidents.push(build::incident(&self.subject, &open, by));
        self.after = Some((open, by, AROUND));
    }

    /// Gives the last incident again, with what followed.
    fn complete(&mut self, incidents: &mut Vec<Incident>) {
        if let Some((open, by, _)) = self.after.take() {
            incidents.push(build::incident(&self.subject, &open, by));
        }
    }
}

/// One second's worth of commits was lost, or sessions stood in a queue or slept in the kernel, or the server did not answer and
/// commits don't tell whether anybody but the recorder waited.
fn is_worth_it(open: &Open) -> bool {
    let bad = || open.seconds[open.first..=open.last].iter().filter(|(_, bad)| *bad).map(|(second, _)| second);
    let hung = bad().any(|second| matches!(second.answer, Answer::Hung(_)));
    let piled = bad().filter(|second| second.slow >= 3).count() >= 2;
    let asleep = bad().filter(|second| second.looks.users > 0).count() >= 2;
    let late = bad().filter(|second| second.answer_seconds > 1.0).count() >= 2;
    hung && open.usual.commits < 5.0
        || piled
        || asleep
        || late
        || build::lost_commits(open) >= 0.8 * open.usual.commits.max(5.0)
}

#[cfg(test)]
mod tests;
