//! The last line: the most important keys, and how much time there is.

use ratatui::text::{Line, Span};

use crate::format;
use crate::scene::Scene;
use crate::screen::two_ended;

/// Keys at the left, at the right the time that curves show and that can be travelled.
pub(super) fn line(scene: &Scene, width: usize) -> Line<'static> {
    let keys = "q quit  ? keys  Tab page  ↑↓ instance  Space pause";
    let moments = scene.track.moments();
    let reach = match (moments.first(), moments.last()) {
        (Some(first), Some(last)) => format!(" of {}", format::whole_seconds(last - first)),
        _ => String::new(),
    };
    let span = format::whole_seconds(scene.state.span_seconds());
    two_ended(
        Line::from(Span::styled(keys, scene.palette.secondary())),
        Line::from(Span::styled(format!("curves {span}{reach}"), scene.palette.secondary())),
        width,
    )
}
