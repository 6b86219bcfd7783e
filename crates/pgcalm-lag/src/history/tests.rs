use super::*;
use crate::model::Place;
use crate::reading::Settings;

const MIB: u64 = 1 << 20;
const SEGMENT: u64 = 16 * MIB;
const BASE: u64 = 640 * SEGMENT;

fn reading(time: f64, written: u64) -> Reading {
    let end = Lsn(BASE + written);
    Reading {
        time,
        cluster: (1, 1),
        insert_lsn: end,
        write_lsn: end,
        flush_lsn: end,
        settings: Settings {
            segment_bytes: SEGMENT,
            max_wal_size_bytes: 1024 * MIB,
            wal_keep_size_bytes: 0,
            max_slot_wal_keep_size_bytes: None,
            idle_slot_timeout_s: None,
            checkpoint_timeout_s: 300.0,
            checkpoint_completion_target: 0.9,
        },
        redo_lsn: Lsn(BASE),
        checkpoint_age_s: time,
        checkpoint_duration_s: Some(10.0),
        waiting_processes: Some(0),
        ..Reading::default()
    }
}

fn sender(name: &str, at: u64) -> Sender {
    Sender {
        pid: 100,
        application_name: name.to_string(),
        client_address: Some("192.0.2.7".to_string()),
        client_port: Some(40001),
        state: StandbyState::Streaming,
        sync_state: Some("async".to_string()),
        lsn: [Some(Lsn(BASE + at)); 4],
        server_lag_s: [None, Some(3.0), Some(3.0), Some(3.0)],
        reply_age_s: Some(0.1),
        wait_event: Some("WalSenderMain".to_string()),
        disk_read_bytes: None,
        tcp: None,
        interface: None,
    }
}

fn slot(name: &str, active_pid: Option<i32>, at: u64) -> SlotReading {
    SlotReading {
        name: name.to_string(),
        physical: true,
        active: active_pid.is_some(),
        active_pid,
        restart_lsn: Some(Lsn(BASE + at)),
        wal_status: Some(WalStatus::Reserved),
        ..SlotReading::default()
    }
}

fn with(mut reading: Reading, senders: &[Sender], slots: &[SlotReading]) -> Reading {
    reading.senders = senders.to_vec();
    reading.slots = slots.to_vec();
    reading
}

#[test]
fn lag_in_seconds_is_the_age_of_what_is_missing() {
    let mut history = History::default();
    for second in 0..10u64 {
        history.add(with(reading(second as f64, second * MIB), &[sender("near", second * MIB)], &[]));
    }
    let sample = history.add(with(reading(10.0, 10 * MIB), &[sender("near", 5 * MIB + MIB / 2)], &[]));
    let replay = &sample.standbys[0].replay;
    assert_eq!(replay.lag_bytes, Some(4 * MIB + MIB / 2));
    assert_eq!(replay.lag_source, Some(LagSource::History));
    assert!((replay.lag_s.unwrap() - 4.5).abs() < 1e-9, "{replay:?}");
    assert_eq!(sample.wal.generation_bytes_per_s, Some(MIB as f64));
    // The server's own word is beside it, and is not believed.
    assert_eq!(replay.server_lag_s, Some(3.0));
}

#[test]
fn an_idle_primary_does_not_look_lagged() {
    let mut history = History::default();
    let mut sample = Sample::default();
    for second in 0..20 {
        sample = history.add(with(reading(f64::from(second), 0), &[sender("near", 0)], &[]));
    }
    let standby = &sample.standbys[0];
    assert_eq!(standby.replay.lag_s, Some(0.0));
    assert_eq!(standby.replay.lag_source, Some(LagSource::CaughtUp));
    assert_eq!(standby.bottleneck.place, Place::Idle);
    assert_eq!(standby.need.seconds_until_removed, None);
    // The first WAL after a pause is as old as it can be: not older than the last sample.
    let sample = history.add(with(reading(20.0, MIB), &[sender("near", 0)], &[]));
    assert_eq!(sample.standbys[0].replay.lag_s, Some(1.0));
}

#[test]
fn the_header_of_a_page_is_no_wal() {
    let mut reading = reading(0.0, 0);
    reading.insert_lsn = Lsn(BASE + 40);
    assert_eq!(History::default().add(reading.clone()).wal.unflushed_bytes, 0);
    reading.insert_lsn = Lsn(BASE + 48);
    assert_eq!(History::default().add(reading.clone()).wal.unflushed_bytes, 48);
    reading.flush_lsn = Lsn(BASE + 8);
    assert_eq!(History::default().add(reading).wal.unflushed_bytes, 40);
}

