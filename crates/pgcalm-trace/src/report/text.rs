//! What all verbs show alike in a terminal.

use pgcalm_render::text::paragraph;

use crate::report::End;
use crate::report::EndReason;
use crate::report::Missing;
use crate::report::Start;
use crate::report::histogram::Histogram;

/// The first lines: which server, what can't be told.
pub fn start(start: &Start) -> String {
    let mut out = String::new();
    let server = &start.server;
    let port = server.port.map_or(String::new(), |port| format!(", port {port}"));
    let options = match start.options.as_slice() {
        [] => String::new(),
        options => format!("; {}", options.join(", ")),
    };
    paragraph(
        &mut out,
        &format!(
            "trace {}: {}, pid {}{port}, {}; Linux {}{options}",
            start.verb, server.version, server.pid, server.data_directory, server.kernel
        ),
    );
    missing(&mut out, &start.missing);
    out
}

/// The last lines: why it ended, what was lost. What was missing from the start is not repeated.
pub fn end(end: &End) -> String {
    let mut out = String::new();
    paragraph(&mut out, &end_sentence(end));
    out
}

/// Why it ended and what was lost, in words.
pub(crate) fn end_sentence(end: &End) -> String {
    let reason = match end.reason {
        EndReason::Count => "as many as asked for",
        EndReason::Duration => "the time asked for is over",
        EndReason::Interrupted => "ended by a signal",
        EndReason::ServerEnded => "the server ended",
    };
    match (end.drops.events, end.drops.entries) {
        (0, 0) => format!("End: {reason}; nothing was dropped."),
        (events, entries) => format!(
            "End: {reason}; DROPPED: {events} events and {entries} entries found no room, figures are too small by that."
        ),
    }
}

/// The answers that can't be given.
pub fn missing(out: &mut String, missing: &[Missing]) {
    for missing in missing {
        paragraph(out, &format!("Missing: {}: {}", missing.answer, missing.reason));
    }
}

/// A bar of at most `width` characters; something that is not nothing is at least a mark.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let length = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    match length {
        0 if share > 0.0 => "·".to_string(),
        length => "█".repeat(length),
    }
}

/// A distribution, one row per bucket from the first used to the last.
pub fn histogram(name: &str, histogram: &Histogram) -> String {
    let mut out = format!("  {}\n", histogram_sentence(name, histogram));
    let Some(first) = histogram.buckets.iter().position(|count| *count > 0) else {
        return out;
    };
    let most = histogram.buckets.iter().copied().max().unwrap_or(0).max(1);
    for (bucket, count) in histogram.buckets.iter().enumerate().skip(first) {
        out.push_str(&format!(
            "    {:>9} {count:>9} {}\n",
            duration(Histogram::bounds_ns(bucket).0 as f64),
            bar(*count as f64 / most as f64, 40)
        ));
    }
    out
}

/// Its figures in one line.
pub fn histogram_sentence(name: &str, histogram: &Histogram) -> String {
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
