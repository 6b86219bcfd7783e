//! Charts of per-second series, hand-made as SVG.
//!
//! Not with a plotting crate: a report needs colours from the style sheet (light and dark), and labels that are as
//! large on a phone as on a desk, so text must stay out of the picture; what remains (ticks, lines, bands) is small.
//!
//! `Chart` says what to draw; `figure` draws it for the HTML report, `standalone` as a file of its own.

pub(crate) mod axis;
pub(crate) mod card;
pub(crate) mod figure;
pub(crate) mod path;
mod standalone;
pub(crate) mod style;

use crate::metric::TPS_MEAN;
use crate::model::CapKind;
use crate::model::Checkpoint;
use crate::model::Report;
use crate::model::Run;
use crate::model::Series;
use crate::number::printable;
use crate::settings;
use axis::TimeAxis;
use axis::ValueAxis;
use style::Style;

pub use standalone::svg_tps;

/// A per-second series of the model, as the charts and the tooltip know it.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in the document.
    pub(crate) name: &'static str,
    /// Reads it from a run; `None` where a second has no value.
    pub(crate) read: fn(&Series) -> Vec<Option<f64>>,
}

pub(crate) static TPS: Field = Field {
    name: "tps",
    read: |series| plain(&series.tps),
};
pub(crate) static LATENCY_P99: Field = Field {
    name: "latency_p99_ms",
    read: |series| {
        series
            .latency_p99_ms
            .iter()
            .map(|value| value.filter(|ms| ms.is_finite()))
            .collect()
    },
};
pub(crate) static DIRTY: Field = Field {
    name: "dirty_mib",
    read: |series| plain(&series.dirty_mib),
};
pub(crate) static WRITEBACK: Field = Field {
    name: "writeback_mib",
    read: |series| plain(&series.writeback_mib),
};
pub(crate) static DATA_WRITE_OPS: Field = Field {
    name: "data_write_ops",
    read: |series| plain(&series.data_write_ops),
};
pub(crate) static DATA_WRITE_MIB: Field = Field {
    name: "data_write_mib",
    read: |series| plain(&series.data_write_mib),
};

/// All fields that have a chart.
pub(crate) static FIELDS: [&Field; 6] = [
    &TPS,
    &LATENCY_P99,
    &DIRTY,
    &WRITEBACK,
    &DATA_WRITE_OPS,
    &DATA_WRITE_MIB,
];

fn plain(values: &[f64]) -> Vec<Option<f64>> {
    values
        .iter()
        .map(|value| value.is_finite().then_some(*value))
        .collect()
}

/// What is drawn, without how.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// What a reader must know to read it.
    pub(crate) note: String,
    /// Name of what is drawn, for the tooltip.
    pub(crate) field: &'static str,
    pub(crate) time: TimeAxis,
    pub(crate) values: ValueAxis,
    /// One per contestant, in the report's order.
    pub(crate) entries: Vec<Entry>,
    /// A cap, drawn across.
    pub(crate) limit: Option<Limit>,
}

/// One contestant in a chart.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) style: Style,
    /// Values by second; several if repeats are shown.
    pub(crate) lines: Vec<Vec<Option<f64>>>,
    /// Checkpoints of the first run.
    pub(crate) checkpoints: Vec<Band>,
}

/// A checkpoint on the time axis; seconds within the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Band {
    pub(crate) start: f64,
    /// Where the write phase ended and the sync phase began.
    pub(crate) sync: f64,
    pub(crate) end: f64,
}

/// A horizontal line with a label.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Which of a contestant's runs a chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    First,
    All,
}

/// Lines or logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log,
}

