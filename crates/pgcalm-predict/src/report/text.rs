//! A prediction for a terminal.

use pgcalm_render::document::{Column, Section, Table};
use pgcalm_render::number::short;

use super::Prediction;

/// What pg_calm would gain on a server.
pub fn render(prediction: &Prediction) -> String {
    let mut section = Section::default();
    let observation = &prediction.observation;
    let device = &observation.device;
    let cap = |writes: Option<f64>, all: Option<f64>, unit: f64| match (all, writes) {
        (Some(all), Some(writes)) if writes < all => {
            format!("{} ({} for writes)", short(all / unit), short(writes / unit))
        }
        (Some(value), _) | (None, Some(value)) => short(value / unit),
        (None, None) => "any number of".to_string(),
    };
    let reads = if device.all_iops.or(device.all_bytes_per_s).is_some() {
        format!(
            "; reads count, {} per second, beside {} writes of WAL",
            short(device.reads_per_s),
            short(device.wal_writes_per_s)
        )
    } else {
        String::new()
    };
    section.text(format!(
        "looked at for {:.0} s: {} TPS, pages written per second: {} by backends, {} by the background writer, {} by the \
         checkpointer",
        observation.seconds,
        short(observation.tps),
        short(observation.backend_pages_per_s),
        short(observation.background_writer_pages_per_s),
        short(observation.checkpointer_pages_per_s),
    ));
    section.text(format!(
        "device {}: takes {} operations and {} MiB per second ({}); {} operations and {} MiB per second now{reads}",
        if device.name.is_empty() { "unknown" } else { &device.name },
        cap(device.write_iops, device.all_iops, 1.0),
        cap(device.write_bytes_per_s, device.all_bytes_per_s, 1_048_576.0),
        device.caps_source,
        short(device.operations_per_s),
        short(device.mib_per_s),
    ));
    if let Some(shadow) = &observation.shadow {
        section.text(format!(
            "pg_calm in shadow mode has counted what it would have written: {} operations and {} MiB per second",
            short(shadow.device_operations_per_s),
            short(shadow.mib_per_s),
        ));
    }
    let figures = ["operations/s", "per transaction", "MiB/s", "sustainable TPS"].map(Column::figures);
    let mut table =
        Table::new([Column::text("data files")].into_iter().chain(figures).chain([Column::text("bound by")]));
    for (name, outlook) in [("stock", Some(&prediction.stock)), ("pg_calm", prediction.pg_calm.as_ref())] {
        let Some(outlook) = outlook else { continue };
        table.row([
            name.to_string(),
            short(outlook.device_operations_per_s),
            short(outlook.device_operations_per_s / observation.tps),
            short(outlook.device_mib_per_s),
            short(outlook.sustainable_tps),
            outlook.bound_by.clone(),
        ]);
    }
    section.text("").table(table);
    section.note("sustainable TPS is linear, what the caps leave by what a transaction costs now: an upper bound");
    section.text(verdict(prediction));
    if prediction.helps.is_none() && prediction.pg_calm.is_none() {
        section.text("load pg_calm in shadow mode (pg_calm.mode = shadow) to count what it would write");
    }
    for caution in &prediction.cautions {
        section.text(format!("uncertain: {caution}"));
    }
    section.terminal()
}

/// Whether pg_calm helps, and why.
pub fn verdict(prediction: &Prediction) -> String {
    let reason = &prediction.reason;
    match prediction.helps {
        Some(true) => format!("pg_calm helps: {reason}"),
        Some(false) => format!("it will not help, because {reason}"),
        None => format!("whether pg_calm helps is not known: {reason}"),
    }
}
