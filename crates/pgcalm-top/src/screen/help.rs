//! The list of keys, over the picture.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::keys;
use crate::palette::Palette;

const KEYS_WIDTH: usize = 22;
const WIDTH: u16 = 64;

/// All keys with what they do; then what the signs in the picture mean.
pub(super) fn draw(frame: &mut Frame, area: Rect, palette: Palette) {
    let mut lines: Vec<Line> = keys::BINDINGS
        .iter()
        .map(|binding| {
            Line::from(vec![
                Span::styled(format!(" {:KEYS_WIDTH$}", binding.keys), palette.heading()),
                Span::raw(binding.meaning),
            ])
        })
        .collect();
    lines.push(Line::default());
    for text in [
        " Each column of a curve is the worst of its time: the fewest",
        " transactions, the most of all else. A gap: nothing is known.",
        " The top of a curve is the cap, or without one its maximum.",
        " UNFL.: pages written, not flushed. CAP: the most used of all.",
        " mean: sessions at work, averaged over the time of the curves.",
    ] {
        lines.push(Line::styled(text, palette.secondary()));
    }
    let height = (lines.len() + 2).min(usize::from(area.height)) as u16;
    let width = WIDTH.min(area.width);
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), place);
}
