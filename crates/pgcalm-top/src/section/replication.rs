//! Who is behind, and by how much.

use pgcalm_monitor::model::{Interface, Slot, Standby, WalReceiver};

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};

const SECTION: &str = "Lag";

/// What this server itself is behind; each standby; slots that keep WAL for nobody.
pub fn rows(context: &Context) -> Vec<Row> {
    let Some(replication) = &context.instance.replication else { return Vec::new() };
    let palette = context.palette();
    let mut rows = Vec::new();
    if let Some(receiver) = &replication.receiver {
        rows.push(Row::text(SECTION, 1, received(receiver), ratatui::style::Style::new()));
    }
    for (at, standby) in replication.standbys.iter().enumerate() {
        let rank = if at == 0 { 1 } else { 3 };
        let style = if standby.state == "streaming" { ratatui::style::Style::new() } else { palette.notice() };
        rows.push(Row::text(SECTION, rank, behind(standby), style));
        let interface =
            context.host.interfaces.iter().find(|interface| Some(&interface.name) == standby.interface.as_ref());
        if let Some(interface) = interface {
            rows.push(Row::text(SECTION, rank + 2, network(standby, interface), palette.secondary()));
        }
    }
    for slot in &replication.slots {
        let lost = slot.wal_status.as_deref() == Some("lost");
        if slot.active && !lost {
            continue;
        }
        rows.push(Row::text(SECTION, 3, unused(slot), palette.notice()));
    }
    if rows.is_empty() {
        rows.push(Row::text(SECTION, 5, "no standby", palette.secondary()));
    }
    rows
}

fn received(receiver: &WalReceiver) -> String {
    listed([
        Some(match &receiver.status {
            Some(status) => format!("receiver {status}"),
            None => "no receiver".to_string(),
        }),
        receiver.replay_lag_bytes.map(|bytes| format!("{} not replayed", format::byte_count(bytes))),
        receiver.replay_lag_seconds.map(|seconds| format!("last replayed commit {} old", format::seconds(seconds))),
    ])
}

fn behind(standby: &Standby) -> String {
    let stage = |name: &str, bytes: Option<u64>, seconds: Option<f64>| {
        let bytes = bytes?;
        let time = seconds.map(|seconds| format!(" {}", format::seconds(seconds))).unwrap_or_default();
        Some(format!("{name} {}{time}", format::byte_count(bytes)))
    };
    listed([
        Some(format!("{} {} {}", standby.name, standby.state, standby.sync_state)),
        stage("flush", standby.flush_lag_bytes, standby.flush_lag_seconds),
        stage("replay", standby.replay_lag_bytes, standby.replay_lag_seconds),
        stage("sent", standby.sent_lag_bytes, None),
    ])
}

/// What goes to a standby, and what else goes by the same interface.
fn network(standby: &Standby, interface: &Interface) -> String {
    let rates = interface.rates.as_ref();
    let sent = rates.map(|rates| rates.sent_bytes_per_second);
    let link = interface.link_bytes_per_second.map(|link| link as f64);
    listed([
        Some(format!(
            "by {}{}",
            interface.name,
            standby.network_bytes_per_second.map_or(String::new(), |rate| format!(" {}", format::byte_rate(rate)))
        )),
        standby.network_packets_per_second.map(|rate| format::rate_of(rate, "packets")),
        sent.map(|sent| match link {
            Some(link) => format!(
                "which sends {}, {} of {}",
                format::byte_rate(sent),
                pgcalm_render::number::percent(sent / link),
                format::byte_rate(link)
            ),
            None => format!("which sends {}", format::byte_rate(sent)),
        }),
    ])
}

fn unused(slot: &Slot) -> String {
    listed([
        Some(format!("slot {}: {}", slot.name, if slot.active { "in use" } else { "not in use" })),
        slot.retained_bytes.map(|bytes| format!("keeps {} of WAL", format::byte_count(bytes))),
        slot.wal_status.clone().filter(|status| status != "reserved"),
        slot.seconds_until_lost.map(|seconds| format!("lost in {}", format::whole_seconds(seconds))),
    ])
}
