use pgcalm_monitor::model::{
    Activity, Connections, Counters, Identity, Instance, Maintenance, Rates, Reachability, ServerRole, Wait,
};
use pgcalm_trace::report::file_kind::FileKind;
use pgcalm_trace::why::report::{Cause as Why, Share, Totals};

use super::*;
use crate::incident::Cause;

mod long;
mod mostly;

/// A server that does `commits` per second with `active` sessions, of which so many wait for WAL.
#[derive(Clone, Copy)]
struct Load {
    commits: f64,
    active: u64,
    waiting: u64,
    slow: u64,
}

const EVEN: Load = Load { commits: 100.0, active: 4, waiting: 1, slow: 0 };
const STALL: Load = Load { commits: 2.0, active: 4, waiting: 4, slow: 0 };

struct Made {
    detector: Detector,
    time_ms: u64,
    step_ms: u64,
    started_ms: u64,
    incidents: Vec<Incident>,
}

impl Made {
    fn new() -> Self {
        Self {
            detector: Detector::default(),
            time_ms: 1_000_000_000,
            step_ms: 1000,
            started_ms: 0,
            incidents: Vec::new(),
        }
    }

    fn instance(&self, load: Load) -> Instance {
        let wait = |event_type: &str, event: &str, cause, sessions| Wait {
            cause,
            event_type: event_type.to_string(),
            event: event.to_string(),
            sessions,
        };
        Instance {
            identity: Identity { name: "5432".to_string(), pid: Some(7), ..Identity::default() },
            reachability: Reachability::Reachable,
            role: Some(ServerRole::Primary),
            sampled_ms: Some(self.time_ms),
            sample_seconds: Some(0.01),
            uptime_seconds: Some((self.time_ms - self.started_ms) as f64 / 1000.0),
            rates: Some(Rates { commits_per_second: load.commits, ..Rates::default() }),
            counters: Some(Counters::default()),
            activity: Some(Activity {
                connections: Connections { active: load.active, ..Connections::default() },
                waits: vec![
                    wait("IO", "WALSync", WaitCause::Wal, load.waiting),
                    wait("", "", WaitCause::Cpu, load.active - load.waiting),
                ],
                slow_sessions: load.slow,
                slow_seconds: (load.slow > 0).then_some(3.0),
                ..Activity::default()
            }),
            ..Instance::default()
        }
    }

    fn sample(&mut self, instances: Vec<Instance>) -> usize {
        self.time_ms += self.step_ms;
        let host = Host { time_ms: self.time_ms, instances, ..Host::default() };
        let step = self.detector.push(&host);
        self.incidents.extend(step.incidents);
        step.seconds.iter().filter(|(_, _, bad)| *bad).count()
    }

    fn seconds(&mut self, count: usize, load: Load) -> &mut Self {
        for second in 0..count {
            // No load is quite even.
            let wobble = 1.0 + ((second * 7 % 11) as f64 - 5.0) / 50.0;
            let instance = self.instance(Load { commits: load.commits * wobble, ..load });
            self.sample(vec![instance]);
        }
        self
    }

    /// Processes were seen asleep, so many of them holding users.
    fn look(&mut self, process: &str, users: u64) -> &mut Self {
        let mut looks = Looks::default();
        looks.add(process, vec!["jbd2_log_wait_commit".to_string()]);
        looks.users = users;
        self.detector.add_looks(&[("5432".to_string(), looks)]);
        self
    }

    /// A second of load beside a session that maintains.
    fn beside(&mut self, kind: &str, load: Load) {
        let maintenance = vec![Maintenance { kind: kind.to_string(), ..Maintenance::default() }];
        let instance = Instance { maintenance, ..self.instance(load) };
        self.sample(vec![instance]);
    }

    fn hung(&mut self, seconds: usize) -> &mut Self {
        for waited in 0..seconds {
            self.hung_for(waited as f64 + 3.0);
        }
        self
    }

    /// The first answer of a new session, as that before was given up: it has no rates.
    fn back(&mut self) -> &mut Self {
        let instance = Instance { rates: None, ..self.instance(EVEN) };
        self.sample(vec![instance]);
        self
    }

