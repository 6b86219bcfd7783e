//! Whether writers are slowed down, and for what.

use pgcalm_monitor::model::{Guard, GuardInput};
use pgcalm_render::number;

use crate::format;
use crate::row::Row;
use crate::section::{Context, listed};

const SECTION: &str = "Guard";

/// The rate in force and who is held; then each input that is on.
pub fn rows(context: &Context) -> Vec<Row> {
    let Some(guard) = &context.instance.guard else { return Vec::new() };
    let palette = context.palette();
    let inputs: Vec<&GuardInput> = guard.inputs.iter().filter(|input| input.state != "off").collect();
    if inputs.is_empty() {
        return vec![Row::text(SECTION, 5, "off", palette.secondary())];
    }
    let mut rows = Vec::new();
    if guard.allowed_bytes_per_second.is_some() || !guard.holds.is_empty() {
        rows.push(Row::text(SECTION, 1, pace(guard), palette.notice()));
    }
    for (at, input) in inputs.iter().enumerate() {
        let rank = if at == 0 { 1 } else { 2 };
        let style = match input.state.as_str() {
            "watched" => ratatui::style::Style::new(),
            "refusing" | "released" => palette.alarm(),
            _ => palette.notice(),
        };
        rows.push(Row::text(SECTION, rank, describe(input), style));
    }
    rows
}

fn pace(guard: &Guard) -> String {
    let longest = guard
        .holds
        .iter()
        .map(|hold| hold.held_seconds)
        .reduce(f64::max)
        .map(|seconds| format!("longest {}", format::seconds(seconds)));
    listed([
        guard.allowed_bytes_per_second.map(|rate| format!("allows {} of WAL", format::byte_rate(rate))),
        guard.wal_bytes_per_second.map(|rate| format!("written {}", format::byte_rate(rate))),
        Some(format!("{} sessions held", guard.holds.len())),
        longest,
    ])
}

fn describe(input: &GuardInput) -> String {
    let unit = input.unit.as_deref();
    let quantity = |value: f64| match unit {
        Some("s") => format::seconds(value),
        _ => number::bytes(value),
    };
    let position = match (input.value, input.value_limit) {
        // Of wal_space the limit is what has to be left, of all others what there may be.
        (Some(value), Some(limit)) if input.input == "wal_space" => {
            Some(format!("{} free, {} to be left", quantity(value), quantity(limit)))
        }
        (Some(value), Some(limit)) => Some(format!("{} of {}", quantity(value), quantity(limit))),
        (Some(value), None) => Some(quantity(value)),
        (None, _) => None,
    };
    listed([
        Some(format!("{} {}", input.input, input.state)),
        position,
        input.object.clone().map(|object| format!("by {object}")),
        input.drain_bytes_per_second.map(|rate| format!("drains {}", format::byte_rate(rate))),
        (input.holds > 0)
            .then(|| format!("{} holds of {} in all", format::count(input.holds), format::seconds(input.held_seconds))),
    ])
}
