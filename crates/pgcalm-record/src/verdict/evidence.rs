//! What shows that a cause is the cause: figures in the bad seconds beside those before.

use pgcalm_monitor::model::WaitCause;
use pgcalm_render::number::{percent, short};

use super::window::Window;
use crate::incident::Evidence;
use crate::second::{Disk, Second};

/// The disk of the data directory.
pub(super) fn data(second: &Second) -> Option<&Disk> {
    second.data.as_ref()
}

/// The disk of WAL.
pub(super) fn wal(second: &Second) -> Option<&Disk> {
    second.wal.as_ref()
}

/// A disk in a sentence.
pub(super) fn name(disk: Option<&Disk>) -> String {
    disk.map_or_else(|| "the disk".to_string(), |disk| format!("{} ({})", disk.name, disk.path))
}

/// A figure in the bad seconds, and before them.
pub(super) fn evidence(what: impl Into<String>, during: String, before: String) -> Evidence {
    Evidence { what: what.into(), during, before }
}

/// Parts of a time.
pub(super) fn shares(what: &str, during: f64, before: f64) -> Evidence {
    evidence(what, percent(during), percent(before))
}

/// How much of the sessions' time went into these waits.
pub(super) fn waits_evidence(window: &Window, causes: &[WaitCause], what: &str) -> Evidence {
    evidence(format!("sessions' time that went into {what}"), percent(window.waiting(causes)), String::new())
}

/// What a disk did against its cap.
pub(super) fn disk_evidence(window: &Window, of: fn(&Second) -> Option<&Disk>) -> Vec<Evidence> {
    let Some(disk) = window.disk(of) else { return Vec::new() };
    let (operations, before) = window.means(|second| of(second).map(|disk| disk.reads + disk.writes));
    let mut rows = vec![evidence(format!("operations per second of {}", disk.name), short(operations), short(before))];
    match &disk.cap {
        Some(cap) => rows.push(evidence(
            format!("{} per second of {}, most", cap.what, disk.name),
            format!("{} of {} ({})", cap.amount(cap.used), cap.amount(cap.allowed), cap.source),
            String::new(),
        )),
        None => {
            let (busy, before) = window.means(|second| of(second).map(|disk| disk.busy));
            rows.push(shares(&format!("time in which {} was busy", disk.name), busy, before));
        }
    }
    rows
}
