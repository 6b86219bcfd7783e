//! Charts of per-second series, hand-made as SVG.
//!
//! Not with a plotting crate: a report needs colours from the style sheet (light and dark), and labels that are as
//! large on a phone as on a desk, so text must stay out of the picture; what remains (ticks, lines, bands) is small.
//!
//! [`Chart`] says what to draw; [`figure`] draws it for an HTML page, [`standalone`] as a file of its own.

pub mod axis;
pub mod card;
pub mod figure;
pub mod path;
pub mod standalone;
pub mod style;

use axis::{TimeAxis, ValueAxis};
use style::Style;

/// What is drawn, without how.
#[derive(Debug)]
pub struct Chart {
    /// With the unit of its values.
    pub title: &'static str,
    /// What a reader must know to read it.
    pub note: String,
    /// For those who can't see it.
    pub summary: String,
    /// Name of what is drawn, for the tooltip.
    pub field: &'static str,
    /// Seconds, left to right.
    pub time: TimeAxis,
    /// Values, bottom to top.
    pub values: ValueAxis,
    /// In the order of the legend.
    pub entries: Vec<Entry>,
    /// A cap, drawn across.
    pub limit: Option<Limit>,
}

/// One of those that are compared in a chart.
#[derive(Debug)]
pub struct Entry {
    /// As in the legend.
    pub name: String,
    /// How its lines look.
    pub style: Style,
    /// Values by second; several if repeats are shown.
    pub lines: Vec<Vec<Option<f64>>>,
    /// Checkpoints, drawn in a lane of their own.
    pub checkpoints: Vec<Band>,
}

/// A checkpoint on the time axis; seconds within the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Where it began.
    pub start: f64,
    /// Where the write phase ended and the sync phase began.
    pub sync: f64,
    /// Where it was complete.
    pub end: f64,
}

/// A horizontal line with a label.
#[derive(Debug)]
pub struct Limit {
    /// Where, in the unit of the chart's values.
    pub value: f64,
    /// As it is written beside the line.
    pub label: String,
}

/// Lines or logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Whole decades.
    Log,
}

impl Chart {
    /// A chart whose axes take in all of `entries` and `limit`.
    pub fn of(
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
        let time = TimeAxis::new(seconds_of(&entries));
        Chart {
            title,
            note: String::new(),
            summary: format!("{title} by second."),
            field,
            time,
            values,
            entries,
            limit,
        }
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| entry.lines.iter().flatten().all(Option::is_none))
    }

    /// Whether lanes with checkpoints are drawn.
    pub fn has_checkpoints(&self) -> bool {
        self.entries.iter().any(|entry| !entry.checkpoints.is_empty())
    }
}

/// Length of the longest line, in seconds.
pub fn seconds_of(entries: &[Entry]) -> usize {
    entries.iter().flat_map(|entry| entry.lines.iter().map(Vec::len)).max().unwrap_or(0)
}
