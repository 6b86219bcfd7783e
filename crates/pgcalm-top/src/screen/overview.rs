//! The page with the list of instances, the chosen one's figures, and charts where there is room for them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use crate::row::cut;
use crate::scene::{Scene, names};
use crate::screen::{charts, instances};
use crate::section::{Context, missing};
use crate::{row, section};

/// From here on charts stand beside the figures, which don't get better by more than that.
const TWO_COLUMNS: u16 = 130;
const FIGURES_WIDTH: u16 = 92;

/// The list takes at most a fifth of the page.
const LIST_PART: u16 = 5;

/// Draws the page.
pub(super) fn draw(frame: &mut Frame, area: Rect, scene: &Scene) {
    let Some(host) = scene.host else { return };
    let Some(chosen) = scene.state.chosen(&names(host)) else {
        draw_nothing(frame, area, scene);
        return;
    };
    let most = (area.height / LIST_PART).max(2);
    let listed = (host.instances.len() as u16).saturating_add(1).min(most);
    let [list, _, rest] =
        Layout::vertical([Constraint::Length(listed), Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let lines = instances::lines(host, chosen, scene.palette, list.width.into(), list.height.into());
    frame.render_widget(Text::from(lines), list);
    if rest.width >= TWO_COLUMNS {
        let [figures, _, beside] =
            Layout::horizontal([Constraint::Length(FIGURES_WIDTH), Constraint::Length(2), Constraint::Min(0)])
                .areas(rest);
        draw_figures(frame, figures, scene);
        charts::draw_stack(frame, beside, scene);
    } else {
        let used = draw_figures(frame, rest, scene).saturating_add(1);
        let below = Rect { y: rest.y.saturating_add(used), height: rest.height.saturating_sub(used), ..rest };
        charts::draw_stack(frame, below, scene);
    }
}

/// Returns the number of lines.
fn draw_figures(frame: &mut Frame, area: Rect, scene: &Scene) -> u16 {
    let (Some(host), Some(instance)) = (scene.host, scene.instance()) else { return 0 };
    let context = Context { scene, host, instance, width: area.width.into(), curves: true };
    let missing = missing::row(host, Some(instance), scene.palette);
    let room = usize::from(area.height).saturating_sub(missing.iter().len());
    let mut rows = row::fit(section::all(&context), room);
    rows.extend(missing);
    let lines = row::lines(rows, area.width.into(), scene.palette);
    let count = lines.len() as u16;
    frame.render_widget(Text::from(lines), area);
    count
}

fn draw_nothing(frame: &mut Frame, area: Rect, scene: &Scene) {
    let Some(host) = scene.host else { return };
    let mut lines = vec![Line::default()];
    lines.extend(instances::nothing(host).into_iter().map(Line::raw));
    lines.push(Line::default());
    for line in missing::lines(host, None, scene.palette) {
        lines.push(cut(line, area.width.into()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}
