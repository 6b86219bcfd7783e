use pgcalm_monitor::model::{Activity, Connections, Identity, Instance, Missing, Rates, Subject, Wait, WaitCause};

use super::*;
use crate::incident::Cause;
use crate::second::Second;
use crate::store::tests::{NOW, incident};

fn incidents(ring: &Ring) -> Vec<Incident> {
    let queue = ring.lock();
    let of = |item: &Item| if let Item::Incident(incident) = item { Some((**incident).clone()) } else { None };
    queue.items.iter().filter_map(of).collect()
}

#[test]
fn an_incident_that_went_on_over_a_restart_is_the_one_that_is_known() {
    let known = [incident(NOW, Cause::LockPileUp)];
    let later = |ms, server: &str, ended_ms| Incident {
        server: server.to_string(),
        ended_ms: NOW + ended_ms,
        ..incident(NOW + ms, Cause::Unknown)
    };
    let ring = Ring::default();
    push_new(vec![later(1000, "5432", 6000), later(1000, "5432", 60_000)], &known, &ring);
    push_new(vec![later(1000, "5433", 6000), later(6000, "5432", 9000)], &known, &ring);
    let written: Vec<_> = incidents(&ring).iter().map(|it| (it.started_ms - NOW, it.seconds)).collect();
    assert_eq!(written, [(0, 7.0), (1000, 6.0), (6000, 6.0)]);
}

#[test]
fn one_that_went_on_when_the_recorder_was_killed_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
    let started_ms = now_ms() - 60_000;
    let goes_on = Incident { ended_by: Some(GOES_ON.to_string()), ..incident(started_ms, Cause::VolumeHung) };
    let mut items = Packer::default().pack(&Host { time_ms: goes_on.ended_ms, ..Host::default() }).unwrap();
    items.push(Item::Incident(Box::new(goes_on)));
    Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
    let ring = Ring::default();
    let known = judge_again(directory.path(), &mut Detector::default(), &ring, |line| panic!("{line}"));
    let ends = || incidents(&ring).iter().map(|it| it.ended_by.clone().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(ends(), ["recorder_gap"]);
    // Judged by less, it has another end and nothing else.
    let later = Incident {
        ended_ms: started_ms + 60_000,
        usual_commits_per_second: None,
        ..incident(started_ms + 4000, Cause::Unknown)
    };
    push_new(vec![later], &known, &ring);
    let kept: Vec<_> = incidents(&ring).iter().map(|it| (it.cause, it.started_ms, it.seconds)).collect();
    assert_eq!(kept, [(Cause::VolumeHung, started_ms, 10.0)]);
}

/// A second of a server whose sessions wait for WAL.
fn host(time_ms: u64, commits_per_second: f64) -> Host {
    Host {
        time_ms,
        instances: vec![Instance {
            identity: Identity { name: "5432".to_string(), ..Identity::default() },
            reachability: Reachability::Reachable,
            sampled_ms: Some(time_ms),
            rates: Some(Rates { commits_per_second, ..Rates::default() }),
            activity: Some(Activity {
                connections: Connections { active: 4, ..Connections::default() },
                waits: vec![Wait {
                    cause: WaitCause::Wal,
                    event_type: "IO".to_string(),
                    event: "WALSync".to_string(),
                    sessions: 4,
                }],
                ..Activity::default()
            }),
            ..Instance::default()
        }],
        ..Host::default()
    }
}

/// Else nothing is known of what was usual, and nothing is lost.
#[test]
fn the_hang_before_a_reset_is_judged_by_what_was_before_it_however_long_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let reset_ms = now_ms() - 600_000;
    let begin_ms = reset_ms - 1_200_000;
    let mut packer = Packer::default();
    let mut items = Vec::new();
    for second in 0..1200 {
        let mut host = host(begin_ms + second * 1000, 100.0);
        if second >= 60 {
            let instance = &mut host.instances[0];
            let identity = instance.identity.clone();
            let reachability = Reachability::Hung { seconds: (second - 59) as f64 };
            *instance = Instance { identity, reachability, ..Instance::default() };
        }
        items.extend(packer.pack(&host).unwrap());
    }
    let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
    Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
    let (ring, mut detector) = (Ring::default(), Detector::default());
    let known = judge_again(directory.path(), &mut detector, &ring, |line| panic!("{line}"));
    push_new(detector.finish(), &known, &ring);
    let found: Vec<_> = incidents(&ring).iter().map(|it| it.usual_commits_per_second).collect();
    assert_eq!(found, [Some(100.0)]);
}

#[test]
fn the_stall_before_a_reset_is_judged_however_long_ago_that_was() {
    let directory = tempfile::tempdir().unwrap();
    let reset_ms = now_ms() - 3_600_000;
    let mut packer = Packer::default();
    let mut items = Vec::new();
    for second in 0..60 {
        let commits = if (50..56).contains(&second) { 0.0 } else { 100.0 };
        items.extend(packer.pack(&host(reset_ms - 60_000 + second * 1000, commits)).unwrap());
    }
    // What a clock that was wrong has left is not the end.
    items.extend(packer.pack(&host(now_ms() + 365 * 86_400_000, 100.0)).unwrap());
    let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
    Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
    let ring = Ring::default();
    judge_again(directory.path(), &mut Detector::default(), &ring, |line| panic!("{line}"));
    let found: Vec<_> = incidents(&ring).iter().map(|it| (it.started_ms, it.seconds)).collect();
    assert_eq!(found, [(reset_ms - 10_000, 6.0)]);
}

