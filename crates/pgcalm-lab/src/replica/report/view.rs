//! Cases for readers: their figures, what these say, second by second.

use pgcalm_render::chart::style::Style;
use pgcalm_render::chart::{Chart, Entry, Limit, Scale};
use pgcalm_render::document::{Block, Column, Document, Section, Table, figure};
use pgcalm_render::number::{printable, short};

use super::metric::ALL;
use super::{Case, Lag, Report, Sample, reading};
use crate::report;
use crate::report::{Shown, settings, style};

const MIB: f64 = 1048576.0;

/// Lines of a case in a terminal; with what is around them they fit on a screen.
const LINES: usize = 25;

/// A reader of one figure of a sample.
type Read = fn(&Sample) -> Option<f64>;

impl Shown for Report {
    fn document(&self) -> Document {
        // The cases are in the table.
        let conditions = settings::options(&self.settings, &["cases"]);
        let mut document = report::document(&self.scenario, &self.host, conditions);
        document.title = Some("How far a standby falls behind, and whether it comes back".to_string());
        document.readings = reading::lines(self);
        document.section("Comparison").table(table(self));
        let section = document.section("Lag");
        section.note(
            "WAL made: mean since the line before. Lags: WAL on the primary's disk, at that second. * after the load",
        );
        for case in &self.cases {
            section.heading(&case.name).table(lags(case));
        }
        charts(self, document.section("Second by second").on_page());
        let section = document.section("Cases").on_page();
        for case in &self.cases {
            section.heading(&case.name).text(&case.description);
            for (side, settings) in [("primary", &case.primary_settings), ("standby", &case.standby_settings)] {
                section.details(format!("Settings of the {side}"), vec![Block::Table(Table::pairs(settings))]);
            }
            let note = Block::Note("* after the load".to_string());
            section.details("Samples", vec![Block::Table(samples(case)), note]);
        }
        document
    }
}

fn table(report: &Report) -> Table {
    let figures = ALL.iter().map(|metric| Column::figures(metric.heading.join("\n")).meaning(metric.meaning));
    let mut table = Table::new(std::iter::once(Column::text("case")).chain(figures));
    for case in &report.cases {
        let figures = ALL.iter().map(|metric| figure((metric.value)(report, case)));
        table.row(std::iter::once(case.name.clone()).chain(figures));
    }
    table
}

fn charts(report: &Report, section: &mut Section) {
    let styles = style::assign(report.cases.iter().map(|case| case.name.as_str()));
    let all: Vec<(&Case, Style)> = report.cases.iter().zip(styles).collect();
    let held: Vec<(&Case, Style)> = all.iter().copied().filter(|(case, _)| case.guard.is_some()).collect();
    let chart = |title, field, note: &str, read: Read| chart_of(&all, title, field, None, note, read);
    let link = Limit {
        value: report.link.bytes_per_s / MIB,
        label: format!("link {} MiB/s", short(report.link.bytes_per_s / MIB)),
    };
    section.note("From the beginning of the load until the standby had caught up, or was given up.");
    section.add(Block::Charts(vec![chart(
        "WAL made by the primary, MiB/s",
        "wal_bytes_per_s",
        "It falls to nothing when the load ends.",
        |sample| mib(sample.wal_bytes_per_s),
    )]));
    if !held.is_empty() {
        let limit = report.cases.iter().find_map(|case| case.guard.as_ref()).map(|guard| {
            let value = guard.limit_bytes as f64 / MIB;
            Limit { value, label: format!("guard's limit {} MiB", short(value)) }
        });
        let note = "From the primary's insert position to what the standby has flushed; the limit is dashed.";
        section.add(Block::Charts(vec![chart_of(&held, "Lag as the guard sees it, MiB", "guard", limit, note, |s| {
            Some((s.flush.bytes? as f64 + s.unflushed_bytes? as f64) / MIB)
        })]));
    }
    section.add(Block::Charts(vec![
        chart("Sent lag, MiB", "sent", "A gap: no standby is connected.", |s| in_mib(s.sent)),
        chart("Sent lag, s", "sent", "Age of the oldest WAL that was not sent.", |s| s.sent.s),
        chart("Write lag, MiB", "write", "", |s| in_mib(s.write)),
        chart("Write lag, s", "write", "", |s| s.write.s),
        chart("Flush lag, MiB", "flush", "", |s| in_mib(s.flush)),
        chart("Flush lag, s", "flush", "", |s| s.flush.s),
        chart("Replay lag, MiB", "replay", "While none is connected, by the standby's own position.", |s| {
            in_mib(s.replay)
        }),
        chart("Replay lag, s", "replay", "", |s| s.replay.s),
        chart_of(
            &all,
            "Sent over the link by the primary, MiB/s",
            "link_bytes_per_s",
            Some(link),
            "The link's rate, of which 95.6 % is the most, is dashed; it does not apply where devices are capped.",
            |s| mib(s.link_bytes_per_s),
        ),
        chart(
            "Sent by the walsender, MiB/s",
            "walsender_network_bytes_per_s",
            "Confirmed by the standby's kernel.",
            |s| mib(s.walsender_network_bytes_per_s),
        ),
        chart(
            "Read from disk by the walsender, MiB/s",
            "walsender_disk_bytes_per_s",
            "What the page cache has is not read.",
            |s| mib(s.walsender_disk_bytes_per_s),
        ),
        chart(
            "Written to disk by the walwriter, MiB/s",
            "walwriter_disk_bytes_per_s",
            "Backends write WAL, too.",
            |s| mib(s.walwriter_disk_bytes_per_s),
        ),
        chart("Write operations on the primary's WAL device, per second", "primary_wal_device_writes_per_s", "", |s| {
            s.primary_wal_device_writes_per_s
        }),
        chart("Write operations on the standby's WAL device, per second", "standby_wal_device_writes_per_s", "", |s| {
            s.standby_wal_device_writes_per_s
        }),
    ]));
}

