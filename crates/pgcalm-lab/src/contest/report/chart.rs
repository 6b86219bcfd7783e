//! Charts of a contest: which series are drawn, by contestant.

use pgcalm_render::chart;
use pgcalm_render::chart::{Band, Chart, Entry, Limit, Scale, seconds_of};
use pgcalm_render::number::{printable, short};

use crate::contest::report::metric::TPS_MEAN;
use crate::contest::report::{CapKind, Checkpoint, Report, Run, Series, conditions};
use crate::report::style;

/// A per-second series of the model, as the charts and the tooltip know it.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in the document.
    pub(crate) name: &'static str,
    /// Reads it from a run; `None` where a second has no value.
    pub(crate) read: fn(&Series) -> Vec<Option<f64>>,
}

pub(crate) static TPS: Field = Field { name: "tps", read: |series| plain(&series.tps) };
pub(crate) static LATENCY_P99: Field = Field {
    name: "latency_p99_ms",
    read: |series| series.latency_p99_ms.iter().map(|value| value.filter(|ms| ms.is_finite())).collect(),
};
pub(crate) static DIRTY: Field = Field { name: "dirty_mib", read: |series| plain(&series.dirty_mib) };
pub(crate) static WRITEBACK: Field = Field { name: "writeback_mib", read: |series| plain(&series.writeback_mib) };
pub(crate) static DATA_WRITE_OPS: Field =
    Field { name: "data_write_ops", read: |series| plain(&series.data_write_ops) };
pub(crate) static DATA_WRITE_MIB: Field =
    Field { name: "data_write_mib", read: |series| plain(&series.data_write_mib) };

/// All fields that have a chart.
pub(crate) static FIELDS: [&Field; 6] = [&TPS, &LATENCY_P99, &DIRTY, &WRITEBACK, &DATA_WRITE_OPS, &DATA_WRITE_MIB];

fn plain(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().map(|value| value.is_finite().then_some(*value)).collect()
}

/// Which of a contestant's runs a chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    First,
    All,
}

/// A chart of one series of all contestants.
pub(crate) fn of(
    report: &Report,
    title: &'static str,
    field: &'static Field,
    runs: Runs,
    scale: Scale,
    limit: Option<Limit>,
) -> Chart {
    let shown = |all: &[Run]| match runs {
        Runs::First => all.len().min(1),
        Runs::All => all.len(),
    };
    let styles = style::assign(report.contestants.iter().map(|contestant| contestant.name.as_str()));
    let mut entries: Vec<Entry> = report
        .contestants
        .iter()
        .zip(styles)
        .map(|(contestant, style)| Entry {
            name: printable(&contestant.name),
            style,
            lines: contestant.runs[..shown(&contestant.runs)].iter().map(|run| (field.read)(&run.series)).collect(),
            checkpoints: Vec::new(),
        })
        .collect();
    let seconds = seconds_of(&entries);
    for (entry, contestant) in entries.iter_mut().zip(&report.contestants) {
        // Of the first run.
        let first = contestant.runs.first().map_or(&[][..], |run| &run.checkpoints);
        entry.checkpoints = first.iter().filter_map(|checkpoint| band(checkpoint, seconds)).collect();
    }
    Chart::of(title, field.name, entries, scale, limit)
}

/// The chart that a report is opened for: throughput, every second, every run.
pub(crate) fn tps(report: &Report) -> Chart {
    of(report, "Transactions per second", &TPS, Runs::All, Scale::Linear, None)
}

/// That chart as an SVG document, for a README.
pub fn svg_tps(report: &Report) -> String {
    let mut chart = tps(report);
    chart.summary = summary(&chart, report);
    let title = format!("Transactions per second · {}", report.scenario);
    chart::standalone::svg(&chart, &title, &conditions::caption(report))
}

/// What those see who cannot see the picture.
pub(crate) fn summary(chart: &Chart, report: &Report) -> String {
    let means: Vec<String> = report
        .contestants
        .iter()
        .filter_map(|contestant| {
            let tps = TPS_MEAN.median_of(contestant)?;
            Some(format!("{} {}", printable(&contestant.name), short(tps)))
        })
        .collect();
    format!("{} by second. Mean TPS: {}", chart.title, means.join(", "))
}

/// The cap of the data volume on write operations, if there is one.
pub(crate) fn iops_limit(report: &Report) -> Option<Limit> {
    if report.cap.kind == CapKind::CloudVolume {
        // Shared by reads and writes, and flushes are free: nothing that writes alone run into.
        return None;
    }
    let value = conditions::iops(report, "data-iops")?;
    let label = format!("cap {}/s", conditions::whole(value));
    Some(Limit { value, label })
}

/// The cap of the data volume on bandwidth, in the chart's MiB.
pub(crate) fn bandwidth_limit(report: &Report) -> Option<Limit> {
    if report.cap.kind == CapKind::CloudVolume {
        return None;
    }
    let bytes = conditions::bytes(report, "data-bps")?;
    Some(Limit { value: bytes / conditions::MIB, label: format!("cap {}", conditions::bandwidth(bytes)) })
}

/// The part of a checkpoint within the window; `None` if there is none.
fn band(checkpoint: &Checkpoint, seconds: usize) -> Option<Band> {
    let (start, end) = (checkpoint.start_s, checkpoint.end_s);
    let sync = end - checkpoint.sync_s.max(0.0);
    let last = seconds as f64;
    if ![start, sync, end].iter().all(|second| second.is_finite()) || end < start || end < 0.0 || start > last {
        return None;
    }
    let within = |second: f64| second.clamp(0.0, last);
    Some(Band { start: within(start), sync: within(sync.max(start)), end: within(end) })
}