#[test]
fn beyond_the_history_a_lag_is_a_lower_bound() {
    let mut history = History::default();
    history.add(with(reading(0.0, 100 * MIB), &[sender("near", 0)], &[]));
    let sample = history.add(with(reading(7.0, 100 * MIB), &[sender("near", 0)], &[]));
    let standby = &sample.standbys[0];
    assert_eq!((standby.replay.lag_s, standby.replay.lag_source), (Some(7.0), Some(LagSource::AtLeast)));
    // No WAL is made, and yet it isn't idle.
    assert_eq!(standby.bottleneck.place, Place::Unknown);
}

#[test]
fn a_standby_whose_connection_ends_is_shown_and_its_wal_watched() {
    let mut history = History::default();
    for second in 0..5u64 {
        let at = second * 8 * MIB;
        history.add(with(reading(second as f64, at), &[sender("near", at)], &[]));
    }
    let sample = history.add(reading(5.0, 40 * MIB));
    let standby = &sample.standbys[0];
    assert_eq!(standby.state, StandbyState::Disconnected);
    assert_eq!(standby.bottleneck.place, Place::Disconnected);
    assert_eq!(standby.disconnected_s, Some(1.0));
    assert_eq!(standby.flush.lag_bytes, Some(8 * MIB));
    assert_eq!(standby.need.segment.as_deref(), Some("000000010000000200000082"));
    // At 8 MiB/s a checkpoint after 33 segments of 16 MiB: 528 MiB, of which 40 are written: in 61 s, and 10 s for itself.
    assert_eq!(standby.need.seconds_until_removed, Some(71.0));
    assert_eq!(sample.kept.seconds_until_needed_removed, Some(71.0));
    // It comes back.
    let sample = history.add(with(reading(6.0, 48 * MIB), &[sender("near", 32 * MIB)], &[]));
    assert_eq!(sample.standbys.len(), 1);
    assert_eq!(sample.standbys[0].state, StandbyState::Streaming);
}

#[test]
fn a_standby_that_comes_back_from_another_address_is_one() {
    fn count(turns: &[&[Sender]]) -> usize {
        let mut history = History::default();
        let mut count = 0;
        for (second, senders) in turns.iter().enumerate() {
            count = history.add(with(reading(second as f64, 0), senders, &[])).standbys.len();
        }
        count
    }
    let at = |name: &str, host: u8| Sender { client_address: Some(format!("192.0.2.{host}")), ..sender(name, 0) };
    assert_eq!(count(&[&[at("s1", 7)], &[], &[at("s1", 8)]]), 1);
    // By the default name they may be two, and where two had a name, either may be the one that is missing.
    assert_eq!(count(&[&[at("walreceiver", 7)], &[], &[at("walreceiver", 8)]]), 2);
    assert_eq!(count(&[&[at("s1", 7), at("s1", 8)], &[at("s1", 8)], &[at("s1", 8), at("s1", 9)]]), 3);
}

#[test]
fn what_a_subscriber_needs_comes_on_with_its_slot() {
    let mut history = History::default();
    let mut sample = Sample::default();
    for second in 0..2 {
        let slot = SlotReading { physical: false, ..slot("sub", Some(100), 0) };
        let written = second * 8 * MIB;
        let mut reading = with(reading(second as f64, written), &[sender("sub", written)], &[slot]);
        reading.settings.max_slot_wal_keep_size_bytes = Some(64 * MIB);
        sample = history.add(reading);
    }
    assert_eq!(sample.slots[0].seconds_until_lost, Some(75.0));
    assert_eq!(sample.standbys[0].need.seconds_until_removed, Some(75.0));
}

#[test]
fn two_that_are_alike_are_told_apart_by_who_stays_connected() {
    let alike = |pid: i32, port: u16, at: u64| Sender { pid, client_port: Some(port), ..sender("walreceiver", at) };
    let behind = alike(1, 40_000, 0);
    let level = |pid: i32, port: u16| alike(pid, port, 100 * MIB);
    let mut history = History::default();
    history.add(with(reading(0.0, 100 * MIB), &[behind, level(2, 41_000)], &[]));
    let places = |sample: &Sample| {
        let of = |standby: &Standby| (standby.pid, standby.flush.lsn.map(|lsn| (lsn.0 - BASE) / MIB));
        sample.standbys.iter().map(of).collect::<Vec<_>>()
    };
    let sample = history.add(with(reading(1.0, 100 * MIB), &[level(2, 41_000)], &[]));
    assert_eq!(places(&sample), [(None, Some(0)), (Some(2), Some(100))]);
    assert_eq!(sample.standbys[1].flush.bytes_per_s, Some(0.0));
    // It comes back, by whatever port.
    let sample = history.add(with(reading(2.0, 100 * MIB), &[level(2, 41_000), alike(3, 42_000, 10 * MIB)], &[]));
    assert_eq!(places(&sample), [(Some(3), Some(10)), (Some(2), Some(100))]);
}