fn chart_of(
    cases: &[(&Case, Style)],
    title: &'static str,
    field: &'static str,
    limit: Option<Limit>,
    note: &str,
    read: Read,
) -> Chart {
    let entries = cases
        .iter()
        .map(|(case, style)| Entry {
            name: printable(&case.name),
            style: *style,
            lines: vec![by_second(&case.samples, read)],
            checkpoints: Vec::new(),
        })
        .collect();
    Chart { note: note.to_string(), ..Chart::of(title, field, entries, Scale::Linear, limit) }
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

/// What was made and what lagged behind, in so many lines at most.
fn lags(case: &Case) -> Table {
    let headings = ["second", "made MiB/s", "sent MiB", "write MiB", "flush MiB", "replay MiB"];
    let mut table = Table::new(headings.map(Column::figures));
    for samples in case.samples.chunks(case.samples.len().div_ceil(LINES).max(1)) {
        let Some(last) = samples.last() else { continue };
        let made: Vec<f64> = samples.iter().filter_map(|sample| mib(sample.wal_bytes_per_s)).collect();
        let made = (!made.is_empty()).then(|| made.iter().sum::<f64>() / made.len() as f64);
        let lags = [last.sent, last.write, last.flush, last.replay].map(in_mib);
        table.row(std::iter::once(second(last)).chain(std::iter::once(made).chain(lags).map(figure)));
    }
    table
}

fn second(sample: &Sample) -> String {
    format!("{}{}", short(sample.time_s), if sample.under_load { "" } else { " *" })
}

fn samples(case: &Case) -> Table {
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
    let words = ["receiver", "held up by"].map(Column::text);
    let headings = ["second"].into_iter().chain(figures.iter().map(|(heading, _)| *heading)).map(Column::figures);
    let mut table = Table::new(headings.chain(words));
    for sample in &case.samples {
        let place = sample.bottleneck.as_deref().unwrap_or_default().replace('_', " ");
        let read = figures.iter().map(|(_, read)| figure(read(sample)));
        table.row(std::iter::once(second(sample)).chain(read).chain([sample.receiver.clone(), place]));
    }
    table
}

fn mib(bytes: Option<f64>) -> Option<f64> {
    bytes.map(|bytes| bytes / MIB)
}

fn in_mib(lag: Lag) -> Option<f64> {
    lag.bytes.map(|bytes| bytes as f64 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_its_lags_in_few_lines() {
        let sample = |second: u32| Sample {
            time_s: second.into(),
            under_load: second < 40,
            wal_bytes_per_s: (second > 0).then_some(f64::from(second) * MIB),
            sent: Lag { bytes: Some(u64::from(second) << 20), s: None },
            replay: Lag { bytes: Some(u64::from(second) << 21), s: None },
            ..Sample::default()
        };
        let case = |seconds| {
            serde_json::json!({"name": "", "description": "", "link_limited": false,
            "primary_settings": {}, "standby_settings": {}, "load_s": 40, "cut_short": null, "wal_bytes": 0,
            "received_bytes": 0, "catch_up_s": null, "watched_s": 0, "receiver_error": null, "segments_restored": 0,
            "guard": null, "samples": (0..seconds).map(sample).collect::<Vec<_>>()})
        };
        let lags = |seconds| lags(&serde_json::from_value(case(seconds)).unwrap()).rows;
        assert_eq!(lags(0), Vec::<Vec<String>>::new());
        assert_eq!(lags(LINES as u32).len(), LINES);
        let rows = lags(50);
        assert_eq!(rows.len(), LINES);
        assert_eq!(rows[0], ["1", "1", "1", "–", "–", "2"]);
        assert_eq!(rows[1], ["3", "2.50", "3", "–", "–", "6"]);
        assert_eq!(rows[24], ["49 *", "48.5", "49", "–", "–", "98"]);
    }
}
