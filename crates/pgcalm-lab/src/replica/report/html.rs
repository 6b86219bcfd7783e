//! Cases as one self-contained HTML file, in the manner of the other reports: no network, no script.

use maud::Markup;
use maud::html;
use pgcalm_render::chart;
use pgcalm_render::chart::Chart;
use pgcalm_render::chart::Entry;
use pgcalm_render::chart::Limit;
use pgcalm_render::chart::Scale;
use pgcalm_render::chart::style::Style;
use pgcalm_render::number::MISSING;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;

use super::Case;
use super::Lag;
use super::Report;
use super::Sample;
use super::metric::ALL;
use super::reading;
use super::text;
use crate::report::page;
use crate::report::page::Heading;
use crate::report::settings;
use crate::report::style;

const MIB: f64 = 1048576.0;

/// A reader of one figure of a sample.
type Read = fn(&Sample) -> Option<f64>;

/// The whole report as an HTML document.
pub fn render(report: &Report) -> String {
    let sections = html! {
        section { h2 { "Comparison" } (comparison(report)) }
        section { h2 { "Second by second" } (charts(report)) }
        section {
            h2 { "Cases" }
            @for case in &report.cases { (describe(case)) }
        }
        section {
            h2 { "Terms" }
            dl {
                @for metric in &ALL {
                    dt { (metric.heading.join(" ")) }
                    dd { (metric.meaning) }
                }
            }
        }
    };
    page::scenario(
        &Heading {
            scenario: &report.scenario,
            host: &report.host,
            headline: "How far a standby falls behind, and whether it comes back",
            readings: &reading::lines(report),
            conditions: &[text::conditions(report), settings::host(&report.host)],
        },
        &sections,
        None,
    )
}

fn comparison(report: &Report) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.text scope="col" { "case" }
                        @for metric in &ALL { th scope="col" title=(metric.meaning) { (metric.heading.join(" ")) } }
                    }
                }
                @for case in &report.cases {
                    tr {
                        th.text scope="row" { (case.name) }
                        @for metric in &ALL {
                            td { ((metric.value)(report, case).map_or(MISSING.to_string(), short)) }
                        }
                    }
                }
            }
        }
    }
}

fn charts(report: &Report) -> Markup {
    let styles = style::assign(report.cases.iter().map(|case| case.name.as_str()));
    let all: Vec<(&Case, Style)> = report.cases.iter().zip(styles).collect();
    let held: Vec<(&Case, Style)> = all.iter().copied().filter(|(case, _)| case.guard.is_some()).collect();
    let figure = |title, field, limit, note: &str, read: Read| chart_of(&all, title, field, limit, note, read);
    let rate = |title, field, note: &str, read: Read| figure(title, field, None, note, read);
    let link = || {
        Some(Limit {
            value: report.link.bytes_per_s / MIB,
            label: format!("link {} MiB/s", short(report.link.bytes_per_s / MIB)),
        })
    };
    let governed = || {
        let guard = report.cases.iter().find_map(|case| case.guard.as_ref())?;
        let value = guard.limit_bytes as f64 / MIB;
        Some(Limit { value, label: format!("guard's limit {} MiB", short(value)) })
    };
    html! {
        p.note { "From the beginning of the load until the standby had caught up, or was given up." }
        (rate(
            "WAL made by the primary, MiB/s", "wal_bytes_per_s", "It falls to nothing when the load ends.",
            |sample| mib(sample.wal_bytes_per_s),
        ))
        @if !held.is_empty() {
            (chart_of(
                &held, "Lag as the guard sees it, MiB", "guard", governed(),
                "From the primary's insert position to what the standby has flushed; the limit is dashed.",
                |s| Some((s.flush.bytes? as f64 + s.unflushed_bytes? as f64) / MIB),
            ))
        }
        div.pair {
            (figure("Sent lag, MiB", "sent", None, "A gap: no standby is connected.", |s| in_mib(s.sent)))
            (rate("Sent lag, s", "sent", "Age of the oldest WAL that was not sent.", |s| s.sent.s))
            (rate("Write lag, MiB", "write", "", |s| in_mib(s.write)))
            (rate("Write lag, s", "write", "", |s| s.write.s))
            (figure("Flush lag, MiB", "flush", None, "", |s| in_mib(s.flush)))
            (rate("Flush lag, s", "flush", "", |s| s.flush.s))
            (rate(
                "Replay lag, MiB", "replay", "While none is connected, by the standby's own position.",
                |s| in_mib(s.replay),
            ))
            (rate("Replay lag, s", "replay", "", |s| s.replay.s))
            (figure(
                "Sent over the link by the primary, MiB/s", "link_bytes_per_s", link(),
                "The link's rate, of which 95.6 % is the most, is dashed; it does not apply where devices are capped.",
                |s| mib(s.link_bytes_per_s),
            ))
            (rate(
                "Sent by the walsender, MiB/s", "walsender_network_bytes_per_s", "Confirmed by the standby's kernel.",
                |s| mib(s.walsender_network_bytes_per_s),
            ))
            (rate(
                "Read from disk by the walsender, MiB/s", "walsender_disk_bytes_per_s", "What the page cache has is not read.",
                |s| mib(s.walsender_disk_bytes_per_s),
            ))
            (rate(
                "Written to disk by the walwriter, MiB/s", "walwriter_disk_bytes_per_s", "Backends write WAL, too.",
                |s| mib(s.walwriter_disk_bytes_per_s),
            ))
            (rate(
                "Write operations on the primary's WAL device, per second", "primary_wal_device_writes_per_s", "",
                |s| s.primary_wal_device_writes_per_s,
            ))
            (rate(
                "Write operations on the standby's WAL device, per second", "standby_wal_device_writes_per_s", "",
                |s| s.standby_wal_device_writes_per_s,
            ))
        }
    }
}

