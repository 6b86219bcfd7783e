//! Charts as SVG files, for a README.
//!
//! A README is shown on white and on dark, and its SVGs cannot know which; so the file brings its own white card and a
//! fixed palette. Text is larger than on a page because the picture is scaled down with it.

use maud::Markup;
use maud::PreEscaped;
use maud::html;

use super::Chart;
use super::Entry;
use super::path;
use super::path::Area;
use super::path::coordinate;
use crate::model::Report;
use crate::number::ellipsis;
use crate::number::printable;
use crate::settings;

const WIDTH: f64 = 960.0;
const PLOT: Area = Area {
    left: 190.0,
    top: 114.0,
    width: 740.0,
    height: 280.0,
};
/// From the plot to the first checkpoint lane: the labels of the time axis are between.
const LANES_BELOW: f64 = 58.0;
const LANE_PITCH: f64 = 28.0;
const LANE_HEIGHT: f64 = 12.0;
/// What fits left of the plot.
const NAME_CHARS: usize = 14;
/// What fits across the picture in the title's font, and in the small one, with the widest of the fonts.
const TITLE_CHARS: usize = 70;
const CAPTION_CHARS: usize = 100;
const CAPTION_LINES: usize = 2;

/// Transactions per second of all contestants as an SVG document.
pub fn svg_tps(report: &Report) -> String {
    let chart = Chart::tps(report);
    let lanes = PLOT.top + PLOT.height + LANES_BELOW;
    let height = lanes + LANE_PITCH * chart.entries.len() as f64 + 14.0;
    let title = printable(&format!("Transactions per second · {}", report.scenario));
    let conditions = printable(&settings::conditions(report).join(", "));
    let caption = textwrap::wrap(&conditions, CAPTION_CHARS);
    html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
            aria-label=(chart.summary(report)) font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" fill="#1f2328" {
            rect x="0.5" y="0.5" width=(WIDTH - 1.0) height=(height - 1.0) rx="10" fill="#ffffff" stroke="#d0d7de" {}
            text x="24" y="40" font-size="20" font-weight="600" { (ellipsis(&title, TITLE_CHARS)) }
            @for (index, line) in caption.iter().take(CAPTION_LINES).enumerate() {
                text x="24" y=(64 + 21 * index) font-size="15" fill="#57606a" { (line) }
            }
            (axes(&chart))
            @for entry in chart.entries.iter().filter(|entry| !entry.style.is_subject()) { (lines(&chart, entry)) }
            @for entry in chart.entries.iter().filter(|entry| entry.style.is_subject()) { (lines(&chart, entry)) }
            @for (index, entry) in chart.entries.iter().enumerate() {
                (lane(&chart, entry, lanes + LANE_PITCH * index as f64))
            }
        }
    }
    .into_string()
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

/// Name, look and checkpoints of a contestant: legend and lane in one.
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
