//! `pgcalm trace io` for readers: each process, and its system calls by operation and file.

use pgcalm_render::document::{Column, Section, Table};
use pgcalm_render::number::short;

use crate::io::report::{Interval, Line, Process};
use crate::report::histogram::Histogram;
use crate::report::view::Shown;
use crate::report::{Start, view};

impl Shown for Line {
    fn as_start(&self) -> Option<&Start> {
        if let Line::Start(start) = self { Some(start) } else { None }
    }

    fn section(&self) -> Section {
        match self {
            Line::Start(_) => Section::default(),
            Line::Interval(interval) => of("Interval", interval),
            Line::Total(total) => of("Total", total),
            Line::End(end) => view::end(end),
        }
    }

    fn on_page(&self, _lines: &[Self]) -> Option<Section> {
        if let Line::Interval(_) = self { None } else { Some(self.section()) }
    }
}

fn of(name: &str, interval: &Interval) -> Section {
    let heading = format!("{name}: system calls by process, {} s", short(interval.length_s));
    let mut section = Section { heading, ..Section::default() };
    for process in &interval.processes {
        section.heading(process_line(process)).table(calls(process));
    }
    section
}

/// Who and how much, in words.
fn process_line(process: &Process) -> String {
    let client = process.client.as_deref().map_or(String::new(), |client| format!(" {client}"));
    let pid = if process.pid == 0 { "ended".to_string() } else { process.pid.to_string() };
    format!(
        "{pid} {}{client}: {} system calls; sent {} B/s, received {} B/s",
        process.role,
        process.syscalls,
        short(process.sent_bytes_per_s),
        short(process.received_bytes_per_s)
    )
}

fn calls(process: &Process) -> Table {
    let figures = ["calls", "failed", "bytes", "mean ms", "p99 ms", "max ms"].map(Column::figures);
    let mut table = Table::new(["operation", "file"].map(Column::text).into_iter().chain(figures));
    for calls in &process.operations {
        table.row([
            calls.operation.label().to_string(),
            calls.file.label().to_string(),
            calls.calls.to_string(),
            calls.errors.to_string(),
            calls.bytes.to_string(),
            short(calls.duration.mean_ms().unwrap_or(0.0)),
            short(p99_ms(&calls.duration)),
            short(calls.duration.max_ms.unwrap_or(0.0)),
        ]);
    }
    table
}

/// An upper bound of the time that 99 of 100 calls took at most, ms: that of its bucket.
fn p99_ms(histogram: &Histogram) -> f64 {
    let wanted = (histogram.count as f64 * 0.99).ceil() as u64;
    let mut seen = 0;
    for (bucket, count) in histogram.buckets.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return Histogram::bounds_ns(bucket).1 as f64 / 1e6;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_is_its_buckets_upper_bound() {
        let mut histogram = Histogram { count: 100, buckets: vec![0; 21], ..Histogram::default() };
        histogram.buckets[10] = 99;
        histogram.buckets[20] = 1;
        assert_eq!(p99_ms(&histogram), 1024.0 / 1e6);
        histogram.buckets[10] = 98;
        histogram.buckets[20] = 2;
        assert_eq!(p99_ms(&histogram), f64::from(1 << 20) / 1e6);
    }
}