#[test]
fn a_base_backup_that_ends_is_no_lost_standby() {
    let mut history = History::default();
    history.add(with(reading(0.0, 0), &[sender("pg_basebackup", 0)], &[]));
    assert_eq!(history.add(reading(1.0, 0)).standbys, []);
}

#[test]
fn an_inactive_slot_is_a_disconnected_standby() {
    let mut history = History::default();
    let sample = history.add(with(reading(0.0, 8 * MIB), &[], &[slot("near", None, MIB)]));
    let [standby] = &sample.standbys[..] else { panic!("{:?}", sample.standbys) };
    assert_eq!(standby.state, StandbyState::Disconnected);
    assert_eq!(standby.slot.as_deref(), Some("near"));
    assert_eq!(standby.flush.lag_bytes, Some(7 * MIB));
    assert_eq!(sample.slots[0].retained_bytes, Some(7 * MIB));
    // A slot that keeps WAL without limit is never lost.
    let sample = history.add(with(reading(1.0, 80 * MIB), &[], &[slot("near", None, MIB)]));
    assert_eq!(sample.slots[0].seconds_until_lost, None);
    assert_eq!(sample.slots[0].retained_growth_bytes_per_s, Some(72.0 * MIB as f64));
}

#[test]
fn a_standby_and_its_slot_are_one() {
    let mut history = History::default();
    history.add(with(reading(0.0, 0), &[sender("near", 0)], &[slot("near_slot", Some(100), 0)]));
    let sample = history.add(with(reading(1.0, 0), &[], &[slot("near_slot", None, 0)]));
    let names: Vec<&str> = sample.standbys.iter().map(|standby| standby.application_name.as_str()).collect();
    assert_eq!(names, ["near"]);
    assert_eq!(sample.standbys[0].slot.as_deref(), Some("near_slot"));
    // Under another name on the same slot: the old one is not missed.
    let mut renamed = sender("far", 0);
    renamed.pid = 101;
    let sample = history.add(with(reading(2.0, 0), &[renamed], &[slot("near_slot", Some(101), 0)]));
    assert_eq!(sample.standbys.len(), 1);
    assert_eq!(sample.standbys[0].application_name, "far");
    // Dropped by somebody: gone on purpose.
    assert_eq!(history.add(reading(3.0, 0)).standbys, []);
}

#[test]
fn a_slot_with_a_limit_is_lost_at_a_checkpoint() {
    let mut history = History::default();
    let limited = |time: f64, written: u64| {
        let mut reading = with(reading(time, written), &[], &[slot("near", None, 0)]);
        reading.settings.max_slot_wal_keep_size_bytes = Some(64 * MIB);
        reading
    };
    history.add(limited(0.0, 0));
    let sample = history.add(limited(1.0, 8 * MIB));
    // The checkpoint begins when 528 MiB are written: 520 MiB at 8 MiB/s, and takes 10 s.
    assert_eq!(sample.slots[0].seconds_until_lost, Some(75.0));
    let mut lost = limited(2.0, 16 * MIB);
    lost.slots[0].wal_status = Some(WalStatus::Lost);
    lost.slots[0].restart_lsn = None;
    let sample = history.add(lost);
    assert_eq!(sample.slots[0].seconds_until_lost, Some(0.0));
    assert_eq!(sample.standbys[0].need.removed, Some(true));
}

/// At the first checkpoint after it, however little WAL it keeps.
#[test]
fn an_idle_slot_is_lost_by_time() {
    let lost_in = |timeout: f64, active_pid: Option<i32>| {
        let mut history = History::default();
        let mut sample = Sample::default();
        for second in 0..2 {
            let idle = SlotReading { inactive_s: Some(60.0), ..slot("near", active_pid, 0) };
            let mut reading = with(reading(second as f64, second * 8 * MIB), &[], &[idle]);
            reading.settings.idle_slot_timeout_s = Some(timeout);
            sample = history.add(reading);
        }
        sample.slots[0].seconds_until_lost
    };
    // Checkpoints end in 75 s, and each 66 s after that.
    assert_eq!(lost_in(100.0, None), Some(75.0));
    assert_eq!(lost_in(150.0, None), Some(141.0));
    assert_eq!(lost_in(100.0, Some(100)), None);
}

/// Of a server that was promoted: it has counted restartpoints that it never made.
#[test]
fn the_next_checkpoint_takes_as_long_as_the_last_and_not_as_the_mean() {
    let mut history = History::default();
    let mut ends_in = |second: u64, checkpoints_s: f64, checkpoints: i64| {
        let reading = reading(second as f64, second * 8 * MIB);
        history.add(Reading { checkpoints_s, checkpoints, ..reading }).checkpoint.next_end_s
    };
    ends_in(0, 100.0, 9000);
    // 520 MiB at 8 MiB/s, and 10 s by the mean.
    assert_eq!(ends_in(1, 100.0, 9000), Some(75.0));
    assert_eq!(ends_in(2, 130.0, 9000), Some(94.0));
    assert_eq!(ends_in(3, 130.0, 9001), Some(93.0));
    assert_eq!(ends_in(4, 170.0, 9003), Some(82.0));
    // Statistics were reset.
    assert_eq!(ends_in(5, 0.0, 0), Some(81.0));
}

