//! The page of all that is missing.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use crate::scene::Scene;
use crate::section::missing;

/// For the host and the chosen instance: what, why, and what to do about it.
pub(super) fn draw(frame: &mut Frame, area: Rect, scene: &Scene) {
    let Some(host) = scene.host else { return };
    let instance = scene.instance();
    let mut lines = vec![Line::default()];
    if let Some(instance) = instance {
        lines.push(Line::styled(
            format!("This host, and instance {}:", instance.identity.name),
            scene.palette.heading(),
        ));
        lines.push(Line::default());
    }
    let missing = missing::lines(host, instance, scene.palette);
    if missing.is_empty() {
        lines.push(Line::raw("Nothing is missing."));
    }
    lines.extend(missing);
    let lines: Vec<Line> = lines.into_iter().map(|line| crate::row::cut(line, usize::MAX)).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}
