//! Standbys and slots: how many, and the worst of them.

use std::collections::BTreeMap;

use crate::metrics::{Kind, Metric, Read};
use crate::model::{Instance, Slot, Standby};

fn worst_bytes(instance: &Instance, lag: fn(&Standby) -> Option<u64>) -> Option<u64> {
    let standbys = &instance.replication.as_ref()?.standbys;
    standbys.iter().filter_map(lag).max()
}

fn worst_seconds(instance: &Instance, lag: fn(&Standby) -> Option<f64>) -> Option<f64> {
    let standbys = &instance.replication.as_ref()?.standbys;
    standbys.iter().filter_map(lag).reduce(f64::max)
}

/// Sums of a rate of the connected standbys that an interface leads to.
fn by_interface(instance: &Instance, rate: fn(&Standby) -> Option<f64>) -> BTreeMap<&str, f64> {
    let mut sums = BTreeMap::new();
    let standbys = instance.replication.iter().flat_map(|r| &r.standbys);
    for standby in standbys {
        if let (Some(interface), Some(rate)) = (&standby.interface, rate(standby)) {
            *sums.entry(interface.as_str()).or_default() += rate;
        }
    }
    sums
}

fn slots(instance: &Instance, which: impl Fn(&Slot) -> bool) -> Option<u64> {
    let slots = &instance.replication.as_ref()?.slots;
    Some(slots.iter().filter(|slot| which(slot)).count() as u64)
}

metrics! {
    Gauge "pgcalm_standbys" []
        "Standbys and other receivers of WAL that are connected"
        Instance |instance, points| {
            points.maybe(
                &[],
                instance.replication.as_ref().map(|replication| {
                    let standbys = replication.standbys.iter();
                    standbys.filter(|standby| standby.state != "disconnected").count() as u64
                }),
            );
        };
    Gauge "pgcalm_standby_lag_bytes" ["stage"]
        "WAL that the standby furthest behind has not come to; stage is sent, write, flush or replay. One that is \
         disconnected counts while it has a slot, others for an hour"
        Instance |instance, points| {
            points.maybe(&["sent"], worst_bytes(instance, |s| s.sent_lag_bytes));
            points.maybe(&["write"], worst_bytes(instance, |s| s.write_lag_bytes));
            points.maybe(&["flush"], worst_bytes(instance, |s| s.flush_lag_bytes));
            points.maybe(&["replay"], worst_bytes(instance, |s| s.replay_lag_bytes));
        };
    Gauge "pgcalm_standby_lag_seconds" ["stage"]
        "Age of the oldest WAL that the standby furthest behind has not come to, 0 if it has all; stage is write, \
         flush or replay"
        Instance |instance, points| {
            points.maybe(&["write"], worst_seconds(instance, |s| s.write_lag_seconds));
            points.maybe(&["flush"], worst_seconds(instance, |s| s.flush_lag_seconds));
            points.maybe(&["replay"], worst_seconds(instance, |s| s.replay_lag_seconds));
        };
    Gauge "pgcalm_walsender_network_bytes_per_second" ["interface"]
        "What the kernels of all standbys that an interface leads to confirm per second; only with the exporter in \
         the server's network namespace"
        Instance |instance, points| {
            for (interface, sum) in by_interface(instance, |s| s.network_bytes_per_second) {
                points.add(&[interface], sum);
            }
        };
    Gauge "pgcalm_walsender_network_packets_per_second" ["interface"]
        "Packets that walsenders' connections send per second, as they are on the wire, likewise"
        Instance |instance, points| {
            for (interface, sum) in by_interface(instance, |s| s.network_packets_per_second) {
                points.add(&[interface], sum);
            }
        };
    Gauge "pgcalm_standby_wal_removed_in_seconds" []
        "Time until WAL that a standby needs is removed, if rates stay: the least of theirs; absent if that is not \
         foreseen"
        Instance |instance, points| {
            let times = instance
                .replication
                .iter()
                .flat_map(|replication| &replication.standbys)
                .filter_map(|standby| standby.seconds_until_wal_removed);
            points.maybe(&[], times.reduce(f64::min));
        };
    Gauge "pgcalm_replication_slots" ["state"]
        "Replication slots; state is active, inactive or lost"
        Instance |instance, points| {
            let lost = |slot: &Slot| slot.wal_status.as_deref() == Some("lost");
            points.maybe(&["active"], slots(instance, |slot| slot.active && !lost(slot)));
            points.maybe(&["inactive"], slots(instance, |slot| !slot.active && !lost(slot)));
            points.maybe(&["lost"], slots(instance, lost));
        };
    Gauge "pgcalm_slot_retained_bytes" []
        "WAL kept for the replication slot that is furthest behind; 0 if none keeps any"
        Instance |instance, points| {
            if let Some(replication) = &instance.replication {
                let retained = replication.slots.iter().filter_map(|slot| slot.retained_bytes);
                points.add(&[], retained.max().unwrap_or(0));
            }
        };
    Gauge "pgcalm_receiver_up" []
        "On a standby: whether it streams WAL; 0 as well while it restores from an archive"
        Instance |instance, points| {
            let receiver = instance.replication.as_ref().and_then(|replication| replication.receiver.as_ref());
            let status = receiver.map(|receiver| receiver.status.as_deref());
            let seen = status.filter(|status| *status != Some("hidden"));
            points.maybe(&[], seen.map(|status| status == Some("streaming")));
        };
    Gauge "pgcalm_replay_lag_bytes" []
        "On a standby: WAL received and not replayed"
        Instance |instance, points| {
            let receiver = instance.replication.as_ref().and_then(|replication| replication.receiver.as_ref());
            points.maybe(&[], receiver.and_then(|receiver| receiver.replay_lag_bytes));
        };
    Gauge "pgcalm_replay_lag_seconds" []
        "On a standby: age of the last commit replayed; 0 if all that was received is replayed"
        Instance |instance, points| {
            let receiver = instance.replication.as_ref().and_then(|replication| replication.receiver.as_ref());
            points.maybe(&[], receiver.and_then(|receiver| receiver.replay_lag_seconds));
        };
}
