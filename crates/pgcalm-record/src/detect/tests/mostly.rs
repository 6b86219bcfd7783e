//! Servers that stall for most of the time, or again and again.

use super::*;

/// As stock PostgreSQL 15 did on an emulated volume of 500 operations per second: 8 to 18 seconds well, then 47 behind WAL.
const WELL: Load = Load { commits: 1250.0, active: 8, waiting: 8, slow: 0 };
const BEHIND: Load = Load { commits: 42.0, active: 8, waiting: 8, slow: 0 };

const IDLE: Load = Load { commits: 0.0, active: 0, waiting: 0, slow: 0 };

/// Seconds of each: one is given again with what followed.
fn stalls(made: &Made) -> Vec<f64> {
    let by_begin: BTreeMap<u64, f64> = made.incidents.iter().map(|it| (it.started_ms, it.seconds)).collect();
    by_begin.into_values().collect()
}

/// A load that writes so many bytes of WAL per second.
fn writing(made: &mut Made, seconds: usize, load: Load, wal_bytes_per_second: f64) {
    for _ in 0..seconds {
        let rates = Rates { commits_per_second: load.commits, wal_bytes_per_second, ..Rates::default() };
        let instance = Instance { rates: Some(rates), ..made.instance(load) };
        made.sample(vec![instance]);
    }
}

#[test]
fn a_server_that_stalls_most_of_the_time_is_seen_to() {
    let mut made = Made::new();
    made.seconds(8, WELL).seconds(47, BEHIND).seconds(18, WELL).seconds(48, BEHIND).seconds(18, WELL).seconds(60, WELL);
    assert_eq!(stalls(&made), [47.0, 48.0]);
    let usual = made.incidents[0].usual_commits_per_second.unwrap();
    assert!((1000.0..1500.0).contains(&usual), "{usual}");
}

#[test]
fn a_load_that_mostly_computes_or_commits_soon_is_no_stall() {
    // A burst, and then what uses the processor, or waits a moment for each commit
    let computes = Load { commits: 42.0, active: 8, waiting: 1, slow: 0 };
    let soon = Load { commits: 300.0, active: 8, waiting: 8, slow: 0 };
    for rest in [computes, soon] {
        let mut made = Made::new();
        made.seconds(8, WELL).seconds(100, rest).seconds(8, WELL).seconds(100, rest);
        assert!(made.incidents.is_empty(), "{:?}", made.incidents);
    }
}

#[test]
fn reports_and_copies_between_bursts_of_small_transactions_are_no_stall() {
    let report = Load { commits: 2.0, active: 8, waiting: 6, slow: 0 };
    let copy = Load { commits: 1.0, active: 4, waiting: 4, slow: 0 };
    for (slow, slow_wal, quick, quick_wal) in [
        (report, 0.0, Load { commits: 500.0, waiting: 6, ..WELL }, 4e6),
        (copy, 30e6, Load { commits: 800.0, active: 4, waiting: 3, slow: 0 }, 6.4e6),
    ] {
        let mut made = Made::new();
        for _ in 0..10 {
            writing(&mut made, 45, slow, slow_wal);
            writing(&mut made, 15, quick, quick_wal);
        }
        assert_eq!((stalls(&made), made.detector.going_on().count()), (vec![], 0));
    }
}

#[test]
fn what_writes_as_before_and_less_of_it_stalls() {
    let mut made = Made::new();
    for _ in 0..3 {
        writing(&mut made, 47, BEHIND, 0.35e6);
        writing(&mut made, 18, WELL, 9e6);
    }
    // The first was there before anything was usual.
    assert_eq!(stalls(&made), [47.0, 47.0]);
}

#[test]
fn a_burst_at_the_beginning_is_not_what_is_usual() {
    let mut made = Made::new();
    made.seconds(4, WELL).seconds(900, Load { commits: 20.0, ..WELL });
    assert_eq!((stalls(&made), made.detector.going_on().count()), (vec![], 0));
}

#[test]
fn two_sessions_wait_less_for_each_commit_and_are_held_as_well() {
    let mut made = Made::new();
    for _ in 0..3 {
        made.seconds(47, Load { active: 2, waiting: 2, ..BEHIND });
        made.seconds(18, Load { commits: 460.0, active: 2, waiting: 2, slow: 0 });
    }
    assert_eq!(stalls(&made), [47.0, 47.0]);
}

#[test]
fn a_server_that_was_idle_is_judged_by_what_it_did_since() {
    for idle in [10, 300] {
        let mut made = Made::new();
        made.seconds(idle, IDLE).seconds(8, WELL).seconds(47, BEHIND).seconds(10, WELL);
        assert_eq!(stalls(&made), [47.0], "{idle}");
    }
}

#[test]
fn no_second_is_of_two_incidents() {
    let mut made = Made::new();
    // Three seconds that are hardly good end the first.
    made.seconds(30, EVEN)
        .seconds(40, STALL)
        .seconds(3, Load { commits: 57.0, ..EVEN })
        .seconds(40, STALL)
        .seconds(90, EVEN);
    let by_begin: BTreeMap<u64, u64> = made.incidents.iter().map(|it| (it.started_ms, it.ended_ms)).collect();
    let spans: Vec<(u64, u64)> = by_begin.into_iter().collect();
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(spans[0].1 < spans[1].0, "{spans:?}");
}
