//! Lock waits for a terminal.

use pgcalm_render::number::printable;
use pgcalm_render::text::paragraph;

use crate::locks::report::AroundCheckpoint;
use crate::locks::report::Line;
use crate::locks::report::LockWaits;
use crate::locks::report::Period;
use crate::report::text;
use crate::report::text::duration;

/// Rows of a table; the rest is in JSON and HTML.
const ROWS: usize = 15;

/// One line of the model; every line of text ends in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => text::start(start),
        Line::Checkpoint(checkpoint) => render_checkpoint(checkpoint),
        Line::Total(period) => {
            let mut out = String::from("\nIn all\n");
            out.push_str(&render_period("", period));
            let counted = period.locks.iter().filter(|lock| lock.waits.count > 0);
            for lock in counted.take(HISTOGRAMS) {
                out.push_str(&text::histogram(&printable(&title(lock)), &lock.waits));
            }
            out
        }
        Line::End(end) => text::end(end),
    }
}

/// The locks with the longest waits whose distribution is shown.
const HISTOGRAMS: usize = 3;

fn render_checkpoint(checkpoint: &AroundCheckpoint) -> String {
    let mut out = String::from("\n");
    paragraph(&mut out, &headline(checkpoint));
    for (name, period) in [
        ("before ", &checkpoint.before),
        ("first ", &checkpoint.first),
        ("during ", &checkpoint.during),
        ("after ", &checkpoint.after),
    ] {
        out.push_str(&render_period(name, period));
    }
    out
}

/// Which checkpoint, in one line.
pub(crate) fn headline(checkpoint: &AroundCheckpoint) -> String {
    let kind = if checkpoint.restartpoint { "Restartpoint" } else { "Checkpoint" };
    let state = if checkpoint.complete { "" } else { "under way for " };
    format!("{kind} {} ({}): {state}{:.3} s", checkpoint.number, checkpoint.reason, checkpoint.during.seconds)
}

/// What the waits of a time come to.
pub(crate) fn sentence(period: &Period) -> String {
    match period.rates() {
        Some((waits, ms)) => {
            let waits = waits.map_or(String::new(), |waits| format!("{waits:.1} waits per second, "));
            format!("{:.1} s: {waits}{ms:.1} ms waited per second", period.seconds)
        }
        None => "not seen".to_string(),
    }
}

/// The lock, its mode and who waits.
pub(crate) fn title(lock: &LockWaits) -> String {
    let relation = match (&lock.relation_name, lock.relation) {
        (Some(name), _) => format!(" {name}"),
        (None, Some(oid)) => format!(" {oid}"),
        (None, None) => String::new(),
    };
    format!("{} {}{relation}, {}, {}", lock.class.name(), lock.name, lock.mode, lock.process_type)
}

fn render_period(name: &str, period: &Period) -> String {
    let mut out = format!("  {name}{}\n", sentence(period));
    if period.locks.is_empty() {
        return out;
    }
    out.push_str(&format!(
        "  {:>9} {:>9} {:>9} {:>9}  lock, mode, process type\n",
        "waits", "total", "mean", "longest"
    ));
    for lock in period.locks.iter().take(ROWS) {
        let acquisitions = lock.acquisitions.map_or(String::new(), |number| format!(" ({number} acquisitions)"));
        let ms = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| duration(ms * 1e6));
        let bound = ms(lock.waits.upper_bound_ms());
        // Where only the bucket is known, it says below which bound.
        let longest = match lock.waits.max_ms {
            None if lock.waits.count > 0 => format!("<{bound}"),
            _ => bound,
        };
        // Samples don't tell how many.
        let count = match lock.sampled_s {
            Some(_) => "-".to_string(),
            None => lock.waits.count.to_string(),
        };
        let line = format!(
            "  {count:>9} {:>9} {:>9} {longest:>9}  {}{acquisitions}",
            duration(lock.total_ms() * 1e6),
            ms(lock.waits.mean_ms()),
            title(lock)
        );
        out.push_str(&printable(&line));
        out.push('\n');
    }
    if period.locks.len() > ROWS {
        out.push_str(&format!("  ... and {} more, which JSON and HTML have\n", period.locks.len() - ROWS));
    }
    out
}
