//! Each second of each run as a line of values with tabs between: for awk, sort and spreadsheets.

use std::collections::{BTreeMap, BTreeSet};

use pgcalm_render::number::printable;

use crate::contest::report::{Report, Run, is_module_gauge};

/// Names of the columns, and a line for each second; empty where there is no value.
pub fn render(report: &Report) -> String {
    // All contestants have the same columns, so that one heading is enough.
    let module: BTreeSet<&String> = report
        .contestants
        .iter()
        .flat_map(|contestant| &contestant.runs)
        .flat_map(|run| run.series.server.module.keys())
        .collect();
    let mut out = String::new();
    let mut first = true;
    for contestant in &report.contestants {
        for (number, run) in contestant.runs.iter().enumerate() {
            for second in 0..run.series.tps.len() {
                let mut cells = vec![
                    ("contestant".to_string(), printable(&contestant.name)),
                    ("run".to_string(), (number + 1).to_string()),
                    ("second".to_string(), second.to_string()),
                ];
                cells.extend(of_second(run, second, &module));
                if first {
                    line(&mut out, cells.iter().map(|(name, _)| name.as_str()));
                    first = false;
                }
                line(&mut out, cells.iter().map(|(_, value)| value.as_str()));
            }
        }
    }
    out
}

fn line<'a>(out: &mut String, cells: impl Iterator<Item = &'a str>) {
    out.push_str(&cells.collect::<Vec<_>>().join("\t"));
    out.push('\n');
}

fn of_second(run: &Run, second: usize, module: &BTreeSet<&String>) -> Vec<(String, String)> {
    let series = &run.series;
    let server = &series.server;
    let sure = |values: &[f64]| values.get(second).copied();
    let maybe = |values: &[Option<f64>]| values.get(second).copied().flatten();
    let mut cells: Vec<(String, String)> = [
        ("tps", sure(&series.tps)),
        ("latency_p50_ms", maybe(&series.latency_p50_ms)),
        ("latency_p99_ms", maybe(&series.latency_p99_ms)),
        ("latency_max_ms", maybe(&series.latency_max_ms)),
        ("data_read_ops", sure(&series.data_read_ops)),
        ("data_write_ops", sure(&series.data_write_ops)),
        ("data_flush_ops", sure(&series.data_flush_ops)),
        ("data_read_mib", sure(&series.data_read_mib)),
        ("data_write_mib", sure(&series.data_write_mib)),
        ("data_in_flight_mean", sure(&series.data_in_flight_mean)),
        ("data_in_flight_max", sure(&series.data_in_flight_max)),
        ("wal_write_ops", sure(&series.wal_write_ops)),
        ("wal_flush_ops", sure(&series.wal_flush_ops)),
        ("wal_write_mib", sure(&series.wal_write_mib)),
        ("wal_in_flight_mean", sure(&series.wal_in_flight_mean)),
        ("wal_in_flight_max", sure(&series.wal_in_flight_max)),
        ("dirty_mib", sure(&series.dirty_mib)),
        ("writeback_mib", sure(&series.writeback_mib)),
        ("cpu_busy_percent", sure(&series.cpu_busy_percent)),
        ("cpu_steal_percent", sure(&series.cpu_steal_percent)),
        ("volume_held_up_ms", sure(&series.volume_held_up_ms)),
        ("blocked_processes", series.blocked_processes.get(second).map(|number| f64::from(*number))),
        ("wal_mib", maybe(&server.wal_mib)),
        ("wal_writes", maybe(&server.wal_writes)),
        ("wal_syncs", maybe(&server.wal_syncs)),
        ("wal_full_page_images", maybe(&server.wal_full_page_images)),
        ("buffers_checkpointer", maybe(&server.buffers_checkpointer)),
        ("buffers_bgwriter", maybe(&server.buffers_bgwriter)),
        ("buffers_backend", maybe(&server.buffers_backend)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), text(value)))
    .collect();
    let wait = server.checkpointer_wait.get(second).cloned().flatten();
    cells.push(("checkpointer_wait".to_string(), printable(&wait.unwrap_or_default())));
    let waits = server.client_waits.get(second).cloned().flatten();
    cells.push(("client_waits".to_string(), waits_text(waits)));
    for column in module {
        let values = server.module.get(*column);
        let now = values.and_then(|values| maybe(values));
        let value = if is_module_gauge(column) {
            now
        } else {
            // Since the last second with an answer.
            let before = values.and_then(|values| {
                let earlier = values.get(..second).unwrap_or_default();
                earlier.iter().rev().find_map(|value| *value)
            });
            now.zip(before).map(|(now, before)| now - before)
        };
        cells.push((format!("module_{}", printable(column)), text(value)));
    }
    cells
}

fn text(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// Most first.
fn waits_text(waits: Option<BTreeMap<String, u32>>) -> String {
    let mut waits: Vec<(String, u32)> = waits.unwrap_or_default().into_iter().collect();
    waits.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    waits.iter().map(|(event, number)| format!("{}:{number}", printable(event))).collect::<Vec<_>>().join(",")
}