impl Chart {
    pub(crate) fn new(
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
        let styles = style::assign(
            report
                .contestants
                .iter()
                .map(|contestant| contestant.name.as_str()),
        );
        let mut entries: Vec<Entry> = report
            .contestants
            .iter()
            .zip(styles)
            .map(|(contestant, style)| Entry {
                name: printable(&contestant.name),
                style,
                lines: contestant.runs[..shown(&contestant.runs)]
                    .iter()
                    .map(|run| (field.read)(&run.series))
                    .collect(),
                checkpoints: Vec::new(),
            })
            .collect();
        let seconds = seconds_of(&entries);
        for (entry, contestant) in entries.iter_mut().zip(&report.contestants) {
            let first = contestant
                .runs
                .first()
                .map_or(&[][..], |run| &run.checkpoints);
            entry.checkpoints = first
                .iter()
                .filter_map(|checkpoint| band(checkpoint, seconds))
                .collect();
        }
        Chart::of(title, field.name, entries, scale, limit)
    }

    /// A chart of any lines.
    pub(crate) fn of(
        title: &'static str,
        field: &'static str,
        entries: Vec<Entry>,
        scale: Scale,
        limit: Option<Limit>,
    ) -> Chart {
        let values = entries
            .iter()
            .flat_map(|entry| entry.lines.iter().flatten().flatten().copied())
            .chain(limit.iter().map(|limit| limit.value));
        let values = match scale {
            Scale::Linear => ValueAxis::linear(values),
            Scale::Log => ValueAxis::log(values),
        };
        Chart {
            title,
            note: String::new(),
            field,
            time: TimeAxis::new(seconds_of(&entries)),
            values,
            entries,
            limit,
        }
    }

    /// The chart that a report is opened for: throughput, every second, every run.
    pub(crate) fn tps(report: &Report) -> Chart {
        Chart::new(
            report,
            "Transactions per second",
            &TPS,
            Runs::All,
            Scale::Linear,
            None,
        )
    }

    /// Whether there is anything to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.lines.iter().flatten().all(Option::is_none))
    }

    pub(crate) fn has_checkpoints(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| !entry.checkpoints.is_empty())
    }

    /// What those see who cannot see the picture.
    pub(crate) fn summary(&self, report: &Report) -> String {
        let means: Vec<String> = report
            .contestants
            .iter()
            .filter_map(|contestant| {
                let tps = TPS_MEAN.median_of(contestant)?;
                Some(format!(
                    "{} {}",
                    printable(&contestant.name),
                    crate::number::short(tps)
                ))
            })
            .collect();
        format!("{} by second. Mean TPS: {}", self.title, means.join(", "))
    }
}

/// Length of the longest line.
fn seconds_of(entries: &[Entry]) -> usize {
    entries
        .iter()
        .flat_map(|entry| entry.lines.iter().map(Vec::len))
        .max()
        .unwrap_or(0)
}

/// The cap of the data volume on write operations, if there is one.
pub(crate) fn iops_limit(report: &Report) -> Option<Limit> {
    if report.cap.kind == CapKind::CloudVolume {
        // Shared by reads and writes, and flushes are free: nothing that writes alone run into.
        return None;
    }
    let value = settings::iops(report, "data-iops")?;
    let label = format!("cap {}/s", settings::whole(value));
    Some(Limit { value, label })
}

/// The cap of the data volume on bandwidth, in the chart's MiB.
pub(crate) fn bandwidth_limit(report: &Report) -> Option<Limit> {
    if report.cap.kind == CapKind::CloudVolume {
        return None;
    }
    let bytes = settings::bytes(report, "data-bps")?;
    let label = format!("cap {} MB/s", crate::number::trimmed(bytes / 1e6));
    let value = bytes / (1024.0 * 1024.0);
    Some(Limit { value, label })
}

/// The part of a checkpoint within the window; `None` if there is none.
fn band(checkpoint: &Checkpoint, seconds: usize) -> Option<Band> {
    let (start, end) = (checkpoint.start_s, checkpoint.end_s);
    let sync = end - checkpoint.sync_s.max(0.0);
    let last = seconds as f64;
    if ![start, sync, end].iter().all(|second| second.is_finite())
        || end < start
        || end < 0.0
        || start > last
    {
        return None;
    }
    let within = |second: f64| second.clamp(0.0, last);
    Some(Band {
        start: within(start),
        sync: within(sync.max(start)),
        end: within(end),
    })
}
