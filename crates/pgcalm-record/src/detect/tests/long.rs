//! Stalls that last.

use super::*;

#[test]
fn a_server_that_hangs_for_an_hour_is_one_incident_with_all_it_lost() {
    let mut made = Made::new();
    made.seconds(60, EVEN).hung(3600).back().seconds(1, STALL).seconds(AROUND + 20, EVEN);
    let ends: Vec<_> = made.incidents.iter().map(|it| (it.started_ms, it.ended_by.as_deref())).collect();
    assert_eq!(ends, [(made.incidents[0].started_ms, None); 2]);
    let incident = &made.incidents[1];
    assert!(
        incident.seconds >= 3600.0 && incident.lost_commits >= 355_000.0,
        "{} {}",
        incident.seconds,
        incident.lost_commits
    );
    assert!(incident.timeline.len() < LONGEST + 3 * AROUND, "{}", incident.timeline.len());
    // What was usual is so still.
    made.seconds(6, STALL).seconds(10, EVEN);
    assert!(made.incidents[2].lost_commits > 500.0, "{}", made.incidents[2].lost_commits);
}

#[test]
fn a_stall_that_lasts_is_told_before_it_ends_and_its_end_is_told_of_the_same() {
    let mut made = Made::new();
    made.seconds(60, EVEN).seconds(10, STALL);
    assert_eq!(made.detector.tell_long(), []);
    made.seconds(10, EVEN).hung(40);
    let told = made.detector.tell_long();
    assert_eq!(told.iter().map(|it| it.ended_by.as_deref()).collect::<Vec<_>>(), [Some(GOES_ON)]);
    made.incidents.clear();
    // What was committed meanwhile may show that little was lost: it has ended all the same.
    made.seconds(10, EVEN);
    let ends: Vec<_> = made.incidents.iter().map(|it| (it.started_ms, it.ended_by.as_deref())).collect();
    assert_eq!(ends, [(told[0].started_ms, None)]);
    assert_eq!(made.detector.tell_long(), []);
}

#[test]
fn a_stall_without_end_becomes_the_usual() {
    let mut made = Made::new();
    made.seconds(100, EVEN).seconds(LONGEST + 100, STALL);
    let ends: Vec<_> = made.incidents.iter().map(|incident| incident.ended_by.clone().unwrap()).collect();
    assert_eq!(ends[0], "became_usual");
    assert!(made.incidents.iter().all(|incident| incident.started_ms == made.incidents[0].started_ms));
}
