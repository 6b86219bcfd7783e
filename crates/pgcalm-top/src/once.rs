//! One picture as plain text, for scripts, pipes and reports.

use ratatui::text::Line;

use crate::scene::{Scene, names};
use crate::section::{Context, missing};
use crate::{format, row, screen, section};

/// The overview with all that it can have, however long, and all that is missing; lines are not cut, names of
/// instances are if all of it would take more than `width` columns. No curves: there are only two samples. Each line ends in a newline.
pub fn text(scene: &Scene, width: usize) -> String {
    let Some(host) = scene.host else { return "no sample was taken\n".to_string() };
    let mut lines = vec![Line::raw(format::date_and_time(scene.end(), scene.offset)), Line::default()];
    match (scene.state.chosen(&names(host)), scene.instance()) {
        (Some(chosen), Some(instance)) => {
            lines.extend(screen::instance_lines(host, chosen, scene.palette, width, usize::MAX));
            lines.push(Line::default());
            let context = Context { scene, host, instance, width, curves: false };
            lines.extend(row::lines(section::all(&context), usize::MAX, scene.palette));
        }
        _ => lines.extend(screen::no_instance(host).into_iter().map(Line::raw)),
    }
    let missing = missing::lines(host, scene.instance(), scene.palette);
    if !missing.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(missing.into_iter().map(|line| row::cut(line, usize::MAX)));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.to_string().trim_end());
        text.push('\n');
    }
    text
}
