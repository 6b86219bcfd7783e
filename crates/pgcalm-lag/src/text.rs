//! A sample as text.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::model::{
    Bottleneck, Interface, LagSource, Line, Place, Position, Sample, Slot, Standby, StandbyState, WalStatus,
};

/// Stands for what isn't known or doesn't exist.
const NONE: &str = "–";

/// Bytes in PostgreSQL's units, which are powers of 1024, as `pg_size_pretty` has them.
pub fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_string();
    }
    let size = value.abs();
    for (unit, name) in [(1u64 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")] {
        let unit = unit as f64;
        if size >= unit {
            let digits = usize::from(size < 100.0 * unit);
            return format!("{:.digits$} {name}", value / unit);
        }
    }
    format!("{value:.0} B")
}

/// A time in the two units that matter.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NONE.to_string();
    }
    let whole = seconds.max(0.0).round() as u64;
    if seconds < 9.95 {
        format!("{:.1} s", seconds.max(0.0))
    } else if whole < 120 {
        format!("{whole} s")
    } else if whole < 7200 {
        format!("{} min {} s", whole / 60, whole % 60)
    } else if whole < 172_800 {
        format!("{} h {} min", whole / 3600, whole % 3600 / 60)
    } else {
        format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600)
    }
}

/// A line of the command, ending in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => format!(
            "PostgreSQL {}{}, port {}: a sample every {}\n",
            start.server_version,
            match start.cluster_name.as_str() {
                "" => String::new(),
                name => format!(" ({name})"),
            },
            start.port,
            duration(start.interval_s)
        ),
        Line::Sample(sample) => self::sample(sample),
        Line::End(_) => String::new(),
    }
}

/// A sample, ending in an empty line.
pub fn sample(sample: &Sample) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}  {}", clock(sample.time), primary(sample));
    let _ = writeln!(text, "{}", kept(sample));
    if sample.standbys.is_empty() {
        text.push_str("no standby is connected, none was, and no slot waits for one\n");
    } else {
        let _ = writeln!(text, "{}", standbys(&sample.standbys));
    }
    for standby in &sample.standbys {
        let _ = writeln!(text, "{}", verdict(standby));
    }
    for interface in &sample.interfaces {
        let _ = writeln!(text, "{}", self::interface(interface, &sample.standbys));
    }
    if !sample.slots.is_empty() {
        let has_limit = sample.kept.max_slot_wal_keep_size_bytes.is_some();
        let _ = writeln!(text, "{}", slots(&sample.slots, has_limit));
    }
    for missing in &sample.missing {
        let _ = writeln!(text, "not known: {}: {}", missing.what, missing.reason);
    }
    text.push('\n');
    text
}

