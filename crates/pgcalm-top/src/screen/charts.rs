//! Figures over time with axes: transactions, unflushed pages, and what the disks do against their caps.

use pgcalm_monitor::model::Cap;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};

use crate::format;
use crate::row::cut;
use crate::scene::Scene;
use crate::section::disks;
use crate::section::disks::Meter;
use crate::series::Series;

/// Below that a curve of one line says as much.
const LEAST_HEIGHT: u16 = 7;
/// From here on two charts stand side by side on the page of charts.
const TWO_COLUMNS: u16 = 70;

/// A figure over time.
struct Figure {
    title: String,
    series: Series,
    cap: Option<f64>,
    format: fn(f64) -> String,
}

/// As many charts as have room, one below the other, the most important first.
pub(super) fn draw_stack(frame: &mut Frame, area: Rect, scene: &Scene) {
    let count = (area.height / LEAST_HEIGHT).into();
    let figures: Vec<Figure> = figures(scene)
        .into_iter()
        .filter(|figure| figure.series.highest(scene.start(), scene.end()).is_some())
        .take(count)
        .collect();
    if figures.is_empty() {
        return;
    }
    let places = Layout::vertical(figures.iter().map(|_| Constraint::Fill(1))).split(area);
    for (figure, place) in figures.iter().zip(places.iter()) {
        draw(frame, *place, scene, figure);
    }
}

/// The page of charts: side by side and below each other, as many as have room.
pub(super) fn draw_page(frame: &mut Frame, area: Rect, scene: &Scene) {
    let Some(instance) = scene.instance() else {
        frame.render_widget(Paragraph::new("\n  There is no instance."), area);
        return;
    };
    let [title, area] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let name = Line::styled(format!("Instance {}", instance.identity.name), scene.palette.heading());
    frame.render_widget(cut(name, title.width.into()), title);
    let columns = if area.width >= TWO_COLUMNS { 2 } else { 1 };
    let most = usize::from((area.height / LEAST_HEIGHT).max(1)) * columns;
    let figures: Vec<Figure> = figures(scene).into_iter().take(most).collect();
    let rows: Vec<&[Figure]> = figures.chunks(columns).collect();
    let places = Layout::vertical(rows.iter().map(|_| Constraint::Fill(1))).split(area);
    for (row, place) in rows.iter().zip(places.iter()) {
        let places = Layout::horizontal((0..columns).map(|_| Constraint::Fill(1))).spacing(1).split(*place);
        for (figure, place) in row.iter().zip(places.iter()) {
            draw(frame, *place, scene, figure);
        }
    }
}

/// The most important first.
fn figures(scene: &Scene) -> Vec<Figure> {
    let (Some(host), Some(instance)) = (scene.host, scene.instance()) else { return Vec::new() };
    let mut figures = vec![Figure {
        title: "TPS".to_string(),
        series: scene.series(|figures| figures.transactions),
        cap: None,
        format: format::rate,
    }];
    let mut shown: Vec<&str> = Vec::new();
    for volume in &instance.volumes {
        let Some(disk) = volume.disk.as_deref().filter(|disk| !shown.contains(disk)) else { continue };
        shown.push(disk);
        let caps = host.caps_of_all(volume);
        for meter in [Meter::WriteOperations, Meter::WriteBytes] {
            let cap = meter.cap(&caps);
            // A group's cap is for less than what the curve shows.
            let of = if cap.is_some_and(Cap::is_of_group) { ", whole disk" } else { "" };
            figures.push(Figure {
                title: format!("{} {disk} {}{of}", disks::section(volume), meter.name()),
                series: meter.series(scene, disk),
                cap: cap.map(|cap| cap.per_second as f64),
                format: match meter {
                    Meter::WriteOperations | Meter::ReadOperations => format::rate,
                    Meter::WriteBytes | Meter::ReadBytes => format::byte_rate,
                },
            });
        }
    }
    let unflushed = Figure {
        title: "Unflushed pages".to_string(),
        series: scene.series(|figures| figures.unflushed_pages),
        cap: None,
        format: |pages| format::count(pages as u64),
    };
    // After the first disk's: what waits to be written, beside what is written.
    figures.insert(figures.len().min(3), unflushed);
    figures.push(Figure {
        title: "WAL".to_string(),
        series: scene.series(|figures| figures.wal_bytes),
        cap: None,
        format: format::byte_rate,
    });
    figures
}

fn draw(frame: &mut Frame, area: Rect, scene: &Scene, figure: &Figure) {
    let (start, end) = (scene.start(), scene.end());
    let pieces = figure.series.pieces(start, end, scene.gap());
    let newest = pieces.last().and_then(|piece| piece.last());
    let title = cut(title(scene, figure, newest), area.width.into());
    if pieces.is_empty() {
        let nothing = Line::styled("  nothing is known", scene.palette.secondary());
        frame.render_widget(Paragraph::new(vec![title, nothing]), area);
        return;
    }
    let highest = figure.series.highest(start, end).unwrap_or(0.0);
    // The cap is the top unless it is so far away that nothing could be seen of the curve.
    let cap = figure.cap.filter(|cap| *cap <= highest * 10.0);
    let top = cap.unwrap_or(0.0).max(highest).max(f64::MIN_POSITIVE);
    let limit: Vec<(f64, f64)> = cap.map(|cap| vec![(start, cap), (end, cap)]).unwrap_or_default();
    let mut datasets = vec![
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(scene.palette.notice())
            .data(&limit),
    ];
    datasets.extend(pieces.iter().map(|piece| {
        Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(scene.palette.bar()).data(piece)
    }));
    let axis = || Axis::default().style(scene.palette.secondary());
    let chart = Chart::new(datasets)
        .block(Block::new().title(title))
        .x_axis(
            axis()
                .bounds([start, end])
                .labels([format::time_of_day(start, scene.offset), format::time_of_day(end, scene.offset)]),
        )
        .y_axis(axis().bounds([0.0, top]).labels(["0".to_string(), (figure.format)(top)]));
    frame.render_widget(chart, area);
}

fn title(scene: &Scene, figure: &Figure, newest: Option<&(f64, f64)>) -> Line<'static> {
    let mut spans = vec![Span::styled(figure.title.clone(), scene.palette.heading())];
    if let Some((_, value)) = newest {
        spans.push(Span::raw(format!("  {}", (figure.format)(*value))));
    }
    if let Some(cap) = figure.cap {
        spans.push(Span::styled(format!("  cap {}", (figure.format)(cap)), scene.palette.notice()));
    }
    Line::from(spans)
}
