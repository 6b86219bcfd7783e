//! A chart as an SVG file, for a README.

use maud::{Markup, html};

use super::path::{Area, coordinate};
use super::{Chart, Entry, card, path};
use crate::number::ellipsis;

const PLOT: Area = Area { left: 190.0, top: 114.0, width: 740.0, height: 280.0 };
/// From the plot to the first checkpoint lane: the labels of the time axis are between.
const LANES_BELOW: f64 = 58.0;
const LANE_PITCH: f64 = 28.0;
const LANE_HEIGHT: f64 = 12.0;
/// What fits left of the plot.
const NAME_CHARS: usize = 14;

/// `chart` as an SVG document with a `title` and a `caption` above it.
pub fn svg(chart: &Chart, title: &str, caption: &str) -> String {
    let lanes = PLOT.top + PLOT.height + LANES_BELOW;
    let height = lanes + LANE_PITCH * chart.entries.len() as f64 + 14.0;
    let content = html! {
        (axes(chart))
        @for entry in chart.entries.iter().filter(|entry| !entry.style.is_subject()) { (lines(chart, entry)) }
        @for entry in chart.entries.iter().filter(|entry| entry.style.is_subject()) { (lines(chart, entry)) }
        @for (index, entry) in chart.entries.iter().enumerate() {
            (lane(chart, entry, lanes + LANE_PITCH * index as f64))
        }
    };
    card::svg(title, caption, &chart.summary, height, &content)
}

fn axes(chart: &Chart) -> Markup {
    let bottom = PLOT.top + PLOT.height;
    html! {
        @for tick in &chart.values.ticks {
            @let y = PLOT.y(tick.at);
            path d={ "M" (PLOT.left) " " (coordinate(y)) "h" (PLOT.width) } stroke="#d8dee4" {}
            text x=(PLOT.left - 10.0) y=(coordinate(y + 5.5)) font-size="16" text-anchor="end" { (tick.label) }
        }
        @for tick in &chart.time.ticks {
            text x=(coordinate(PLOT.x(tick.at))) y=(bottom + 24.0) font-size="16" text-anchor="middle" { (tick.label) }
        }
        text x=(PLOT.left - 24.0) y=(bottom + 24.0) font-size="16" text-anchor="end" { (chart.time.unit) }
        @if chart.has_checkpoints() {
            text x=(PLOT.left + PLOT.width) y=(bottom + 46.0) font-size="14" text-anchor="end" fill="#57606a" {
                "bars: checkpoints, solid while they sync"
            }
        }
        @if chart.is_empty() {
            text x=(PLOT.x(0.5)) y=(PLOT.y(0.5)) font-size="18" text-anchor="middle" fill="#57606a" { "No samples." }
        }
    }
}

fn lines(chart: &Chart, entry: &Entry) -> Markup {
    let width = match (entry.lines.len(), entry.style.is_subject()) {
        (2.., _) => 1.4,
        (_, true) => 3.0,
        (_, false) => 2.2,
    };
    html! {
        @for values in &entry.lines {
            path d=(path::line(chart, values, PLOT)) fill="none" stroke=(entry.style.light_colour()) stroke-width=(width)
                stroke-dasharray=[entry.style.dash()] stroke-linejoin="round" stroke-linecap="round" {}
        }
    }
}

/// Name, look and checkpoints of an entry: legend and lane in one.
fn lane(chart: &Chart, entry: &Entry, top: f64) -> Markup {
    let colour = entry.style.light_colour();
    let x = |second: f64| PLOT.x(chart.time.place(second));
    let width = |from: f64, to: f64| coordinate((x(to) - x(from)).max(2.0));
    let middle = top + LANE_HEIGHT / 2.0;
    html! {
        path d={ "M24 " (middle) "h30" } stroke=(colour) stroke-width="3" stroke-dasharray=[entry.style.dash()] {}
        text x="61" y=(middle + 5.0) font-size="15" { (ellipsis(&entry.name, NAME_CHARS)) }
        @for band in &entry.checkpoints {
            rect x=(coordinate(x(band.start))) y=(top) width=(width(band.start, band.end)) height=(LANE_HEIGHT)
                fill=(colour) fill-opacity="0.3" {}
            rect x=(coordinate(x(band.sync))) y=(top) width=(width(band.sync, band.end)) height=(LANE_HEIGHT)
                fill=(colour) {}
        }
    }
}
