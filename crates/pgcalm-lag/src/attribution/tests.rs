use super::*;

const MIB: u64 = 1 << 20;
const SEGMENT: u64 = 16 * MIB;
/// Where the WAL of these tests begins: at a segment.
const BASE: u64 = 640 * SEGMENT;

fn at(offset: u64) -> Option<Lsn> {
    Some(Lsn(BASE + offset))
}

/// A standby that has what the primary has, `second` seconds into 8 MiB/s of WAL.
fn caught_up(second: u64) -> Observation {
    let end = at(8 * MIB * second);
    Observation {
        time: second as f64,
        insert: end.unwrap(),
        primary_flush: end.unwrap(),
        connected: true,
        logical: false,
        sent: end,
        write: end,
        flush: end,
        replay: end,
        lag_s: Some(0.0),
        lag_is_lower_bound: false,
        wait_event: Some("WalSenderMain".to_string()),
        waiting_processes: Some(0),
        connection: None,
    }
}

/// Five samples, one a second, each made from a standby that has caught up.
fn samples(change: impl Fn(u64, &mut Observation)) -> Vec<Observation> {
    (0..5)
        .map(|second| {
            let mut observation = caught_up(second);
            change(second, &mut observation);
            observation
        })
        .collect()
}

fn place(observations: &[Observation]) -> Place {
    let bottleneck = attribute(observations, SEGMENT);
    assert!(!bottleneck.evidence.is_empty());
    bottleneck.place
}

/// The walsender is blocked by its connection, and the standby is 6 s behind; `write` is what it wrote at each second.
fn blocked(write: impl Fn(u64) -> u64) -> Vec<Observation> {
    samples(|second, standby| {
        standby.insert = Lsn(BASE + (200 + 8 * second) * MIB);
        standby.primary_flush = standby.insert;
        standby.write = at(write(second));
        standby.flush = standby.write;
        standby.replay = standby.write;
        standby.sent = at(write(second) + 3 * MIB);
        standby.lag_s = Some(6.0);
        standby.wait_event = Some("WalSenderMain".to_string());
    })
}

fn with_connection(mut observations: Vec<Observation>, busy: f64, receiver_limited: f64) -> Vec<Observation> {
    for observation in &mut observations {
        observation.connection =
            Some(Connection { busy: Some(busy), receiver_limited: Some(receiver_limited), ..Connection::default() });
    }
    observations
}

#[test]
fn an_idle_primary_has_no_lag_however_long_ago_its_last_wal_was() {
    let idle = samples(|_, standby| {
        let end = at(0);
        standby.insert = end.unwrap();
        standby.primary_flush = end.unwrap();
        (standby.sent, standby.write, standby.flush, standby.replay) = (end, end, end, end);
    });
    assert_eq!(place(&idle), Place::Idle);
}

#[test]
fn one_that_keeps_up_is_held_up_by_nothing() {
    assert_eq!(place(&samples(|_, _| {})), Place::Generation);
    // A moment's lag is none.
    let late = samples(|second, standby| {
        standby.replay = at((8 * MIB * second).saturating_sub(4 * MIB));
        standby.lag_s = Some(0.5);
    });
    assert_eq!(place(&late), Place::Generation);
}

#[test]
fn wal_that_was_missing_from_the_start_is_held_up_however_short_the_history() {
    let paused = |lag_is_lower_bound| {
        let mut samples = samples(|second, standby| {
            standby.time = 0.1 * second as f64;
            (standby.replay, standby.lag_s) = (at(0), Some(standby.time));
            standby.lag_is_lower_bound = lag_is_lower_bound;
        });
        for sample in &mut samples {
            sample.flush = at(64 * MIB);
        }
        place(&samples[..2])
    };
    assert_eq!(paused(true), Place::Replay);
    assert_eq!(paused(false), Place::Generation);
}

#[test]
fn processes_that_wait_for_wal_in_every_sample_mean_the_primarys_disk() {
    let waiting = samples(|_, standby| standby.waiting_processes = Some(7));
    assert_eq!(place(&waiting), Place::PrimaryWalDisk);
    let now_and_then = samples(|second, standby| standby.waiting_processes = Some(u32::from(second != 2)));
    assert_eq!(place(&now_and_then), Place::Generation);
}

#[test]
fn a_walsender_that_reads_is_held_up_by_the_primarys_disk() {
    let mut reading = blocked(|second| (4 * second + 1) * MIB);
    for (name, observation) in ["WALRead", "WalRead", "WALRead", "WALRead", "WalRead"].into_iter().zip(&mut reading) {
        observation.wait_event = Some(name.to_string());
    }
    assert_eq!(place(&reading), Place::PrimaryWalDisk);
}

