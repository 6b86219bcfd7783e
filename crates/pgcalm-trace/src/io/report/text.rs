//! `pgcalm trace io` for a terminal.

use pgcalm_render::number::short;
use pgcalm_render::text::paragraph;

use crate::io::report::Calls;
use crate::io::report::Interval;
use crate::io::report::Line;
use crate::io::report::Process;
use crate::report::file_kind::FileKind;
use crate::report::histogram::Histogram;
use crate::report::text;

/// One line of the model; every line of text ends in a newline.
pub fn render(line: &Line) -> String {
    match line {
        Line::Start(start) => text::start(start),
        Line::Interval(interval) => block(interval, "Interval"),
        Line::Total(total) => block(total, "Total"),
        Line::End(end) => text::end(end),
    }
}

fn block(interval: &Interval, heading: &str) -> String {
    let mut out = String::new();
    paragraph(&mut out, &format!("{heading}: {} s", short(interval.length_s)));
    for process in &interval.processes {
        out.push_str(&format!("  {}\n", process_line(process)));
        for calls in &process.operations {
            out.push_str(&format!("    {}\n", calls_line(calls)));
        }
    }
    out
}

/// Who and how much, in words.
pub fn process_line(process: &Process) -> String {
    let client = process.client.as_deref().map_or(String::new(), |client| format!(" {client}"));
    format!(
        "{} {}{client}: {} system calls; sent {} B/s, received {} B/s",
        process.pid,
        process.role,
        process.syscalls,
        short(process.sent_bytes_per_s),
        short(process.received_bytes_per_s)
    )
}

fn calls_line(calls: &Calls) -> String {
    let errors = match calls.errors {
        0 => String::new(),
        errors => format!(", {errors} failed"),
    };
    let file = match calls.file {
        FileKind::None => String::new(),
        file => file.label().to_string(),
    };
    format!(
        "{:<10} {:<13} {:>8} calls {:>12} B  mean {:>8} ms, p99 {:>8} ms{errors}",
        calls.operation.label(),
        file,
        calls.calls,
        calls.bytes,
        short(calls.duration.mean_ms().unwrap_or(0.0)),
        short(p99_ms(&calls.duration)),
    )
}

/// An upper bound of the time that 99 of 100 calls took at most, ms: that of its bucket.
pub fn p99_ms(histogram: &Histogram) -> f64 {
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