/// The time of day, UTC.
fn clock(time: f64) -> String {
    let second = time.max(0.0) as u64 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

fn primary(sample: &Sample) -> String {
    let wal = &sample.wal;
    let mut parts = vec![format!("WAL at {}, {} made", wal.insert_lsn, rate(wal.generation_bytes_per_s))];
    if wal.unflushed_bytes > 0 {
        parts.push(format!("{} not on disk yet", bytes(wal.unflushed_bytes as f64)));
    }
    if let Some(waiting) = wal.waiting_processes.filter(|waiting| *waiting > 0) {
        parts.push(format!("{waiting} processes wait for its disk"));
    }
    if let Some(written) = wal.walwriter_disk_bytes_per_s {
        parts.push(format!("walwriter {}/s", bytes(written)));
    }
    parts.join(", ")
}

fn kept(sample: &Sample) -> String {
    let kept = &sample.kept;
    let mut parts = Vec::new();
    if let (Some(oldest), Some(size)) = (&kept.oldest_segment, kept.bytes) {
        parts.push(format!("{} kept, from {oldest}", bytes(size as f64)));
    }
    if let Some(end) = sample.checkpoint.next_end_s {
        parts.push(format!("next checkpoint over in {}", duration(end)));
    }
    parts.push(match kept.seconds_until_needed_removed {
        Some(seconds) if seconds > 0.0 => {
            format!("WAL that is needed is removed in {}", duration(seconds))
        }
        Some(_) => "WAL that is needed is gone or goes at any moment".to_string(),
        None => "no removal of WAL that is needed is foreseen".to_string(),
    });
    parts.join(", ")
}

fn standbys(standbys: &[Standby]) -> Table {
    let mut table = table(&[
        "standby",
        "client",
        "state",
        "sync",
        "sent behind",
        "write behind",
        "flush behind",
        "replay behind",
        "flush rate",
        "network",
        "held up",
    ]);
    for standby in standbys {
        let network = standby.connection.as_ref();
        table.add_row([
            Cell::new(name(standby)),
            Cell::new(standby.client_address.as_deref().unwrap_or(if standby.pid.is_some() {
                "[local]"
            } else {
                NONE
            })),
            Cell::new(state(standby)),
            Cell::new(standby.sync_state.as_deref().unwrap_or(NONE)),
            number(behind(&standby.sent)),
            number(behind(&standby.write)),
            number(behind(&standby.flush)),
            number(behind(&standby.replay)),
            number(rate(standby.flush.bytes_per_s)),
            number(rate(network.and_then(|connection| connection.acknowledged_bytes_per_s))),
            Cell::new(place(standby.bottleneck.place)),
        ]);
    }
    table
}

/// What the row of a standby can't hold.
fn verdict(standby: &Standby) -> String {
    let Bottleneck { place, evidence } = &standby.bottleneck;
    let mut text = format!("{}: {}: {}", name(standby), self::place(*place), evidence.join("; "));
    let segment = standby.need.segment.as_deref().unwrap_or("WAL");
    let _ = match (standby.need.removed, standby.need.seconds_until_removed) {
        (Some(true), _) => write!(
            text,
            "; the WAL that it needs, {segment}, has been removed: it can go on from an archive only, or has to be made anew"
        ),
        (_, Some(seconds)) => {
            write!(text, "; {segment}, which it needs, is removed in {} at these rates", duration(seconds))
        }
        _ => Ok(()),
    };
    text
}

/// What goes by an interface, the part of it that its link carries, and whose packets are in it.
fn interface(interface: &Interface, standbys: &[Standby]) -> String {
    let mut parts = vec![format!(
        "sends {} in {}, receives {} in {}",
        rate(interface.sent_bytes_per_s),
        packets(interface.sent_packets_per_s),
        rate(interface.received_bytes_per_s),
        packets(interface.received_packets_per_s),
    )];
    parts.push(match (interface.link_bytes_per_s, interface.sent_bytes_per_s) {
        (None, _) => "the speed of its link is not known".to_string(),
        (Some(link), None) => format!("its link carries {}/s", bytes(link as f64)),
        (Some(link), Some(sent)) => {
            format!("{:.0} % of the {}/s that its link carries", 100.0 * sent / link as f64, bytes(link as f64))
        }
    });
    for standby in standbys {
        let Some(connection) = &standby.connection else { continue };
        if connection.interface.as_ref() == Some(&interface.name) {
            parts.push(format!(
                "to {} {} in {}",
                name(standby),
                rate(connection.acknowledged_bytes_per_s),
                packets(connection.sent_packets_per_s)
            ));
        }
    }
    format!("interface {}: {}", interface.name, parts.join("; "))
}

fn packets(value: Option<f64>) -> String {
    value.map_or(NONE.to_string(), |value| format!("{value:.0} packets/s"))
}

fn slots(slots: &[Slot], has_limit: bool) -> Table {
    let mut table = table(&["slot", "kind", "active", "retained", "growth", "WAL status", "safe for", "lost in"]);
    for slot in slots {
        let status = slot.wal_status.map_or(NONE, wal_status);
        table.add_row([
            Cell::new(&slot.name),
            Cell::new(if slot.physical { "physical" } else { "logical" }),
            Cell::new(if slot.active { "yes" } else { "no" }),
            number(slot.retained_bytes.map_or(NONE.to_string(), |retained| bytes(retained as f64))),
            number(rate(slot.retained_growth_bytes_per_s)),
            Cell::new(match &slot.invalidation_reason {
                Some(reason) => format!("{status} ({reason})"),
                None => status.to_string(),
            }),
            number(match slot.safe_wal_size_bytes {
                Some(safe) => bytes(safe as f64),
                None if has_limit || slot.wal_status == Some(WalStatus::Lost) => NONE.to_string(),
                None => "no limit".to_string(),
            }),
            number(match slot.seconds_until_lost {
                _ if slot.wal_status == Some(WalStatus::Lost) => "lost".to_string(),
                Some(seconds) => duration(seconds),
                None => NONE.to_string(),
            }),
        ]);
    }
    table
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn rate(value: Option<f64>) -> String {
    value.map_or(NONE.to_string(), |value| format!("{}/s", bytes(value)))
}

fn behind(position: &Position) -> String {
    let (Some(lag), Some(seconds)) = (position.lag_bytes, position.lag_s) else { return NONE.to_string() };
    match position.lag_source {
        Some(LagSource::CaughtUp) => "0".to_string(),
        Some(LagSource::AtLeast) if seconds < 0.05 => bytes(lag as f64),
        Some(LagSource::AtLeast) => format!("{}, > {}", bytes(lag as f64), duration(seconds)),
        _ => format!("{}, {}", bytes(lag as f64), duration(seconds)),
    }
}

fn name(standby: &Standby) -> String {
    match (&standby.slot, standby.application_name.as_str()) {
        (Some(slot), "") => format!("slot {slot}"),
        (_, name) => name.to_string(),
    }
}

fn state(standby: &Standby) -> String {
    match standby.state {
        StandbyState::Startup => "startup".to_string(),
        StandbyState::Catchup => "catchup".to_string(),
        StandbyState::Streaming => "streaming".to_string(),
        StandbyState::Stopping => "stopping".to_string(),
        StandbyState::Other => "other".to_string(),
        StandbyState::Disconnected => match standby.disconnected_s {
            Some(seconds) => format!("DISCONNECTED for {}", duration(seconds)),
            None => "DISCONNECTED".to_string(),
        },
    }
}

fn wal_status(status: WalStatus) -> &'static str {
    match status {
        WalStatus::Reserved => "reserved",
        WalStatus::Extended => "extended",
        WalStatus::Unreserved => "unreserved",
        WalStatus::Lost => "LOST",
        WalStatus::Other => "other",
    }
}

/// A place for people.
pub fn place(place: Place) -> &'static str {
    match place {
        Place::Idle => "idle",
        Place::Generation => "nowhere",
        Place::PrimaryWalDisk => "primary's WAL disk",
        Place::Network => "network",
        Place::StandbyWrite => "standby's write",
        Place::StandbyFlush => "standby's flush",
        Place::Replay => "replay",
        Place::Disconnected => "disconnected",
        Place::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_servers_units() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1536.0), "1.5 kB");
        assert_eq!(bytes(200.0 * 1048576.0), "200 MB");
        assert_eq!(bytes(-3.0 * 1048576.0), "-3.0 MB");
        assert_eq!(duration(0.25), "0.2 s");
        assert_eq!(duration(61.0), "61 s");
        assert_eq!(duration(3661.0), "61 min 1 s");
    }

    #[test]
    fn an_interface_is_told_with_its_links_speed_and_who_uses_it() {
        let mut interface = Interface {
            name: "eth0".to_string(),
            sent_bytes_per_s: Some(25.0 * 1048576.0),
            sent_packets_per_s: Some(812.4),
            received_bytes_per_s: Some(1024.0),
            received_packets_per_s: Some(20.0),
            link_bytes_per_s: Some(125_000_000),
        };
        assert_eq!(
            super::interface(&interface, &[]),
            "interface eth0: sends 25.0 MB/s in 812 packets/s, receives 1.0 kB/s in 20 packets/s; 21 % of the 119 MB/s that \
             its link carries"
        );
        interface.link_bytes_per_s = None;
        assert!(super::interface(&interface, &[]).ends_with("the speed of its link is not known"));
    }

    #[test]
    fn an_absent_standby_and_a_lost_slot_can_not_be_overlooked() {
        let mut history = crate::History::default();
        let reading = crate::reading::Reading {
            time: 1000.0,
            slots: vec![crate::reading::SlotReading {
                name: "near".to_string(),
                physical: true,
                wal_status: Some(WalStatus::Lost),
                ..Default::default()
            }],
            ..crate::reading::Reading::default()
        };
        let text = sample(&history.add(reading));
        assert!(text.contains("DISCONNECTED"), "{text}");
        assert!(text.contains("LOST"), "{text}");
        assert!(text.contains("has been removed"), "{text}");
    }
}
