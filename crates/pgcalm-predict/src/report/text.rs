//! A prediction for a terminal.

use comfy_table::Cell;
use pgcalm_render::number::{printable, short};
use pgcalm_render::text::{new_table, paragraph, push_table, right};

use super::Prediction;

/// What pg_calm would gain on a server.
pub fn render(prediction: &Prediction) -> String {
    let mut out = String::new();
    let observation = &prediction.observation;
    let device = &observation.device;
    // Where reads count, limits for all are the tighter ones, or there would be no need to name them.
    let cap = |writes: Option<f64>, all: Option<f64>, unit: f64| match all.or(writes) {
        Some(value) => short(value / unit),
        None => "any number of".to_string(),
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
    paragraph(
        &mut out,
        &format!(
            "looked at for {:.0} s: {} TPS, pages written per second: {} by backends, {} by the background \
             writer, {} by the checkpointer",
            observation.seconds,
            short(observation.tps),
            short(observation.backend_pages_per_s),
            short(observation.background_writer_pages_per_s),
            short(observation.checkpointer_pages_per_s),
        ),
    );
    paragraph(
        &mut out,
        &format!(
            "device {}: takes {} operations and {} MB per second ({}); {} operations and {} MiB per second now{reads}",
            if device.name.is_empty() { "unknown" } else { &device.name },
            cap(device.write_iops, device.all_iops, 1.0),
            cap(device.write_bytes_per_s, device.all_bytes_per_s, 1e6),
            device.caps_source,
            short(device.operations_per_s),
            short(device.mib_per_s),
        ),
    );
    if let Some(shadow) = &observation.shadow {
        paragraph(
            &mut out,
            &format!(
                "pg_calm in shadow mode has counted what it would have written: {} operations and {} MiB per second",
                short(shadow.device_operations_per_s),
                short(shadow.mib_per_s),
            ),
        );
    }
    out.push('\n');
    let mut table = new_table([
        Cell::new("data files"),
        right("operations/s"),
        right("per transaction"),
        right("MiB/s"),
        right("sustainable TPS"),
        Cell::new("bound by"),
    ]);
    for (name, outlook) in [("stock", Some(&prediction.stock)), ("pg_calm", prediction.pg_calm.as_ref())] {
        let Some(outlook) = outlook else { continue };
        table.add_row([
            Cell::new(name),
            right(short(outlook.device_operations_per_s)),
            right(short(outlook.device_operations_per_s / observation.tps)),
            right(short(outlook.device_mib_per_s)),
            right(short(outlook.sustainable_tps)),
            Cell::new(printable(&outlook.bound_by)),
        ]);
    }
    push_table(&mut out, table, 2);
    paragraph(
        &mut out,
        "sustainable TPS is linear, what the caps leave by what a transaction costs now: an upper bound",
    );
    out.push('\n');
    paragraph(&mut out, &verdict(prediction));
    if prediction.helps.is_none() {
        paragraph(&mut out, "load pg_calm in shadow mode (pg_calm.mode = shadow) to count what it would write");
    }
    for caution in &prediction.cautions {
        paragraph(&mut out, &format!("uncertain: {caution}"));
    }
    out
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