#[test]
fn replay_that_stands_still_while_wal_is_flushed() {
    let paused = samples(|_, standby| {
        standby.replay = at(0);
        standby.lag_s = Some(4.0);
    });
    let bottleneck = attribute(&paused, SEGMENT);
    assert_eq!(bottleneck.place, Place::Replay);
    assert!(bottleneck.evidence.join(" ").contains("nothing was replayed"));
}

#[test]
fn wal_that_was_written_and_not_flushed() {
    let flushing = samples(|second, standby| {
        standby.flush = at(2 * MIB * second);
        standby.replay = standby.flush;
        standby.lag_s = Some(3.0);
    });
    assert_eq!(place(&flushing), Place::StandbyFlush);
}

#[test]
fn the_kernels_accounts_tell_the_network_from_a_receiver_that_does_not_read() {
    let slow = || blocked(|second| (4 * second + 1) * MIB);
    assert_eq!(place(&with_connection(slow(), 1.0, 0.0)), Place::Network);
    assert_eq!(place(&with_connection(slow(), 1.0, 0.95)), Place::StandbyWrite);
    // A receiver that says nothing: the kernel still knows.
    let silent = || blocked(|_| 5 * MIB);
    assert_eq!(place(&with_connection(silent(), 1.0, 1.0)), Place::StandbyWrite);
    assert_eq!(place(&with_connection(silent(), 1.0, 0.0)), Place::Network);
}

/// What was written in the last second but one is flushed only.
fn in_fsync(mut observations: Vec<Observation>) -> Vec<Observation> {
    for observation in &mut observations {
        observation.flush = observation.write.map(|write| Lsn(write.0 - MIB));
        observation.replay = observation.flush;
    }
    observations
}

#[test]
fn a_receiver_that_reads_nothing_while_it_syncs_is_told_from_the_network() {
    let slow = || in_fsync(blocked(|second| (4 * second + 2) * MIB));
    // Half of the time its kernel takes what comes, and has no room for the rest.
    assert_eq!(place(&with_connection(slow(), 0.9, 0.3)), Place::StandbyFlush);
    assert_eq!(place(&with_connection(slow(), 1.0, 0.9)), Place::StandbyFlush);
    // One that syncs all the time because each packet comes alone has room.
    assert_eq!(place(&with_connection(slow(), 1.0, 0.0)), Place::Network);
    // One that does not sync has none for another reason.
    let writing = blocked(|second| (4 * second + 2) * MIB);
    assert_eq!(place(&with_connection(writing, 1.0, 0.9)), Place::StandbyWrite);
    // Seen from elsewhere.
    assert_eq!(place(&slow()), Place::Unknown);
}

#[test]
fn a_receiver_that_never_catches_up_with_its_kernel_is_told_from_the_network() {
    // As measured with WAL devices of 200 operations per second: replies at the ends of segments, and a
    // kernel with room for 15 MB more, which a second's writes hardly fill.
    let at_ends = || blocked(|second| (2 * second + 3) * SEGMENT);
    assert_eq!(place(&with_connection(at_ends(), 1.0, 0.25)), Place::StandbyWrite);
    assert_eq!(place(&with_connection(at_ends(), 1.0, 0.0)), Place::StandbyWrite);
    // Between two segments it found its socket empty, and was in fsync.
    let mut mixed = at_ends();
    for observation in &mut mixed[2..4] {
        observation.write = observation.write.map(|write| Lsn(write.0 + 3 * MIB));
    }
    mixed[4].write = mixed[4].write.map(|write| Lsn(write.0 + MIB));
    for observation in &mut mixed {
        observation.replay = observation.flush;
    }
    assert_eq!(place(&with_connection(mixed, 1.0, 0.25)), Place::StandbyFlush);
    // Cut off at the end of a segment.
    let cut_off = || blocked(|_| SEGMENT);
    assert_eq!(place(&with_connection(cut_off(), 1.0, 0.0)), Place::Network);
}

#[test]
fn little_wal_that_the_standbys_kernel_has_and_nobody_reads() {
    let little = |unacknowledged| {
        samples(|second, standby| {
            standby.insert = Lsn(BASE + MIB + 2000 * second);
            (standby.primary_flush, standby.sent) = (standby.insert, Some(standby.insert));
            (standby.write, standby.flush, standby.replay) = (at(MIB), at(MIB), at(MIB));
            standby.lag_s = Some(3.0);
            standby.connection = Some(Connection {
                unacknowledged_bytes: Some(unacknowledged),
                busy: Some(0.0),
                receiver_limited: Some(0.0),
                ..Connection::default()
            });
        })
    };
    assert_eq!(place(&little(0)), Place::StandbyWrite);
    assert_eq!(place(&little(2000)), Place::Unknown);
}

