//! The matrix as an SVG file, for a README: mean and worst second of stock and of pg_calm in each row.

use maud::{Markup, html};
use pgcalm_render::chart::axis::ValueAxis;
use pgcalm_render::chart::card;
use pgcalm_render::chart::path::coordinate;
use pgcalm_render::number::{ellipsis, short};

use super::{BASELINE, Report, Row, SUBJECT, order, reading};
use crate::contest::report::metric::{TPS_MEAN, TPS_MIN};
use crate::report::style;

const LEFT: f64 = 230.0;
const RIGHT: f64 = 836.0;
const TOP: f64 = 136.0;
const BAR: f64 = 11.0;
const ROW: f64 = 36.0;
const HEADING: f64 = 30.0;
/// What fits left of the bars.
const NAME_CHARS: usize = 26;

/// What a bar shows of a contestant.
struct Bar {
    name: &'static str,
    colour: &'static str,
    mean: f64,
    worst: f64,
    checkpoints: u32,
}

/// Rows under one heading.
struct Group<'a> {
    title: &'static str,
    rows: Vec<(&'a Row, Vec<Bar>)>,
}

/// The bars of a row: none where one of the two did not run.
fn bars(row: &Row) -> Vec<Bar> {
    let names = [BASELINE, SUBJECT];
    let styles = style::assign(names.into_iter());
    names
        .into_iter()
        .zip(styles)
        .map(|(name, style)| {
            let contestant = row.report.as_ref()?.contestants.iter().find(|contestant| contestant.name == name)?;
            Some(Bar {
                name,
                colour: style.light_colour(),
                mean: TPS_MEAN.median_of(contestant)?,
                worst: TPS_MIN.median_of(contestant)?,
                checkpoints: contestant.checkpoints(),
            })
        })
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// All rows that have results of both, those in which pg_calm loses something first, and none that are not steady.
pub fn render(report: &Report) -> String {
    let groups: Vec<Group<'_>> = order::groups(report)
        .into_iter()
        .filter(|group| group.title != order::NOT_STEADY)
        .map(|group| Group {
            title: group.title,
            rows: group.rows.into_iter().map(|row| (row, bars(row))).filter(|(_, bars)| !bars.is_empty()).collect(),
        })
        .filter(|group| !group.rows.is_empty())
        .collect();
    let values =
        ValueAxis::linear(groups.iter().flat_map(|group| &group.rows).flat_map(|(_, bars)| bars).map(|bar| bar.mean));
    let x = |value: f64| LEFT + (RIGHT - LEFT) * values.place(value);
    let mut y = TOP;
    let mut parts = Vec::new();
    for Group { title, rows } in &groups {
        parts.push(html! {
            text x="24" y=(coordinate(y + 16.0)) font-size="15" font-weight="600" { (title) }
        });
        y += HEADING;
        for (row, bars) in rows {
            parts.push(one(row, bars, y, &x));
            y += ROW;
        }
        y += 6.0;
    }
    let bottom = y;
    let content = html! {
        @for tick in &values.ticks {
            @let at = coordinate(LEFT + (RIGHT - LEFT) * tick.at);
            path d={ "M" (at) " " (TOP) "V" (bottom) } stroke="#d8dee4" {}
            text x=(at) y=(bottom + 20.0) font-size="14" text-anchor="middle" { (tick.label) }
        }
        (legend())
        @for part in &parts { (part) }
    };
    let count: usize = groups.iter().map(|group| group.rows.len()).sum();
    card::svg(
        &report.title,
        &caption(report),
        &format!("{}: mean and worst second of stock and pg_calm in {count} rows", report.title),
        bottom + 36.0,
        &content,
    )
}

/// What is shown, and what it was measured with.
fn caption(report: &Report) -> String {
    let on = if reading::is_emulated(report) { " on emulated volumes" } else { "" };
    let with = reading::made_with(report).unwrap_or_default();
    format!("TPS{on}: the worst second (dark) / the mean (whole bar), and checkpoints measured. {with}")
}

fn legend() -> Markup {
    let names = [BASELINE, SUBJECT];
    html! {
        @for (index, (name, style)) in names.into_iter().zip(style::assign(names.into_iter())).enumerate() {
            @let x = 660.0 + 140.0 * index as f64;
            rect x=(x) y="102" width="28" height=(BAR) fill=(style.light_colour()) {}
            text x=(x + 36.0) y="112" font-size="15" { (name) }
        }
    }
}

fn one(row: &Row, bars: &[Bar], top: f64, x: &dyn Fn(f64) -> f64) -> Markup {
    html! {
        text x="24" y=(coordinate(top + BAR + 5.0)) font-size="15" { (ellipsis(&row.name, NAME_CHARS)) }
        @for (index, bar) in bars.iter().enumerate() {
            @let y = top + (BAR + 2.0) * index as f64;
            rect x=(LEFT) y=(coordinate(y)) width=(coordinate(x(bar.mean) - LEFT)) height=(BAR) fill=(bar.colour) fill-opacity="0.35" {}
            rect x=(LEFT) y=(coordinate(y)) width=(coordinate(x(bar.worst) - LEFT)) height=(BAR) fill=(bar.colour) {
                title { (bar.name) }
            }
            text x=(coordinate(x(bar.mean) + 8.0)) y=(coordinate(y + BAR - 1.0)) font-size="12" fill=(card::MUTED) {
                (short(bar.worst)) " / " (short(bar.mean)) ", " (bar.checkpoints)
            }
        }
    }
}
