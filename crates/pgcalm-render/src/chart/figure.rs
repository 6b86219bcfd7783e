//! A chart in the HTML report.
//!
//! The SVG holds lines only and is stretched to its box (`preserveAspectRatio="none"`, strokes not scaled); all text is
//! HTML placed over it by percentages. So the picture takes any width, and labels have the same size on a phone as on
//! a desk. Elements of SVG are written with `{}` to be closed, as XML demands.

use maud::{Markup, html};

use super::path::{Area, coordinate};
use super::{Band, Chart, Entry, path};

/// The stretched coordinate system.
const PLOT: Area = Area { left: 0.0, top: 0.0, width: 1000.0, height: 1000.0 };
/// Height of a checkpoint lane in its own units.
const LANE_HEIGHT: f64 = 10.0;

/// `chart` as a figure.
pub fn render(chart: &Chart) -> Markup {
    html! {
        figure.chart data-field=(chart.field) {
            figcaption {
                h3 { (chart.title) }
                @if !chart.note.is_empty() { p.note { (chart.note) } }
            }
            @if chart.is_empty() {
                p.empty { "No samples." }
            } @else {
                div.frame {
                    div.plot data-seconds=(chart.time.seconds) {
                        (lines(chart))
                        @for tick in &chart.values.ticks {
                            span.y style={ "top:" (percent(1.0 - tick.at)) } { (tick.label) }
                        }
                        @for tick in &chart.time.ticks {
                            span.x style={ "left:" (percent(tick.at)) } { (tick.label) }
                        }
                        @if let Some(limit) = &chart.limit {
                            span.limit style={ "top:" (percent(1.0 - chart.values.place(limit.value))) } { (limit.label) }
                        }
                    }
                    p.unit { (chart.time.unit) }
                    ul.legend {
                        @for entry in &chart.entries { (legend(chart, entry)) }
                    }
                }
            }
        }
    }
}

fn lines(chart: &Chart) -> Markup {
    // The subject is drawn last, on top of the others.
    let (subject, others): (Vec<_>, Vec<_>) = chart.entries.iter().partition(|entry| entry.style.is_subject());
    let grid: String =
        chart.values.ticks.iter().map(|tick| format!("M0 {}H1000", coordinate(PLOT.y(tick.at)))).collect();
    html! {
        svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label=(chart.summary) {
            path.grid d=(grid) {}
            @if let Some(limit) = &chart.limit {
                path.limit d={ "M0 " (coordinate(PLOT.y(chart.values.place(limit.value)))) "H1000" } {}
            }
            @for entry in others.into_iter().chain(subject) {
                @for values in &entry.lines {
                    path.line.(entry.style.class()).thin[entry.lines.len() > 1].subject[entry.style.is_subject()]
                        stroke-dasharray=[entry.style.dash()] d=(path::line(chart, values, PLOT)) {}
                }
            }
        }
    }
}

fn legend(chart: &Chart, entry: &Entry) -> Markup {
    html! {
        li {
            svg.swatch viewBox="0 0 40 10" aria-hidden="true" {
                path.line.(entry.style.class()).subject[entry.style.is_subject()] stroke-dasharray=[entry.style.dash()] d="M1 5H39" {}
            }
            (entry.name)
            @if chart.has_checkpoints() {
                svg.lane viewBox={ "0 0 1000 " (LANE_HEIGHT) } preserveAspectRatio="none" role="img"
                    aria-label={ "Checkpoints of " (entry.name) } {
                    @for band in &entry.checkpoints { (checkpoint(chart, entry, *band)) }
                }
            }
        }
    }
}

fn checkpoint(chart: &Chart, entry: &Entry, band: Band) -> Markup {
    let x = |second: f64| PLOT.x(chart.time.place(second));
    // What took no time at all is still to be seen.
    let width = |from: f64, to: f64| coordinate((x(to) - x(from)).max(2.0));
    html! {
        rect.write.(entry.style.class()) x=(coordinate(x(band.start))) width=(width(band.start, band.end)) height=(LANE_HEIGHT) {}
        rect.sync.(entry.style.class()) x=(coordinate(x(band.sync))) width=(width(band.sync, band.end)) height=(LANE_HEIGHT) {}
    }
}

fn percent(fraction: f64) -> String {
    format!("{}%", coordinate(fraction * 100.0))
}
