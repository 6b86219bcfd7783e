//! The list of incidents.

use pgcalm_render::document::{Column, Document, Table};
use pgcalm_render::number::{plural, short};
use serde::{Deserialize, Serialize};

use super::card::words;
use super::time::date_and_time;
use crate::incident::Incident;

/// What `pgcalm incidents --json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Incidents {
    /// Version of pgcalm that wrote this.
    pub pgcalm: String,
    /// From when on: milliseconds since 1970; `None`: all that is kept.
    pub since_ms: Option<u64>,
    /// Oldest first.
    pub incidents: Vec<Incident>,
}

/// The list; each line ends in a newline. `silence` is what is said of a record that does not go on.
pub fn text(list: &Incidents, silence: Option<&str>) -> String {
    let since = list.since_ms.map_or("all that is kept".to_string(), |since| format!("since {}", date_and_time(since)));
    let mut document = Document::new("pgcalm", "incidents", &since);
    let mut table = Table::new([
        Column::figures("id"),
        Column::text("began"),
        Column::figures("s"),
        Column::text("instance"),
        Column::figures("commits\nlost"),
        Column::figures("sessions\nheld"),
        Column::text("cause"),
    ]);
    for incident in &list.incidents {
        table.row([
            incident.id.map_or(String::new(), |id| id.to_string()),
            date_and_time(incident.started_ms),
            short(incident.seconds),
            incident.server.clone(),
            short(incident.lost_commits),
            short(incident.held_sessions as f64),
            words(incident.cause).to_string(),
        ]);
    }
    let none = table.rows.is_empty();
    let section = document.section("");
    section.table(table);
    let silence = silence.map_or(String::new(), |silence| format!("; {silence}"));
    if none {
        section.text(format!("Nothing stalled{silence}."));
    } else {
        let count = plural(list.incidents.len() as f64, "incident");
        section.text(format!("{count}; pgcalm incident ID tells why{silence}."));
    }
    if !list.incidents.iter().filter_map(|incident| incident.id).is_sorted() {
        section.text(
            "Rows are in the order of time, and numbers in the order in which stalls were told: one that lasts, or that a recorder \
             finds at its start in what was recorded before, has a later number than its place.",
        );
    }
    document.text()
}