    fn hung_for(&mut self, seconds: f64) {
        let mut instance = self.instance(EVEN);
        instance.sampled_ms = None;
        instance.rates = None;
        instance.activity = None;
        instance.reachability = Reachability::Hung { seconds };
        self.sample(vec![instance]);
    }
}

#[test]
fn a_stall_is_one_incident_with_the_minute_before_and_what_followed() {
    let mut made = Made::new();
    made.seconds(100, EVEN);
    let begin = made.time_ms;
    made.seconds(6, STALL).seconds(GOOD_AT_END - 1, EVEN);
    assert_eq!(made.incidents, []);
    assert_eq!(made.detector.going_on().map(|incident| incident.server).collect::<Vec<_>>(), ["5432"]);
    assert_eq!(made.detector.targets().len(), 1);
    made.seconds(1, EVEN);
    assert_eq!(made.incidents.len(), 1);
    let incident = made.incidents[0].clone();
    assert_eq!((incident.started_ms, incident.ended_ms, incident.seconds), (begin + 1000, begin + 6000, 6.0));
    assert_eq!((incident.server.as_str(), incident.cause), ("5432", Cause::Unknown));
    assert!((incident.lost_commits - 588.0).abs() < 30.0, "{}", incident.lost_commits);
    assert_eq!((incident.held_sessions, incident.ended_by), (4, None));
    assert_eq!(incident.waits[0].event, "IO:WALSync");
    assert_eq!(incident.timeline.len(), AROUND + 6 + GOOD_AT_END);
    // What follows comes later, for the same incident.
    made.seconds(AROUND, EVEN);
    assert_eq!(made.incidents.len(), 2);
    let whole = &made.incidents[1];
    assert_eq!((whole.started_ms, &whole.waits), (incident.started_ms, &incident.waits));
    assert_eq!(whole.timeline.len(), AROUND + 6 + GOOD_AT_END + AROUND);
    made.seconds(100, EVEN);
    assert_eq!(made.incidents.len(), 2);
}

#[test]
fn even_load_load_that_ends_and_load_that_begins_are_none() {
    let mut made = Made::new();
    made.seconds(300, EVEN);
    let none = Load { commits: 0.0, active: 0, waiting: 0, slow: 0 };
    made.seconds(30, none).seconds(60, EVEN);
    // A checkpoint's dips.
    let dip = Load { commits: 65.0, active: 4, waiting: 3, slow: 0 };
    for _ in 0..20 {
        made.seconds(10, EVEN).seconds(3, dip);
    }
    // A report that runs long while others work, and a session alone.
    made.seconds(60, Load { slow: 1, ..EVEN });
    made.seconds(60, Load { commits: 20.0, active: 1, waiting: 1, slow: 0 });
    // One whose commits are told a second late.
    let alone = |commits| Load { commits, active: 1, waiting: 0, slow: 0 };
    made.seconds(300, alone(20.0));
    for _ in 0..30 {
        made.seconds(5, alone(20.0)).seconds(1, alone(0.0)).seconds(1, alone(40.0));
    }
    assert_eq!(made.incidents, []);
}

#[test]
fn before_the_usual_is_known_nothing_is_judged_but_a_server_that_hangs() {
    let mut made = Made::new();
    made.seconds(5, EVEN).seconds(20, STALL);
    assert_eq!(made.incidents, []);
    let mut made = Made::new();
    made.seconds(3, EVEN).hung(4).seconds(10, EVEN);
    assert_eq!(made.incidents.len(), 1);
}

#[test]
fn a_volume_that_hangs_has_all_its_seconds() {
    let mut made = Made::new();
    made.seconds(60, EVEN);
    let begin = made.time_ms;
    // The last answer is shown for a while before the server counts as hung.
    let silent = made.instance(EVEN);
    let silent = Instance { sampled_ms: Some(begin), ..silent };
    for _ in 0..2 {
        made.sample(vec![silent.clone()]);
    }
    made.hung(28).back().seconds(20, EVEN);
    let incident = &made.incidents[0];
    assert!(incident.seconds >= 29.0, "{}", incident.seconds);
    assert_eq!(incident.longest_wait_seconds, 30.0);
    assert!(incident.lost_commits >= 2800.0, "{}", incident.lost_commits);
    assert!(incident.sentence.contains("did not answer"), "{}", incident.sentence);
}