#[test]
fn without_them_the_places_of_the_replies_tell() {
    // Within segments: it ran out of data.
    assert_eq!(place(&blocked(|second| (4 * second + 1) * MIB)), Place::Network);
    // At their ends only.
    assert_eq!(place(&blocked(|second| second / 2 * SEGMENT)), Place::StandbyWrite);
    // Never: that may be either.
    assert_eq!(place(&blocked(|_| 5 * MIB)), Place::Unknown);
    // Nor is it known if nothing shows that the connection is what holds it up.
    let mut running = blocked(|second| (4 * second + 1) * MIB);
    for observation in &mut running {
        observation.wait_event = None;
    }
    assert_eq!(place(&running), Place::Unknown);
}

#[test]
fn a_subscriber_has_no_walreceiver() {
    let subscriber = |mut observations: Vec<Observation>| {
        observations.iter_mut().for_each(|observation| observation.logical = true);
        let bottleneck = attribute(&observations, SEGMENT);
        (bottleneck.place, bottleneck.evidence.join(" "))
    };
    let silent = || blocked(|_| 5 * MIB);
    let slow = || in_fsync(blocked(|second| (4 * second + 2) * MIB));
    let flushing = samples(|second, standby| {
        standby.flush = at(2 * MIB * second);
        standby.replay = standby.flush;
        standby.lag_s = Some(3.0);
    });
    // Its socket is full, or it has received what it has not committed.
    for observations in [with_connection(silent(), 1.0, 1.0), with_connection(slow(), 0.9, 0.3), flushing] {
        let (place, evidence) = subscriber(observations);
        assert_eq!(place, Place::Replay, "{evidence}");
        assert!(evidence.contains("applies as it receives") && !evidence.contains("fsync"), "{evidence}");
    }
    // Its kernel has all that was sent, and the walsender waits for more, or still decodes.
    let arrived = |wait_event: Option<&str>| {
        let nothing_waits = Connection {
            unacknowledged_bytes: Some(0),
            busy: Some(0.0),
            receiver_limited: Some(0.0),
            ..Connection::default()
        };
        let mut observations = silent();
        for observation in &mut observations {
            observation.connection = Some(nothing_waits.clone());
            observation.wait_event = wait_event.map(str::to_string);
        }
        subscriber(observations).0
    };
    assert_eq!(arrived(Some("WalSenderWaitForWal")), Place::Replay);
    assert_eq!(arrived(None), Place::Unknown);
    let (place, evidence) = subscriber(silent());
    assert_eq!(place, Place::Unknown);
    assert!(evidence.contains("the subscriber") && !evidence.contains("walreceiver"), "{evidence}");
    assert_eq!(subscriber(with_connection(slow(), 1.0, 0.0)).0, Place::Network);
    assert_eq!(subscriber(samples(|_, _| {})).0, Place::Generation);
}

#[test]
fn the_largest_amount_decides() {
    let both = |unreplayed: u64| {
        let mut observations = blocked(|second| (1000 + 4 * second + 1) * MIB);
        for observation in &mut observations {
            observation.insert = Lsn(observation.write.unwrap().0 + 100 * MIB);
            observation.primary_flush = observation.insert;
            observation.replay = Some(Lsn(observation.write.unwrap().0 - unreplayed));
        }
        place(&observations)
    };
    assert_eq!(both(200 * MIB), Place::Replay);
    assert_eq!(both(50 * MIB), Place::Network);
}

#[test]
fn what_can_not_be_known_is_unknown() {
    assert_eq!(place(&[]), Place::Unknown);
    assert_eq!(place(&[caught_up(0)]), Place::Unknown);
    let silent = samples(|_, standby| {
        (standby.write, standby.flush, standby.replay) = (None, None, None);
        standby.lag_s = None;
    });
    assert_eq!(place(&silent), Place::Unknown);
}

#[test]
fn one_that_is_not_connected_is_disconnected_and_begins_anew() {
    let gone = samples(|second, standby| standby.connected = second < 2);
    assert_eq!(place(&gone), Place::Disconnected);
    // Idle or not, as with one that has caught up.
    let idle = samples(|_, standby| *standby = Observation { time: standby.time, connected: false, ..caught_up(0) });
    assert_eq!(place(&idle), Place::Disconnected);
    let back = samples(|second, standby| standby.connected = second == 4);
    assert_eq!(place(&back), Place::Unknown);
}
