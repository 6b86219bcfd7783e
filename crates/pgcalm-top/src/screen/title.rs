//! The first line: which page, which moment.

use ratatui::text::{Line, Span};

use crate::format;
use crate::scene::Scene;
use crate::screen::two_ended;
use crate::state::Page;

/// Intervals after which the newest sample is called old.
const LATE_INTERVALS: f64 = 5.0;

/// Name, pages, and the moment: live, or how long ago.
pub(super) fn line(scene: &Scene, width: usize) -> Line<'static> {
    let mut left = vec![Span::styled("pgcalm top", scene.palette.heading()), Span::raw("  ")];
    for (at, page) in Page::ALL.iter().enumerate() {
        let style = if *page == scene.state.page { scene.palette.selected() } else { scene.palette.secondary() };
        left.push(Span::styled(format!(" {} {} ", at + 1, page.name()), style));
    }
    two_ended(Line::from(left), moment(scene), width)
}

fn moment(scene: &Scene) -> Line<'static> {
    if scene.host.is_none() {
        return Line::default();
    }
    let time = format::time_of_day(scene.end(), scene.offset);
    let age = scene.now - scene.end();
    let span = if !scene.is_live() {
        Span::styled(format!("PAUSED at {time}, {} ago", format::whole_seconds(age)), scene.palette.notice())
    } else if age > scene.interval * LATE_INTERVALS {
        Span::styled(format!("no sample since {time}, {}", format::whole_seconds(age)), scene.palette.alarm())
    } else {
        Span::raw(format!("live {time}"))
    };
    Line::from(span)
}