#[test]
fn what_was_committed_while_the_recorder_waited_is_not_lost() {
    let after = |rates: &[f64]| {
        let mut made = Made::new();
        made.seconds(60, EVEN).hung(6);
        for commits in rates {
            let instance = made.instance(Load { commits: *commits, ..EVEN });
            made.sample(vec![instance]);
        }
        made.seconds(10, EVEN);
        made.incidents.first().map(|incident| incident.lost_commits)
    };
    assert_eq!(after(&[100.0, 100.0]), None);
    // Counters that were read at the end of the hang, or before it.
    for rates in [&[14.0, 120.0], &[100.0, 14.0]] {
        let lost = after(rates).unwrap();
        assert!((500.0..650.0).contains(&lost), "{lost}");
    }
}

#[test]
fn a_stall_goes_on_while_the_recorder_s_statements_are_cancelled() {
    let mut made = Made::new();
    made.seconds(60, EVEN).hung(4);
    let begin = made.time_ms;
    for sample_seconds in [7.0, 0.01, 0.01, 7.0, 0.01, 0.01] {
        let blind =
            Instance { sample_seconds: Some(sample_seconds), rates: None, activity: None, ..made.instance(EVEN) };
        made.sample(vec![blind]);
    }
    made.seconds(2, STALL);
    assert_eq!((made.detector.going_on().count(), made.incidents.len()), (1, 0));
    made.seconds(GOOD_AT_END, EVEN);
    assert_eq!((made.incidents.len(), made.incidents[0].ended_ms), (1, begin + 8000));
}

#[test]
fn seconds_without_sessions_say_nothing_of_what_is_usual() {
    let mut made = Made::new();
    made.seconds(60, EVEN);
    for _ in 0..400 {
        let blind = Instance { activity: None, ..made.instance(EVEN) };
        made.sample(vec![blind]);
    }
    // To whom an idle server is the usual, one session alone would be a crowd.
    made.seconds(60, Load { commits: 20.0, active: 1, waiting: 1, slow: 0 });
    assert_eq!((made.detector.going_on().count(), made.incidents.len()), (0, 0));
    // Where commits are never known, a hang ends all the same.
    made.hung(4);
    for _ in 0..AROUND {
        let blind = Instance { rates: None, activity: None, ..made.instance(EVEN) };
        made.sample(vec![blind]);
    }
    assert_eq!(made.incidents.len(), 1);
}

#[test]
fn a_recorder_that_hardly_gets_a_processor_counts_all_of_a_hang() {
    let mut made = Made::new();
    made.seconds(60, EVEN);
    let begin = made.time_ms;
    // Asked at once; samples after 5 and 9 seconds, then one that was asked for after 12.
    for at in [5, 9] {
        made.time_ms = begin + (at - 1) * 1000;
        made.hung_for(at as f64 - 0.1);
    }
    made.time_ms = begin + 12_000;
    made.back().seconds(10, EVEN);
    let incident = &made.incidents[0];
    assert_eq!((incident.started_ms - begin, incident.seconds), (1100, 12.0));
    assert!(incident.lost_commits > 850.0, "{}", incident.lost_commits);
}

#[test]
fn a_standstill_of_an_uneven_load_is_an_incident() {
    let mut made = Made::new();
    for _ in 0..20 {
        made.seconds(2, Load { commits: 40.0, ..EVEN }).seconds(2, Load { commits: 160.0, ..EVEN });
    }
    assert_eq!(made.incidents, []);
    made.seconds(6, Load { commits: 0.0, ..STALL }).seconds(10, EVEN);
    assert_eq!(made.incidents.len(), 1);
    assert_eq!(made.incidents[0].seconds, 6.0);
}

#[test]
fn statements_that_pile_up_are_bad_although_others_commit() {
    let mut made = Made::new();
    let pile = Load { commits: 80.0, active: 12, waiting: 8, slow: 8 };
    made.seconds(60, EVEN).seconds(6, pile).seconds(10, EVEN);
    assert_eq!(made.incidents.len(), 1);
    assert_eq!((made.incidents[0].held_sessions, made.incidents[0].longest_wait_seconds), (8, 3.0));
}

