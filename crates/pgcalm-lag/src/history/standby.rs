//! A standby, by what is known of it.

use crate::attribution;
use crate::model::{Connection, Position, Standby, StandbyState, WalNeed};
use crate::reading::{Sender, SlotReading, Tcp};

/// What the kernel told of its connection.
pub(super) fn connection(now: &Sender, earlier: Option<&Sender>, seconds: Option<f64>) -> Option<Connection> {
    let tcp = now.tcp?;
    let since = earlier.and_then(|earlier| earlier.tcp).zip(seconds);
    let rate = |counter: fn(&Tcp) -> u64| {
        since.map(|(earlier, seconds)| counter(&tcp).saturating_sub(counter(&earlier)) as f64 / seconds)
    };
    // Microseconds per second; the two clocks are not read at the same moment.
    let share = |counter| rate(counter).map(|rate: f64| (rate / 1e6).min(1.0));
    Some(Connection {
        acknowledged_bytes_per_s: rate(|tcp| tcp.acknowledged_bytes),
        unacknowledged_bytes: Some(tcp.unacknowledged_bytes),
        busy: share(|tcp| tcp.busy_us),
        receiver_limited: share(|tcp| tcp.receiver_limited_us),
        retransmits_per_s: rate(|tcp| tcp.retransmits),
        interface: now.interface.clone(),
        sent_packets_per_s: rate(|tcp| tcp.sent_packets),
        received_packets_per_s: rate(|tcp| tcp.received_packets),
    })
}

/// One that was connected.
pub(super) fn disconnected(sender: &Sender, slot: Option<String>) -> Standby {
    let position = |index: usize| Position { lsn: sender.lsn[index], ..Position::default() };
    // What was under way is of no use to it.
    Standby {
        application_name: sender.application_name.clone(),
        client_address: sender.client_address.clone(),
        sync_state: sender.sync_state.clone(),
        write: position(1),
        flush: position(2),
        replay: position(3),
        ..unknown(slot)
    }
}

/// One of which only the slot is known: a standby's slot is where it has WAL on disk (`PhysicalConfirmReceivedLocation` in
/// walsender.c), a subscriber's what it confirmed.
pub(super) fn of_slot(slot: &SlotReading) -> Standby {
    let lsn = if slot.physical { slot.restart_lsn } else { slot.confirmed_flush_lsn };
    Standby { flush: Position { lsn, ..Position::default() }, ..unknown(Some(slot.name.clone())) }
}

fn unknown(slot: Option<String>) -> Standby {
    Standby {
        application_name: String::new(),
        client_address: None,
        client_port: None,
        slot,
        pid: None,
        state: StandbyState::Disconnected,
        sync_state: None,
        disconnected_s: None,
        sent: Position::default(),
        write: Position::default(),
        flush: Position::default(),
        replay: Position::default(),
        reply_age_s: None,
        wait_event: None,
        connection: None,
        walsender_disk_bytes_per_s: None,
        need: WalNeed::default(),
        bottleneck: attribution::attribute(&[], 0),
    }
}
