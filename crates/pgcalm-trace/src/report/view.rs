//! What the lines of all verbs show alike, in a terminal and on a page.

use pgcalm_render::document::{Column, Document, Kind, Section, Table};

use crate::report::histogram::Histogram;
use crate::report::{End, EndReason, Missing, Start};

/// A line of a verb.
pub trait Shown {
    /// The first line of all, if it is that.
    fn as_start(&self) -> Option<&Start>;

    /// What it says, but for the first.
    fn section(&self) -> Section;

    /// For a terminal; every line of text ends in a newline.
    fn text(&self) -> String {
        self.as_start().map_or_else(|| self.section(), start).terminal()
    }

    /// What a page says of it, where that is not the same; nothing where a sum of all lines has it.
    fn on_page(&self, _lines: &[Self]) -> Option<Section>
    where
        Self: Sized,
    {
        Some(self.section())
    }

    /// What a page has before its lines.
    fn preface(_lines: &[Self]) -> Option<Section>
    where
        Self: Sized,
    {
        None
    }
}

/// All lines of a trace as one HTML page.
pub fn page<L: Shown>(lines: &[L]) -> String {
    let mut document = Document::default();
    for line in lines {
        match line.as_start() {
            Some(start) => {
                let server = &start.server;
                document.by = "pgcalm trace".to_string();
                document.subject.clone_from(&start.verb);
                document.title = Some(format!("{}, pid {}", server.version, server.pid));
                document.conditions = vec![place(start)];
                let mut section = Section::default();
                missing(&mut section, &start.missing);
                document.sections.push(section);
                document.sections.extend(L::preface(lines));
            }
            None => document.sections.extend(line.on_page(lines)),
        }
    }
    document.html()
}

/// Which server, what can't be told.
fn start(start: &Start) -> Section {
    let mut section = Section::default();
    let (server, place) = (&start.server, place(start).join(", "));
    section.text(format!("trace {}: {}, pid {}, {place}", start.verb, server.version, server.pid));
    missing(&mut section, &start.missing);
    section
}

/// Where the server is, and what else changes what is measured.
fn place(start: &Start) -> Vec<String> {
    let server = &start.server;
    let mut phrases = vec![server.data_directory.clone()];
    phrases.extend(server.port.map(|port| format!("port {port}")));
    phrases.push(format!("Linux {}", server.kernel));
    phrases.extend(start.options.iter().cloned());
    phrases
}

/// The last line: why it ended, what was lost. What was missing from the start is not repeated.
pub fn end(end: &End) -> Section {
    let reason = match end.reason {
        EndReason::Count => "as many as asked for",
        EndReason::Duration => "the time asked for is over",
        EndReason::Interrupted => "ended by a signal",
        EndReason::ServerEnded => "the server ended",
    };
    let mut section = Section::default();
    section.text(match (end.drops.events, end.drops.entries) {
        (0, 0) => format!("End: {reason}; nothing was dropped."),
        (events, entries) => format!(
            "End: {reason}; DROPPED: {events} events and {entries} entries found no room, figures are too small by that."
        ),
    });
    section
}

/// The answers that can't be given.
pub fn missing(section: &mut Section, missing: &[Missing]) {
    for missing in missing {
        section.text(format!("Missing: {}: {}", missing.answer, missing.reason));
    }
}

/// A distribution: a row for each bucket from the first used to the last.
pub fn histogram(section: &mut Section, name: &str, histogram: &Histogram) {
    section.text(histogram_sentence(name, histogram));
    let first = histogram.buckets.iter().position(|count| *count > 0).unwrap_or(histogram.buckets.len());
    let most = histogram.buckets.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut table = Table::new([Column::figures("from"), Column::figures("number"), bar()]);
    for (bucket, count) in histogram.buckets.iter().enumerate().skip(first) {
        let from = duration(Histogram::bounds_ns(bucket).0 as f64);
        table.row([from, count.to_string(), (*count as f64 / most).to_string()]);
    }
    section.table(table);
}

/// A column of bars for shares between 0 and 1.
pub fn bar() -> Column {
    Column { kind: Kind::Bar, ..Column::default() }
}

/// Its figures in one line.
fn histogram_sentence(name: &str, histogram: &Histogram) -> String {
    let Some(mean) = histogram.mean_ms() else {
        return format!("{name}: never");
    };
    let ms = |ms: f64| duration(ms * 1e6);
    let mut out = format!("{name}: {} times", histogram.count);
    out.extend(histogram.min_ms.map(|min| format!(", min {}", ms(min))));
    out.push_str(&format!(", mean {}", ms(mean)));
    out.extend(histogram.p50_ms.map(|p50| format!(", p50 {}", ms(p50))));
    out.extend(histogram.p99_ms.map(|p99| format!(", p99 {}", ms(p99))));
    out.extend(histogram.max_ms.map(|max| format!(", max {}", ms(max))));
    out.push_str(&format!(", {} in all", ms(histogram.sum_ms)));
    out
}

/// A duration with a unit that leaves one to three digits before the point.
pub fn duration(ns: f64) -> String {
    for (unit, factor) in [("s", 1e9), ("ms", 1e6), ("us", 1e3)] {
        if ns >= factor {
            let value = ns / factor;
            return match value {
                value if value >= 100.0 => format!("{value:.0} {unit}"),
                value if value >= 10.0 => format!("{value:.1} {unit}"),
                value => format!("{value:.2} {unit}"),
            };
        }
    }
    format!("{ns:.0} ns")
}
