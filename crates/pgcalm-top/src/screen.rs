//! The picture: a title, the page, and a line of keys.

mod charts;
mod footer;
mod help;
mod instances;
mod missing;
mod overview;
mod title;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::scene::Scene;
use crate::state::Page;

pub(crate) use instances::lines as instance_lines;
pub(crate) use instances::nothing as no_instance;

/// Draws the picture of a scene, of the size of the frame.
pub fn draw(frame: &mut Frame, scene: &Scene) {
    let [top, body, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(title::line(scene, top.width.into()), top);
    match scene.state.page {
        _ if scene.host.is_none() => {
            frame.render_widget(Paragraph::new("\n  The first samples are being taken."), body);
        }
        Page::Overview => overview::draw(frame, body, scene),
        Page::Charts => charts::draw_page(frame, body, scene),
        Page::Missing => missing::draw(frame, body, scene),
    }
    if scene.state.help {
        help::draw(frame, body, scene.palette);
    }
    frame.render_widget(footer::line(scene, bottom.width.into()), bottom);
}

/// Text at the left and at the right end of a line; the left one gives way.
fn two_ended(left: Line<'static>, right: Line<'static>, width: usize) -> Line<'static> {
    let room = width.saturating_sub(right.width() + 1);
    let mut line = crate::row::cut(left, room);
    let padding = width.saturating_sub(line.width() + right.width());
    line.spans.push(" ".repeat(padding).into());
    line.spans.extend(right.spans);
    line
}