#[test]
fn anothers_slot_keeps_wal_for_a_standby_without_one() {
    let foreseen = |slot: SlotReading| {
        let mut history = History::default();
        history.add(with(reading(0.0, 192 * MIB), &[sender("near", 100 * MIB)], std::slice::from_ref(&slot)));
        let sample = history.add(with(reading(1.0, 200 * MIB), &[sender("near", 100 * MIB)], &[slot]));
        let near = sample.standbys.iter().find(|standby| standby.application_name == "near").unwrap();
        near.need.seconds_until_removed
    };
    // 528 MiB begin the next checkpoint: 328 MiB at 8 MiB/s, and 10 s for itself.
    assert_eq!(foreseen(slot("ahead", None, 150 * MIB)), Some(51.0));
    assert_eq!(foreseen(slot("behind", None, 50 * MIB)), None);
    let lost = SlotReading { wal_status: Some(WalStatus::Lost), ..slot("lost", None, 50 * MIB) };
    assert_eq!(foreseen(lost), Some(51.0));
}

#[test]
fn a_segment_that_is_gone_is_said_to_be() {
    let mut history = History::default();
    let mut now = with(reading(0.0, 320 * MIB), &[sender("near", 0)], &[]);
    now.oldest_segment = Some(segment::name(Lsn(BASE + 160 * MIB), 1, SEGMENT));
    let sample = history.add(now);
    assert_eq!(sample.standbys[0].need.removed, Some(true));
    assert_eq!(sample.kept.bytes, Some(160 * MIB));
}

#[test]
fn a_failover_begins_a_new_history() {
    let mut history = History::default();
    history.add(with(reading(0.0, 0), &[sender("near", 0)], &[]));
    let mut promoted = reading(1.0, 8 * MIB);
    promoted.cluster = (1, 2);
    let sample = history.add(promoted);
    assert_eq!(sample.standbys, []);
    assert_eq!(sample.interval_s, None);
}

#[test]
fn the_connections_shares_are_of_the_interval() {
    let mut history = History::default();
    let with_tcp = |time: f64, busy_us, receiver_limited_us| {
        let mut sender = sender("near", 0);
        sender.tcp = Some(crate::reading::Tcp { busy_us, receiver_limited_us, ..crate::reading::Tcp::default() });
        with(reading(time, 0), &[sender], &[])
    };
    history.add(with_tcp(0.0, 5_000_000, 0));
    let sample = history.add(with_tcp(2.0, 6_000_000, 500_000));
    let connection = sample.standbys[0].connection.as_ref().unwrap();
    assert_eq!(connection.busy, Some(0.5));
    assert_eq!(connection.receiver_limited, Some(0.25));
}

#[test]
fn packets_and_interfaces_have_rates_unless_they_were_made_anew() {
    let mut history = History::default();
    let with_interface = |time: f64, packets: u64, name: &str| {
        let mut sender = sender("near", 0);
        sender.tcp = Some(crate::reading::Tcp {
            sent_packets: packets,
            received_packets: 2 * packets,
            ..crate::reading::Tcp::default()
        });
        sender.interface = Some(name.to_string());
        let mut reading = with(reading(time, 0), &[sender], &[]);
        reading.interfaces = vec![crate::interface::InterfaceReading {
            stat: pgcalm_host::network::InterfaceStat {
                name: name.to_string(),
                received_bytes: 0,
                received_packets: 0,
                sent_bytes: 1000 * packets,
                sent_packets: packets,
            },
            link_bytes_per_s: Some(125_000_000),
        }];
        reading
    };
    let first = history.add(with_interface(0.0, 100, "eth0"));
    assert_eq!(first.interfaces[0].sent_bytes_per_s, None);
    let second = history.add(with_interface(2.0, 110, "eth0"));
    let interface = &second.interfaces[0];
    assert_eq!(interface.sent_bytes_per_s, Some(5000.0));
    assert_eq!(interface.sent_packets_per_s, Some(5.0));
    assert_eq!(interface.link_bytes_per_s, Some(125_000_000));
    let connection = second.standbys[0].connection.as_ref().unwrap();
    assert_eq!(connection.sent_packets_per_s, Some(5.0));
    assert_eq!(connection.received_packets_per_s, Some(10.0));
    assert_eq!(connection.interface.as_deref(), Some("eth0"));
    let third = history.add(with_interface(4.0, 3, "eth0"));
    assert_eq!(third.interfaces[0].sent_bytes_per_s, None);
}