#[test]
fn who_sleeps_in_the_kernel_is_held_where_commits_tell_nothing() {
    let few = Load { commits: 1.0, active: 2, waiting: 1, slow: 0 };
    let asleep = |made: &mut Made, seconds, process: &str, users| {
        for _ in 0..seconds {
            made.look(process, users).seconds(1, few);
        }
    };
    let mut made = Made::new();
    made.seconds(60, few);
    assert!(made.detector.targets().iter().all(|target| target.postmaster == 7 && !target.held));
    // The checkpointer alone holds nobody, and a second is over before anybody asks.
    asleep(&mut made, 20, "checkpointer", 0);
    asleep(&mut made, 1, "client backend", 1);
    made.seconds(10, few);
    // It is the dump that sleeps.
    for _ in 0..5 {
        made.look("client backend", 1).beside("dump", few);
    }
    made.seconds(10, few);
    assert_eq!(made.incidents, []);
    asleep(&mut made, 5, "client backend", 1);
    assert!(made.detector.targets()[0].held);
    made.seconds(10, few);
    let incident = &made.incidents[0];
    assert_eq!((incident.seconds, incident.cause), (5.0, Cause::Journal));
    let link = "client backend 2.50 s in jbd2_log_wait_commit: ext4 journal (jbd2)";
    assert!(incident.chain.iter().any(|part| part == link), "{:?}", incident.chain);
    // Where it is what is usual, it is none.
    let mut made = Made::new();
    asleep(&mut made, 100, "client backend", 1);
    made.seconds(10, few);
    assert_eq!(made.incidents, []);
}

#[test]
fn who_sleeps_in_the_kernel_is_held_although_others_commit_as_usual() {
    let mut made = Made::new();
    made.seconds(60, EVEN);
    // Now and then for a moment, and workers of an index that is built.
    for _ in 0..5 {
        made.look("client backend", 1).seconds(1, EVEN).seconds(10, EVEN);
        made.look("parallel worker", 3).beside("index", EVEN);
        made.look("parallel worker", 3).beside("index", EVEN);
    }
    made.seconds(10, EVEN);
    assert_eq!(made.incidents, []);
    for _ in 0..3 {
        made.look("client backend", 1).seconds(1, EVEN);
    }
    made.seconds(10, EVEN);
    assert_eq!((made.incidents.len(), made.incidents[0].seconds), (1, 3.0));
}

#[test]
fn an_incident_has_what_was_sampled_up_to_its_last_bad_second() {
    let mut made = Made::new();
    made.seconds(60, EVEN).seconds(2, STALL);
    let of = |seconds| {
        let through = Some("WALWrite".to_string());
        let share =
            Share { cause: Why::WalWrite, file: FileKind::Wal, object: None, through, seconds: 9.0, share: 0.9 };
        let totals = Totals { seconds, shares: vec![share], ..Totals::default() };
        move |server: &str| (server == "5432").then(|| Samples { totals: totals.clone(), ..Samples::default() })
    };
    made.detector.add_samples(of(1));
    made.seconds(1, STALL);
    made.detector.add_samples(of(2));
    made.seconds(1, EVEN);
    made.detector.add_samples(of(3));
    made.seconds(10, EVEN);
    made.detector.add_samples(of(4));
    made.seconds(AROUND, EVEN);
    for incident in &made.incidents {
        assert_eq!(incident.samples.as_ref().map(|samples| samples.totals.seconds), Some(2));
        assert!(
            incident.sentence.ends_with("90 % of the time that sessions lost went to: WAL write or fsync."),
            "{incident:#?}"
        );
        assert!(incident.chain.iter().any(|link| link.starts_with("backends behind WALWrite")), "{incident:#?}");
    }
}

#[test]
fn a_server_that_goes_away_ends_it_and_comes_back_without_one() {
    let mut made = Made::new();
    made.seconds(60, EVEN).seconds(4, STALL);
    for _ in 0..30 {
        made.sample(Vec::new());
    }
    made.started_ms = made.time_ms;
    assert_eq!(made.incidents[0].ended_by.as_deref(), Some("server_away"));
    let count = made.incidents.len();
    // Started anew, it is compared with what it was before.
    made.seconds(10, EVEN).seconds(6, STALL).seconds(10, EVEN);
    let again = made.incidents.last().unwrap();
    assert!(again.changes.iter().any(|change| change.what == "the server was restarted"), "{:?}", again.changes);
    let count = count.max(made.incidents.len());
    made.seconds(60, EVEN);
    assert!(made.incidents[count..].iter().all(|it| it.started_ms == made.incidents[count - 1].started_ms));
}