/// What it was judged by then is not in the record: it would stand between those that were told, with a later number.
#[test]
fn what_ended_minutes_before_the_record_is_not_judged_anew() {
    let directory = tempfile::tempdir().unwrap();
    let begin_ms = now_ms() - 3_600_000;
    let mut packer = Packer::default();
    let mut items = Vec::new();
    for second in 0..300 {
        let commits = if (50..56).contains(&second) { 0.0 } else { 100.0 };
        items.extend(packer.pack(&host(begin_ms + second * 1000, commits)).unwrap());
    }
    let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
    Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
    let (ring, mut detector) = (Ring::default(), Detector::default());
    let known = judge_again(directory.path(), &mut detector, &ring, |line| panic!("{line}"));
    push_new(detector.finish(), &known, &ring);
    assert_eq!(incidents(&ring), []);
}

#[test]
fn the_ring_holds_an_incident_once_and_the_newest_of_too_many() {
    let ring = Ring::default();
    let longer = |number: u64| Item::Incident(Box::new(incident(NOW + number / 2, Cause::Unknown)));
    (0..2000).for_each(|number| ring.push(longer(number)));
    let kept = incidents(&ring);
    let lost = std::mem::take(&mut ring.lock().lost);
    assert_eq!(kept.len() as u64 + lost, 1000);
    assert!(lost > 0 && ring.lock().bytes <= RING_BYTES_OF_INCIDENTS, "{lost}");
    assert_eq!(kept.last().map(|it| it.started_ms), Some(NOW + 999));
    // What could not be written is not more of it than what has come since.
    put_back(&ring, vec![longer(1998)], 0);
    assert_eq!(incidents(&ring), kept);
}

#[test]
fn what_was_lost_while_a_write_hung_or_at_the_end_is_told() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn say(line: &str) {
        SAID.lock().unwrap().push(line.to_string());
    }
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
    let mut writer = Writer::open(directory.path(), limits).unwrap();
    let ring = Arc::new(Ring::default());
    *ring.lock() = Queue { lost: 3, stop: true, ..Queue::default() };
    write_out(&ring, &mut writer, say);
    let ended = |ring| WriterThread { ring, thread: thread::spawn(|| {}) }.finish(say);
    ended(Arc::clone(&ring));
    let said = std::mem::take(&mut *SAID.lock().unwrap());
    assert!(said.len() == 1 && said[0].contains("but for 3 samples"), "{said:?}");
    ring.push(Item::Dictionary { id: 1, json: vec![0; 10] });
    ended(ring);
    let said = std::mem::take(&mut *SAID.lock().unwrap());
    assert!(said.len() == 1 && said[0].contains("is lost"), "{said:?}");
}

/// It once read as if the whole instance was left out.
#[test]
fn what_is_missing_of_an_instance_is_told_once_and_that_the_rest_is_recorded() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let missing = |subject, remedy: Option<&str>| Missing {
        subject,
        reason: "why".to_string(),
        remedy: remedy.map(str::to_string),
    };
    let mut host = host(NOW, 100.0);
    host.missing = vec![missing(Subject::Memory, None)];
    host.instances[0].missing = vec![missing(Subject::Module, Some("load it"))];
    let mut told = String::new();
    for _ in 0..2 {
        tell_missing(&host, &mut told, |line| SAID.lock().unwrap().push(line.to_string()));
    }
    let said = SAID.lock().unwrap();
    let lines = [
        "pgcalm record: the host is recorded, but without memory: why",
        "pgcalm record: instance 5432 is recorded, but without module: why; load it",
    ];
    assert_eq!(*said, lines);
}

#[test]
fn a_clock_that_has_jumped_ahead_is_followed_step_by_step() {
    let jumped = now_ms();
    let mut clock = Clock { wall_ms: jumped - 3 * STEP_MS, steady: Instant::now() };
    assert!(clock.now_ms() < jumped - STEP_MS);
    for _ in 0..2 {
        clock.now_ms();
    }
    assert!(clock.now_ms() >= jumped);
    // Set back, it is the time at once.
    let mut clock = Clock { wall_ms: jumped + 86_400_000, steady: Instant::now() };
    assert!(clock.now_ms() < jumped + STEP_MS);
}

#[test]
fn the_ring_forgets_the_oldest_seconds_and_no_dictionary() {
    let ring = Ring::default();
    ring.push(Item::Dictionary { id: 1, json: vec![0; 10] });
    for time_ms in 0..20_000 {
        ring.push(Item::Second("a".to_string(), Box::new(Second { time_ms, ..Second::default() }), false));
    }
    let queue = ring.lock();
    assert!(queue.bytes <= RING_BYTES && queue.lost > 0, "{} {}", queue.bytes, queue.lost);
    assert_eq!(queue.items.len() as u64 + queue.lost, 20_001);
    assert!(matches!(queue.items.front(), Some(Item::Dictionary { .. })));
    assert!(matches!(queue.items.back(), Some(Item::Second(_, second, _)) if second.time_ms == 19_999));
}
