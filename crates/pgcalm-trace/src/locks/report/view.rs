//! Lock waits for readers: before, in and after each checkpoint, and in all.

use pgcalm_render::document::{Column, Section, Table};

use crate::locks::report::{AroundCheckpoint, Line, LockWaits, Period};
use crate::report::view::{Shown, duration};
use crate::report::{Start, view};

/// Rows of a table in a terminal; the rest is in JSON and HTML.
const ROWS: usize = 15;

/// The locks with the longest waits whose distribution is shown.
const HISTOGRAMS: usize = 3;

impl Shown for Line {
    fn as_start(&self) -> Option<&Start> {
        if let Line::Start(start) = self { Some(start) } else { None }
    }

    fn section(&self) -> Section {
        match self {
            Line::Start(_) => Section::default(),
            Line::Checkpoint(checkpoint) => around(checkpoint),
            Line::Total(total) => {
                let mut section = Section { heading: "In all".to_string(), ..Section::default() };
                period(&mut section, "", total);
                if total.locks.is_empty() {
                    section
                        .text("Waits are counted when they end; pg_blocking_pids tells of those still on.".to_string());
                }
                // Samples have them.
                if total.locks.iter().all(|lock| lock.sampled_s.is_none()) {
                    section.note(
                        "Waits for a Lock that an error ended, as lock_timeout's or a deadlock's, are not counted.",
                    );
                }
                let counted = total.locks.iter().filter(|lock| lock.waits.count > 0);
                for lock in counted.take(HISTOGRAMS) {
                    view::histogram(&mut section, &title(lock), &lock.waits);
                }
                section
            }
            Line::End(end) => view::end(end),
        }
    }
}

fn around(checkpoint: &AroundCheckpoint) -> Section {
    let kind = if checkpoint.restartpoint { "Restartpoint" } else { "Checkpoint" };
    let state = if checkpoint.complete { "" } else { "under way for " };
    let seconds = checkpoint.during.seconds;
    let heading = format!("{kind} {} ({}): {state}{seconds:.3} s", checkpoint.number, checkpoint.reason);
    let mut section = Section { heading, ..Section::default() };
    for (name, time) in [
        ("before ", &checkpoint.before),
        ("first ", &checkpoint.first),
        ("during ", &checkpoint.during),
        ("after ", &checkpoint.after),
    ] {
        period(&mut section, name, time);
    }
    section
}

/// What the waits of a time come to.
fn sentence(period: &Period) -> String {
    match period.rates() {
        Some((waits, ms)) => {
            let waits = waits.map_or(String::new(), |waits| format!("{waits:.1} waits per second, "));
            format!("{:.1} s: {waits}{ms:.1} ms waited per second", period.seconds)
        }
        None => "not seen".to_string(),
    }
}

fn relation(lock: &LockWaits) -> String {
    lock.relation_name.clone().or_else(|| Some(lock.relation?.to_string())).unwrap_or_default()
}

/// The lock, its mode and who waits.
fn title(lock: &LockWaits) -> String {
    let names = [lock.class.name(), &lock.name, &relation(lock)].map(str::to_string);
    let named: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    format!("{}, {}, {}", named.join(" "), lock.mode, lock.process_type)
}

fn period(section: &mut Section, name: &str, period: &Period) {
    section.text(format!("{name}{}", sentence(period)));
    let figures = ["waits", "total", "mean", "longest,\nat most", "acquisitions"].map(Column::figures);
    let words = ["lock", "mode", "relation", "process type"].map(Column::text);
    let mut table = Table::new(words.into_iter().chain(figures));
    table.most_in_terminal = Some(ROWS);
    for lock in &period.locks {
        let ms = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| duration(ms * 1e6));
        // Samples don't tell how many; where only the bucket is known, it says below which bound.
        let count = if lock.sampled_s.is_some() { "-".to_string() } else { lock.waits.count.to_string() };
        let below = if lock.waits.max_ms.is_none() && lock.waits.count > 0 { "<" } else { "" };
        table.row([
            format!("{} {}", lock.class.name(), lock.name),
            lock.mode.clone(),
            relation(lock),
            lock.process_type.clone(),
            count,
            duration(lock.total_ms() * 1e6),
            ms(lock.waits.mean_ms()),
            format!("{below}{}", ms(lock.waits.upper_bound_ms())),
            lock.acquisitions.map_or(String::new(), |number| number.to_string()),
        ]);
    }
    section.table(table);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::report::LockClass;
    use crate::report::histogram::Histogram;

    /// The server's probe of a wait's end is not reached by an error.
    #[test]
    fn what_probes_do_not_count_is_said_and_samples_have_it() {
        let sampled = |sampled_s| {
            let lock = LockWaits {
                class: LockClass::Heavyweight,
                name: "tuple".to_string(),
                mode: "unknown".to_string(),
                database: None,
                relation: None,
                relation_name: None,
                process_type: "client backend".to_string(),
                waits: Histogram::default(),
                sampled_s,
                acquisitions: None,
            };
            Line::Total(Period { seconds: 1.0, locks: vec![lock] }).text()
        };
        assert!(sampled(None).contains("lock_timeout"), "{}", sampled(None));
        assert!(!sampled(Some(0.5)).contains("lock_timeout"), "{}", sampled(Some(0.5)));
    }
}
