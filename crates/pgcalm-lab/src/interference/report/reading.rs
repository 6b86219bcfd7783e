//! What the figures say in words, the same in text and HTML.

use pgcalm_render::number::short;

use super::{DeviceRates, Hang, Layout, Report};

/// A fall by this factor is called a collapse.
const COLLAPSE: f64 = 100.0;

/// Below this a layout is said to hold: one run of seconds drifts by itself.
const HOLDS: f64 = 2.0;

/// One line for each layout, and what the victim hung in.
pub(super) fn lines(report: &Report) -> Vec<String> {
    report.layouts.iter().map(line).collect()
}

fn line(layout: &Layout) -> String {
    let (tps, files) = (layout.tps_factor(), layout.files_factor());
    let verdict = if tps >= COLLAPSE {
        "collapses"
    } else if files >= COLLAPSE {
        "holds up whoever needs the journal"
    } else if tps.max(files) < HOLDS && layout.noisy.seconds_zero == 0 {
        "holds"
    } else {
        "suffers"
    };
    let mut text = format!(
        "{} {verdict}: {} TPS alone, {} with the neighbour ({}), {} s without a transaction; files made and synced per \
         second {} and {} ({}); longest connect {} ms and {} ms, with a cold relcache {} ms and {} ms.",
        layout.name,
        short(layout.alone.tps_mean),
        short(layout.noisy.tps_mean),
        fall(tps),
        layout.noisy.seconds_zero,
        short(layout.alone.files_per_s),
        short(layout.noisy.files_per_s),
        fall(files),
        short(layout.alone.connect_max_ms),
        short(layout.noisy.connect_max_ms),
        short(layout.alone.cold_connect_max_ms),
        short(layout.noisy.cold_connect_max_ms),
    );
    let rate = |device: &DeviceRates| {
        let (writes, megabytes) = (short(device.writes_per_s), short(device.write_bytes_per_s / 1e6));
        format!("{} {writes} and {megabytes} MB", device.device)
    };
    if !layout.noisy.devices.is_empty() {
        let rates: Vec<String> = layout.noisy.devices.iter().map(rate).collect();
        text.push_str(&format!(" Writes per second of the devices with the neighbour: {}.", rates.join(", ")));
    }
    let most_often = |who| layout.hangs.iter().find(|hang| hang.who == who);
    if let Some(hang) = most_often("victim").filter(|_| verdict != "holds") {
        text.push_str(&format!(" Most often held up: {}.", described(hang)));
    }
    if let Some(hang) = most_often("login").filter(|_| verdict != "holds") {
        text.push_str(&format!(" Logins: {}.", described(hang)));
    }
    text
}

fn fall(factor: f64) -> String {
    if factor.is_nan() {
        "no figure".to_string()
    } else if factor.is_infinite() {
        "to nothing".to_string()
    } else if factor < 1.1 {
        "no loss".to_string()
    } else {
        format!("1/{}", short(factor))
    }
}

/// The factor as a table shows it.
pub(super) fn factor(factor: f64) -> String {
    if factor.is_infinite() { "inf".to_string() } else { short(factor) }
}

/// Who, in which call on what, in which kernel function.
fn described(hang: &Hang) -> String {
    let place = hang.stack.first().map_or("unknown", String::as_str);
    match (&hang.call, &hang.file) {
        (Some(call), Some(file)) => format!("{} in {call} of a {file}, {place}", hang.process),
        (Some(call), None) => format!("{} in {call}, {place}", hang.process),
        _ => format!("{} in {place}", hang.process),
    }
}