fn chart_of(
    cases: &[(&Case, Style)],
    title: &'static str,
    field: &'static str,
    limit: Option<Limit>,
    note: &str,
    read: Read,
) -> Markup {
    let entries = cases
        .iter()
        .map(|(case, style)| Entry {
            name: printable(&case.name),
            style: *style,
            lines: vec![by_second(&case.samples, read)],
            checkpoints: Vec::new(),
        })
        .collect();
    let chart = Chart { note: note.to_string(), ..Chart::of(title, field, entries, Scale::Linear, limit) };
    chart::figure::render(&chart, &format!("{title} by second."))
}

/// A sample is a second's; the last one may share its second with the one before, and a late one leaves a gap.
fn by_second(samples: &[Sample], read: Read) -> Vec<Option<f64>> {
    let mut values = Vec::new();
    for sample in samples {
        let second = sample.time_s.max(0.0).round() as usize;
        // A document from elsewhere must not make this allocate without bounds.
        if second > values.len() + samples.len() {
            continue;
        }
        values.resize(values.len().max(second + 1), None);
        values[second] = read(sample).filter(|value| value.is_finite());
    }
    values
}

fn describe(case: &Case) -> Markup {
    html! {
        h3 { (case.name) }
        p { (case.description) }
        @for (side, settings) in [("primary", &case.primary_settings), ("standby", &case.standby_settings)] {
            details {
                summary { "Settings of the " (side) }
                table.pairs {
                    @for (name, value) in settings {
                        tr { th scope="row" { (name) } td { (value) } }
                    }
                }
            }
        }
        details {
            summary { "Samples" }
            (samples(case))
        }
    }
}

fn samples(case: &Case) -> Markup {
    let figures: [(&str, Read); 13] = [
        ("WAL MiB/s", |s| mib(s.wal_bytes_per_s)),
        ("sent MiB", |s| in_mib(s.sent)),
        ("s", |s| s.sent.s),
        ("write MiB", |s| in_mib(s.write)),
        ("s", |s| s.write.s),
        ("flush MiB", |s| in_mib(s.flush)),
        ("s", |s| s.flush.s),
        ("replay MiB", |s| in_mib(s.replay)),
        ("s", |s| s.replay.s),
        ("link MiB/s", |s| mib(s.link_bytes_per_s)),
        ("walsender net MiB/s", |s| mib(s.walsender_network_bytes_per_s)),
        ("disk MiB/s", |s| mib(s.walsender_disk_bytes_per_s)),
        ("walwriter disk MiB/s", |s| mib(s.walwriter_disk_bytes_per_s)),
    ];
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" { "second" }
                        @for (heading, _) in figures { th scope="col" { (heading) } }
                        th.text scope="col" { "receiver" }
                        th.text scope="col" { "held up by" }
                    }
                }
                @for sample in &case.samples {
                    tr {
                        td { (short(sample.time_s)) @if !sample.under_load { " *" } }
                        @for (_, read) in figures { td { (read(sample).map_or(MISSING.to_string(), short)) } }
                        td.text { (sample.receiver) }
                        td.text { (sample.bottleneck.as_deref().unwrap_or("").replace('_', " ")) }
                    }
                }
            }
        }
        p.note { "* after the load" }
    }
}

fn mib(bytes: Option<f64>) -> Option<f64> {
    bytes.map(|bytes| bytes / MIB)
}

fn in_mib(lag: Lag) -> Option<f64> {
    lag.bytes.map(|bytes| bytes as f64 / MIB)
}
