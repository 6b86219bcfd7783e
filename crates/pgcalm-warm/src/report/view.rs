//! A report in words.

use pgcalm_render::document::{Column, Document, Table};
use pgcalm_render::number;

use super::{End, Report, Restoring, Saving};

/// As a document; `time` is how it shows the moment of saving.
pub fn document(report: &Report, time: &str) -> Document {
    match report {
        Report::Saving(saving) => saved(saving, time),
        Report::Restoring(restoring) => restored(restoring, time),
    }
}

fn bytes(bytes: u64) -> String {
    number::bytes(bytes as f64)
}

fn saved(saving: &Saving, time: &str) -> Document {
    let mut document = Document::new("pgcalm warm", "saved", time);
    document.conditions = vec![vec![saving.data_directory.clone()]];
    let mut table = table();
    table.row(["page cache".to_string(), bytes(saving.page_cache_bytes)]);
    if let Some(shared) = saving.shared_buffers_bytes.known() {
        table.row(["shared buffers".to_string(), bytes(*shared)]);
    }
    table.row(["in the list".to_string(), bytes(saving.cached_bytes)]);
    document.section("Cached").table(table);
    document.readings = vec![format!(
        "{} of {} in {}, {}",
        number::plural(saving.ranges as f64, "range"),
        number::plural(saving.files as f64, "file"),
        saving.file,
        bytes(saving.file_bytes)
    )];
    if let Some(why) = saving.shared_buffers_bytes.unknown() {
        document.readings.push(format!("Only the page cache is known, not {why}"));
    }
    document.readings.extend(saving.read_error.clone());
    document
}

fn restored(restoring: &Restoring, time: &str) -> Document {
    let mut document = Document::new("pgcalm warm", "restored, saved", time);
    document.conditions = vec![vec![restoring.data_directory.clone(), restoring.file.clone()]];
    let mut table = table();
    for (what, amount) in [
        ("was cached", restoring.wanted_bytes),
        ("is there already", restoring.already_bytes),
        ("read", restoring.warmed_bytes),
        ("in files that have changed", restoring.changed_bytes),
        ("still cold", restoring.cold_bytes()),
    ] {
        table.row([what.to_string(), bytes(amount)]);
    }
    document.section("Cached").table(table);
    document.readings = vec![format!(
        "read {} in {} s, {} per second",
        bytes(restoring.read_bytes),
        number::short(restoring.seconds),
        number::bytes(restoring.rate())
    )];
    if restoring.gone_files + restoring.shorter_files > 0 {
        document.readings.push(format!(
            "of {}, {} gone or empty, and {} shorter than then",
            number::plural(restoring.files as f64, "file"),
            restoring.gone_files,
            restoring.shorter_files
        ));
    }
    document.readings.extend(restoring.read_error.clone());
    document.readings.extend(match restoring.end {
        End::All => None,
        End::Limit => Some("ended by --limit".to_string()),
        End::Memory => Some(format!(
            "ended by {}: more would have pushed out what is in use",
            restoring.memory_limit.as_deref().unwrap_or("the host's memory")
        )),
        End::Interrupted => Some("interrupted: what was read stays".to_string()),
    });
    document
}

fn table() -> Table {
    Table::new([Column::text("what"), Column::figures("size")])
}

/// How far it is, in a line.
pub fn progress(restoring: &Restoring) -> String {
    format!(
        "read {} at {} per second; {} still cold",
        bytes(restoring.read_bytes),
        number::bytes(restoring.rate()),
        bytes(restoring.cold_bytes())
    )
}