#[test]
fn a_server_that_crashes_and_recovers_is_an_incident_and_one_that_refuses_the_recorder_is_none() {
    let mut made = Made::new();
    let refused = |made: &mut Made, closed, seconds| {
        for _ in 0..seconds {
            let reachability = Reachability::Unreachable { why: String::new(), closed, denied: !closed };
            let identity = made.instance(EVEN).identity;
            made.sample(vec![Instance { identity, reachability, ..Instance::default() }]);
        }
    };
    made.seconds(60, EVEN);
    refused(&mut made, false, 3);
    made.seconds(60, EVEN);
    assert_eq!((made.detector.going_on().count(), made.incidents.len()), (0, 0));
    let begin = made.time_ms;
    // Longer than what is slow may be before it is the usual.
    refused(&mut made, false, 1);
    refused(&mut made, true, LONGEST + 100);
    made.seconds(10, EVEN);
    assert_eq!(made.incidents.len(), 1);
    let incident = &made.incidents[0];
    assert_eq!((incident.started_ms - begin, incident.cause), (1000, Cause::ServerRestarted));
    let seconds = LONGEST as f64 + 101.0;
    assert!(incident.ended_by.is_none() && incident.seconds == seconds, "{incident:?}");
    assert!((incident.lost_commits / seconds - 100.0).abs() < 10.0, "{}", incident.lost_commits);
    // One that was stopped holds nobody when it is started.
    let mut made = Made::new();
    made.seconds(60, EVEN);
    refused(&mut made, false, AWAY_AT_END);
    refused(&mut made, true, 30);
    assert_eq!((made.detector.going_on().count(), made.incidents.len()), (0, 0));
}

#[test]
fn a_primary_that_becomes_a_standby_is_judged_by_what_is_usual_for_that() {
    let mut made = Made::new();
    let standby = |made: &mut Made, count, load| {
        for _ in 0..count {
            let instance = Instance { role: Some(ServerRole::Standby), ..made.instance(load) };
            made.sample(vec![instance]);
        }
    };
    let reports = Load { commits: 20.0, waiting: 0, ..EVEN };
    made.seconds(60, EVEN);
    standby(&mut made, 120, reports);
    assert_eq!((made.detector.going_on().count(), made.incidents.len()), (0, 0));
    standby(&mut made, 6, STALL);
    assert_eq!(made.detector.going_on().count(), 1);
    // It ends with the role.
    made.seconds(1, EVEN);
    assert_eq!((made.detector.going_on().count(), made.incidents[0].seconds), (0, 6.0));
}

#[test]
fn a_clock_that_jumps_and_a_recorder_that_ends_lose_no_incident() {
    for jump in [3_600_000_i64, -3_600_000] {
        let mut made = Made::new();
        made.seconds(60, EVEN).seconds(4, STALL);
        made.time_ms = made.time_ms.checked_add_signed(jump).unwrap();
        made.seconds(30, EVEN);
        assert_eq!(made.incidents[0].ended_by.as_deref(), Some("recorder_gap"), "{jump}");
        assert_eq!(made.incidents[0].seconds, 4.0);
        assert!(made.incidents.iter().all(|incident| incident.started_ms == made.incidents[0].started_ms));
    }
    let mut made = Made::new();
    made.seconds(60, EVEN).seconds(4, STALL);
    assert_eq!(made.detector.finish()[0].ended_by.as_deref(), Some("recorder_gap"));
}

#[test]
fn samples_at_a_long_interval_have_no_gaps_between_them() {
    let interval = Duration::from_secs(15);
    let mut made = Made { detector: Detector::every(interval), step_ms: 15_000, ..Made::new() };
    made.seconds(60, EVEN);
    let begin = made.time_ms;
    made.seconds(6, STALL);
    let started: Vec<u64> = made.detector.going_on().map(|incident| incident.started_ms).collect();
    assert_eq!((started, made.incidents.len()), (vec![begin + 15_000], 0));
}
